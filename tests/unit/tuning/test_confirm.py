"""What a search ends with: fresh runs of the best candidate and of the default, and what is recorded."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Facts
from modak_deploy.model.trials import RestartResult, RestartTrial
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table
from modak_deploy.tuning import search
from modak_deploy.tuning.command import lines
from tuning_parts import DOCUMENT

SOLVER = Deployment.model_validate(DOCUMENT)
FACTS = Facts.model_validate(
    {"hostname": "here", "glibc": "2.36", "node": {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC"}}
)
SEEMS = "malloc-hugepages"
"""What is 5 % faster in the search."""


class Target:
    """Measures ``fresh`` runs of the default and of the best candidate in the end, as many as there are."""

    def __init__(self, fresh: Sequence[Sequence[float]], results: Path | None = None) -> None:
        self._fresh, self._results = fresh, results

    def present(self, plan: JobRequest, sources: Any, *, realise: Any = None) -> Any:
        return SimpleNamespace(job=plan, made=True)

    def wait(self, present: Any) -> list[JobResult]:
        base = {"id": "1", "scheduler": "process", "tag": present[0].job.tag, "directory": "/d", "state": "completed"}
        return [JobResult.model_validate(base)]

    def fetch_results(self, plan: JobRequest, result: JobResult, results: Path) -> Any:
        assert plan.restart is not None
        trials = []
        for number, candidate in enumerate(plan.restart.candidates):
            times = [0.95 if SEEMS in candidate.levers else 1.0]
            if plan.name.endswith("confirm"):
                times = list(self._fresh[number])
            trials += [
                RestartTrial(name=candidate.name, state="measured", round=n, start=seconds, steady=seconds, units=9)
                for n, seconds in enumerate(times, start=1)
            ]
        update = {"restart": RestartResult(trials=trials), "results": str(self._results) if self._results else None}
        return SimpleNamespace(result=result.model_copy(update=update))


def searched(target: Target, folder: Path, **options: Any) -> tuple[search.Outcome, list[str]]:
    pytest.importorskip("optuna", reason="pip install 'modak-deploy[tune]'")
    plan = make_plan(SOLVER, FACTS, [], now=datetime(2026, 1, 1, tzinfo=UTC), measurements=Table([]))
    said: list[str] = []
    jobs: Any = target
    made = search.Search(
        plan, load_catalogue(), jobs, [], folder=folder / "tune", results=folder, say=said.append, **options
    )
    outcome = made.run()
    return outcome, [*said, *lines(plan, outcome)]


@pytest.mark.parametrize(
    ("default", "best", "wins", "reason"),
    [
        ([1.0, 1.01, 1.0], [0.95, 0.96, 0.95], True, ""),
        ([1.0, 1.0, 1.0], [0.9999, 0.9999, 0.9999], False, "was 1.00 to 1.00 times as fast, no clear gain"),
        ([1.0, 1.0, 1.0], [0.99, 0.985, 0.99], False, "was 1.01 to 1.02 times as fast, no clear gain"),
        ([1.0, 1.2], [0.9, 1.1], False, "no clear gain"),
        ([1.0], [0.9], False, "the budget did not suffice for 2 fresh runs of malloc-hugepages and of the default"),
        ([1.0, 1.0], [0.9], False, "the budget did not suffice for 2 fresh runs"),
        ([1.0, 1.0], [], False, "no fresh run of malloc-hugepages could be timed"),
        ([], [0.9], False, "no fresh run of the default could be timed"),
    ],
)
def test_the_default_stays_unless_fresh_runs_show_more_than_the_noise(
    tmp_path: Path, default: list[float], best: list[float], wins: bool, reason: str
) -> None:
    outcome, _ = searched(Target([default, best]), tmp_path)
    assert outcome.winner == (SEEMS if wins else "as-is")
    assert reason in outcome.reason
    assert wins == (outcome.low > 1.02)


FASTER = [[1.0] * 3, [0.5] * 3]


def test_what_cannot_be_recorded_is_no_reason_to_end_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise InputError("job.json: seconds: the job's script measured none")

    monkeypatch.setattr(search, "add_results", refuse)
    outcome, said = searched(Target(FASTER, tmp_path), tmp_path)
    assert (outcome.winner, outcome.recorded) == (SEEMS, 0)
    assert "job 1 is not recorded: job.json: seconds: the job's script measured none" in said


@pytest.mark.parametrize("record", [True, False])
def test_nothing_is_recorded_where_the_user_says_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: bool
) -> None:
    monkeypatch.setattr(search, "add_results", lambda *arguments: (1, 0, "store"))
    outcome, said = searched(Target(FASTER, tmp_path), tmp_path, record=record)
    assert bool(outcome.recorded) == record
    assert any(line.startswith("nothing is recorded: the description says 'record: false'") for line in said) != record
