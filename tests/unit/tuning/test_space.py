"""What a search changes, and with what: the levers of its space, the cores of its jobs, and when it begins anew."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.execution import Launch
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Facts
from modak_deploy.model.trials import RestartResult, RestartTrial
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.planner import chosen_location
from modak_deploy.performance.records import Table
from modak_deploy.tuning import search
from modak_deploy.tuning.search import Options, Outcome, Search
from modak_deploy.tuning.space import NONE, space_of
from tuning_parts import DOCUMENT

MINE = """version: 1
groups:
  - {name: starters, summary: what starts the program}
levers:
  - {name: nicely, group: starters, summary: started by nice, default: true, effects: {prefix: [nice]}}
  - {name: unbuffered, group: starters, summary: no buffer, environment: {UNBUFFERED: "1"}}
  - {name: alone, group: threads, summary: one thread, default: true, threads: 1, environment: {OMP_NUM_THREADS: "1"}}
"""
APPLICATION = {
    "name": "train",
    "type": "ai_training",
    "executable": "./train",
    "framework": {"name": "pytorch"},
    "progress": r"step (\d+)",
    "workload": {"model": "net", "unit": "step", "units": 100},
}
FACTS = {
    "hostname": "login",
    "scheduler": "slurm",
    "scheduler_version": "23.11",
    "glibc": "2.36",
    "node": {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC 9654"},
    "partitions": [{"name": "main", "default": True, "nodes": 4, "node": {"cores": 8}}],
    "packages": {"torch": "2.1.0"},
}
ALL_ALIKE = Options(rounds=1, batch=4)


class Target:
    """Runs jobs in which all takes as long, and keeps those that it has run, as the folders of a target do."""

    def __init__(self) -> None:
        self.requests: dict[str, JobRequest] = {}

    def present(self, request: JobRequest, sources: Any, *, realise: Any = None) -> Any:
        made = request.tag not in self.requests
        self.requests[request.tag] = request
        return SimpleNamespace(job=request, made=made)

    def wait(self, present: Any) -> list[JobResult]:
        base = {"id": "1", "scheduler": "slurm", "tag": present[0].job.tag, "directory": "/d", "state": "completed"}
        return [JobResult.model_validate(base)]

    def fetch_results(self, request: JobRequest, result: JobResult, results: Path) -> Any:
        assert request.restart is not None
        trials = [
            RestartTrial(name=candidate.name, state="measured", start=1.0, steady=1.0, units=9)
            for candidate in request.restart.candidates
        ]
        return SimpleNamespace(result=result.model_copy(update={"restart": RestartResult(trials=trials)}))


Make = Callable[..., Search]


@pytest.fixture
def searched(tmp_path: Path) -> Make:
    """Return the function that makes a search on a cluster, of a program with levers of the user's own."""
    pytest.importorskip("optuna", reason="pip install 'modak-deploy[tune]'")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "levers.yaml").write_text(MINE)
    catalogue = catalogue_for([str(tmp_path / "mine")])
    document = {"application": APPLICATION, "target": {"name": "cluster", "type": "slurm", "host": "login"}}
    deployment = Deployment.model_validate(document)

    def make(target: Target, *, month: int = 1, folder: str = "tune", **facts: Any) -> Search:
        now = datetime(2026, month, 1, tzinfo=UTC)
        there = Facts.model_validate({**FACTS, **facts})
        plan = make_plan(deployment, there, [], now=now, catalogue=catalogue, measurements=Table([]))
        jobs: Any = target
        return Search(
            plan, catalogue, jobs, [], folder=tmp_path / folder, results=tmp_path, say=print, options=ALL_ALIKE
        )

    return make


def test_a_chosen_lever_that_starts_the_program_stays(searched: Make) -> None:
    """Without it the program would still be started by it, and be said to be measured without."""
    space = searched(Target())._space
    assert space.groups["starters"] == ["nicely"]
    assert len(space.groups["threads"]) > 2, "others can be changed"


def test_numbers_of_threads_are_tried_with_the_cores_that_they_use(searched: Make) -> None:
    target = Target()
    made = searched(target)
    assert "alone" in made._plan.chosen.levers
    made.run()
    assert {request.resources.threads for request in target.requests.values()} == {8}


@pytest.mark.parametrize("counts", [True, False])
def test_what_is_on_in_the_chosen_candidate_is_on_in_trials(counts: bool) -> None:
    chosen = Launch(trials="live", levers=["a"], candidates=["b"], session={"enable_mem_pattern": False})
    launch = search._launch(chosen, counts=counts)
    assert launch == Launch(counts=counts, levers=["a"], session={"enable_mem_pattern": False})
    assert (search._launch(None, counts=counts) is None) != counts


def outcome(made: Search, target: Target) -> tuple[Outcome, int]:
    """Return what a search comes to, and how many jobs it submits."""
    before = len(target.requests)
    return made.run(), len(target.requests) - before


def test_a_search_on_other_software_is_another_one(searched: Make) -> None:
    target = Target()
    first, jobs = outcome(searched(target), target)
    assert first.changed and jobs == 1
    assert outcome(searched(target, month=2), target)[1] == 0, "the same, which has ended"
    assert outcome(searched(target, month=2, packages={"torch": "2.1.0", "left-pad": "1.0"}), target)[1] == 0
    later, jobs = outcome(searched(target, month=2, packages={"torch": "2.9.0"}), target)
    assert later.changed and jobs == 1
    assert not outcome(searched(target, month=3), target)[0].changed, "nor is the first one forgotten"


def test_a_search_whose_state_was_removed_measures_anew(searched: Make) -> None:
    target = Target()
    outcome(searched(target), target)
    assert outcome(searched(target, month=2, folder="emptied"), target)[1] == 1


def test_what_the_user_sets_stays_where_a_lever_that_sets_it_as_well_is_off() -> None:
    """It was taken away from all candidates without the lever, and the program measured as nobody runs it."""
    application = {**DOCUMENT["application"], "environment": {"OMP_PLACES": "cores"}}
    deployment = Deployment.model_validate({"application": application, "request": {"require_levers": ["omp-close"]}})
    facts = Facts.model_validate({**FACTS, "scheduler": None, "partitions": []})
    catalogue = load_catalogue()
    plan = make_plan(deployment, facts, [], now=datetime(2026, 1, 1, tzinfo=UTC), measurements=Table([]))
    assert plan.chosen.environment == {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
    space = space_of(deployment, plan, chosen_location(plan, catalogue), catalogue)
    other = space.candidate({**space.start, "affinity": NONE})
    assert (other.environment, other.unset) == ({"OMP_PLACES": "cores"}, ["OMP_PROC_BIND"])
