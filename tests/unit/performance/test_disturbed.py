"""Jobs on nodes that did other work meanwhile: of those only what was tried side by side counts, and only there."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.deploy.running import recorded as recorded_by_itself
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table, available_measurements
from tried_parts import DEPLOYMENT, FACTS, LAST, NOW, plan

CHANNELS = "pytorch-channels-last"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records):
    """Return the function that records a job as a deployment does by itself, and returns all measurements of it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("MODAK_FITTING", "manual")

    def keep(trials: list[dict[str, Any]], made: Plan, record: bool | None = None, **change: Any) -> list[Any]:
        records(trials, made=made, **change)
        folder = tmp_path / "results-1"
        result = JobResult.model_validate_json((folder / "job.json").read_text())
        result = result.model_copy(update={"results": str(folder)})
        recorded_by_itself(made, result, record, [], pytest.fail)
        return [observation for _, observation in available_measurements().evidence_of("my-net")]

    return keep


def restart_plan() -> Plan:
    values = DEPLOYMENT.model_dump(mode="json", exclude_unset=True)
    values["request"]["trials"] = {"budget": 60}
    return make_plan(Deployment.model_validate(values), FACTS, [], now=NOW, measurements=Table([]))


def restart_of(made: Plan) -> dict[str, Any]:
    assert made.restart is not None
    default, other = made.restart.candidates[:2]
    trials = [{"name": c.name, "state": "measured", "start": 1.0, "units": 9, "steady": 0.5} for c in (default, other)]
    return {"trials": trials, "chosen": default.name, "levers": default.levers, "seconds": 5.0}


@pytest.mark.parametrize(("load", "record", "kinds"), [
    (8.0, None, ["trial", "trial"]),
    (None, None, ["trial", "trial"]),
    (0.1, None, ["trial", "trial", "whole"]),
    (8.0, True, ["trial", "trial", "whole"]),
    (0.1, False, []),
])  # fmt: skip
def test_the_run_after_trials_is_recorded_where_it_was_undisturbed(kept, load, record, kinds):
    made = restart_plan()
    found = kept([], made, record, restart=restart_of(made), load=load)
    assert sorted(observation.kind or "whole" for observation in found) == kinds


def test_what_a_disturbed_job_could_not_use_is_noted_all_the_same(kept):
    wrong = {**LAST, "kept": False, "failed": True, "times": [0.1], "rival_times": []}
    (found,) = kept([wrong], plan(), load=8.0)
    assert (found.kind, found.failed) == ("trial", [CHANNELS])
    after = plan(Table([found]))
    assert CHANNELS not in after.chosen.launch.candidates and after.prediction.basis == "trial"
