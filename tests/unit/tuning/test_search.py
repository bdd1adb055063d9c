"""modak tune: the search on a fake target, its memory, its end, and what it says."""

import errno
import fcntl
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError, JobError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Facts
from modak_deploy.model.trials import RestartResult, RestartTrial
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table
from modak_deploy.tuning.command import lines
from modak_deploy.tuning.search import Options, Search
from modak_deploy.tuning.space import Point
from tuning_parts import DOCUMENT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = Facts.model_validate(
    {
        "hostname": "here",
        "glibc": "2.36",
        "libraries": ["libtcmalloc_minimal.so.4", "libjemalloc.so.2"],
        "node": {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC 9654"},
    }
)
COST = {
    "malloc-hugepages": 0.5,
    "tcmalloc": 0.8,
    "jemalloc": 1.3,
    "one-thread": 3.0,
    "threads-half": 1.2,
    "threads-2": 1.4,
    "omp-close": 0.9,
    "omp-spread": 1.1,
}
"""Factors that multiply, but for one pair."""


class Target:
    """Measures as a node would, and counts its jobs."""

    def __init__(
        self, cost: dict[str, float], *, fails: frozenset[str] = frozenset(), die_in: int | None = None
    ) -> None:
        self.plans: list[JobRequest] = []
        self._done: set[str] = set()
        self._cost, self._fails, self._die_in = cost, fails, die_in

    def present(self, plan: JobRequest, sources: Any, *, realise: Any = None) -> Any:
        made = plan.tag not in self._done
        if made:
            self.plans.append(plan)
            self._done.add(plan.tag)
        if made and self._die_in == len(self.plans):
            self._die_in = None
            raise KeyboardInterrupt
        return SimpleNamespace(job=plan, made=made)

    def wait(self, present: Any) -> list[JobResult]:
        base = {"id": "1", "scheduler": "process", "tag": present[0].job.tag, "directory": "/d", "state": "completed"}
        return [JobResult.model_validate(base)]

    def fetch_results(self, plan: JobRequest, result: JobResult, results: Path) -> Any:
        assert plan.restart is not None
        trials = [
            self._trial(candidate.name, candidate.levers, number)
            for number in range(1, plan.restart.rounds + 1)
            for candidate in plan.restart.candidates
        ]
        return SimpleNamespace(result=result.model_copy(update={"restart": RestartResult(trials=trials)}))

    def _trial(self, name: str, levers: list[str], number: int) -> RestartTrial:
        if self._fails & set(levers):
            return RestartTrial(name=name, levers=levers, state="failed", reason="exit code 1", exit_code=1)
        steady = 1.0
        for lever in levers:
            steady *= self._cost[lever]
        steady *= 1 + 0.004 * ((len(name) + number) % 3 - 1)
        return RestartTrial(name=name, levers=levers, state="measured", round=number, start=1.0, steady=steady, units=9)


@pytest.fixture
def search(tmp_path: Path) -> Callable[..., Search]:
    """Return the function that makes a search on a target."""
    pytest.importorskip("optuna", reason="pip install 'modak-deploy[tune]'")
    plan = make_plan(Deployment.model_validate(DOCUMENT), FACTS, [], now=NOW, measurements=Table([]))

    def make(target: Target, options: Options | None = None, folder: str = "tune") -> Search:
        said: list[str] = []
        return Search(
            plan, load_catalogue(), target, [], folder=tmp_path / folder, results=tmp_path, say=said.append,  # type: ignore[arg-type]
            options=options or Options(),
        )  # fmt: skip

    return make


def names_in(*requests: JobRequest) -> set[str]:
    return {candidate.name for one in requests if one.restart for candidate in one.restart.candidates}


def test_the_best_combination_is_found_and_confirmed(search: Callable[..., Search]) -> None:
    target = Target(COST)
    outcome = search(target).run()
    assert outcome.levers == ["malloc-hugepages", "omp-close"]
    assert outcome.low > 1 and outcome.gain == pytest.approx(100 / 46, rel=0.05)
    assert outcome.changed and all(plan.restart and plan.restart.only for plan in target.plans)
    assert target.plans[-1].restart.rounds == 3 and len(target.plans[-1].restart.candidates) == 2
    assert len({plan.name for plan in target.plans}) == len(target.plans)
    assert target.plans[0].restart.candidates[0].levers == []


def test_a_search_that_has_ended_submits_nothing_more(search: Callable[..., Search]) -> None:
    target = Target(COST)
    first = search(target).run()
    jobs = len(target.plans)
    again = search(target).run()
    assert len(target.plans) == jobs and not again.changed
    assert (again.winner, again.gain) == (first.winner, first.gain)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_search_that_was_ended_goes_on(search: Callable[..., Search], number: int) -> None:
    whole = Target(COST)
    expected = search(whole, folder="whole").run()
    target = Target(COST, die_in=number)
    with pytest.raises(KeyboardInterrupt):
        search(target).run()
    assert search(target).run().winner == expected.winner
    assert [plan.tag for plan in target.plans] == [plan.tag for plan in whole.plans]


SMALL = Options(rounds=1, batch=3)


@pytest.mark.parametrize("number", [1, 3])
def test_a_search_that_was_ended_among_the_results_of_a_round_measures_none_again(
    search: Callable[..., Search], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    whole, target = Target(COST), Target(COST)
    search(whole, SMALL, folder="whole").run()
    made, told = search(target, SMALL), []
    tell = made._study.tell

    def interrupted(point: Point, ratio: float | None) -> None:
        told.append(point)
        if len(told) == number:
            raise KeyboardInterrupt
        tell(point, ratio)

    monkeypatch.setattr(made._study, "tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    search(target, SMALL).run()
    assert [plan.tag for plan in target.plans] == [plan.tag for plan in whole.plans]


def test_a_search_that_was_ended_while_it_chose_forgets_no_candidate(
    search: Callable[..., Search], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, target = Target(COST), Target(COST)
    search(whole, SMALL, folder="whole").run()
    made = search(target, SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("optuna.trial.Trial.set_user_attr", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made.run()
    search(target).run()
    assert names_in(whole.plans[0]) <= names_in(*target.plans)


def test_a_torn_line_and_a_lock_that_was_left_are_no_end(search: Callable[..., Search], tmp_path: Path) -> None:
    target = Target(COST, die_in=1)
    with pytest.raises(KeyboardInterrupt):
        search(target, SMALL).run()
    (journal,) = (tmp_path / "tune").glob("*.journal")
    with journal.open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    journal.with_name(f"{journal.name}.lock").symlink_to(journal)
    began = time.monotonic()
    assert search(target, SMALL).run().tried == 3
    assert time.monotonic() - began < 20


def test_a_memory_that_cannot_be_kept_is_an_error(
    search: Callable[..., Search], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = search(Target(COST))
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("optuna.storages.journal.JournalFileBackend.append_logs", full)
    with pytest.raises(InputError, match=r"\.journal cannot be written: No space left on device"):
        made.run()
    monkeypatch.undo()
    (journal,) = (tmp_path / "tune").glob("*.journal")
    journal.write_text('{"op_code": 4, "wor{"op_code": 5}\n{}\n')
    with pytest.raises(InputError, match=r"\.journal: cannot be read: .*; remove it to search anew"):
        search(Target(COST))


def test_one_process_alone_carries_out_a_search(search: Callable[..., Search], tmp_path: Path) -> None:
    made = search(Target(COST), SMALL)
    (journal,) = (tmp_path / "tune").glob("*.journal")
    with journal.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for attempt in (made.run, lambda: search(Target(COST))):
            with pytest.raises(InputError, match="another process is carrying out this search"):
                attempt()
    assert made.run().tried == 3


def test_nothing_is_confirmed_where_nothing_is_faster(search: Callable[..., Search]) -> None:
    target = Target(dict.fromkeys(COST, 1.0))
    outcome = search(target).run()
    assert outcome.winner == outcome.default == "as-is"
    assert "no gain" in outcome.reason
    assert not any(plan.name.endswith("confirm") for plan in target.plans)


def test_what_fails_is_no_winner(search: Callable[..., Search]) -> None:
    outcome = search(Target(COST, fails=frozenset({"malloc-hugepages"}))).run()
    assert "malloc-hugepages" not in outcome.levers and outcome.failed


def test_a_default_that_fails_is_an_error(search: Callable[..., Search], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(COST)
    monkeypatch.setattr(
        target, "_trial", lambda name, levers, number: RestartTrial(name=name, state="failed", reason="exit code 1")
    )
    with pytest.raises(JobError, match="measured no default"):
        search(target).run()
    monkeypatch.undo()  # it was the machine's fault: what was to be tried is tried by another job
    assert search(target).run().levers == ["malloc-hugepages", "omp-close"]
    assert names_in(target.plans[0]) <= names_in(*target.plans[1:])


def test_optuna_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    plan = make_plan(Deployment.model_validate(DOCUMENT), FACTS, [], now=NOW, measurements=Table([]))
    with pytest.raises(InputError, match=r"pip install 'modak-deploy\[tune\]'"):
        Search(plan, load_catalogue(), Target(COST), [], folder=tmp_path, results=tmp_path, say=print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"progress": None}, "give application.progress"), ({"secret_environment": {"A": {"variable": "a"}}}, "secret")],
)
def test_what_cannot_be_searched_is_said(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    values = {**DOCUMENT["application"], **change}
    document = {"application": {key: value for key, value in values.items() if value is not None}}
    plan = make_plan(Deployment.model_validate(document), FACTS, [], now=NOW, measurements=Table([]))
    with pytest.raises(InputError, match=reason):
        Search(plan, load_catalogue(), Target(COST), [], folder=tmp_path, results=tmp_path, say=print)  # type: ignore[arg-type]


def test_the_end_is_told(search: Callable[..., Search]) -> None:
    made = search(Target(COST))
    told = list(lines(made._plan, made.run()))
    assert any("times as fast as as-is, in fresh runs" in line for line in told)


def test_a_round_that_was_begun_goes_on_with_its_budget(search: Callable[..., Search]) -> None:
    """With another one its job would be submitted once more, beside that in the queue."""
    target = Target(COST, die_in=2)
    with pytest.raises(KeyboardInterrupt):
        search(target, Options(rounds=3)).run()
    search(target, Options(rounds=3, budget=300)).run()
    budgets = {plan.name: plan.restart.budget for plan in target.plans if plan.restart}
    assert len(budgets) == len(target.plans)
    assert list(budgets.values()) == [120, 120, 300, 300]
