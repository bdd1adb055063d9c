"""A job that tried levers while it ran, for what is made of its results."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.measurement import Measurement
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.recording import has_trials, records_of
from modak_deploy.performance.records import Table

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEPLOYMENT = Deployment.model_validate(
    {
        "application": {
            "name": "net",
            "type": "ai_inference",
            "script": "net.py",
            "framework": {"name": "pytorch"},
            "workload": {"model": "my-net", "unit": "call", "units": 100},
        },
        "request": {"numerics": "relaxed"},
    }
)
FACTS = Facts.model_validate(
    {
        "hostname": "here",
        "glibc": "2.30",
        "python": "/usr/bin/python3",
        "node": {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC 9654"},
        "packages": {"torch": "2.13.0", "python": "3.11.2"},
    }
)
COUNTED = {"name": "inference: Net", "unit": "call", "units": 100, "seconds": 52.0, "steady": 0.25, "compile": 0.1}
LAST = {
    "of": "Net", "levers": ["pytorch-channels-last"], "result": "faster", "kept": True, "one_time": 0.5,
    "times": [0.5, 0.52, 0.48, 0.5], "rival": [], "rival_times": [1.0, 1.1, 0.9, 1.0],
}  # fmt: skip


def plan(table: Table | None = None, **request: Any) -> Plan:
    """Return the Plan of the job, made with what ``table`` has measured and what ``request`` changes."""
    deployment = DEPLOYMENT.model_copy(update={"request": DEPLOYMENT.request.model_copy(update=request)})
    return make_plan(deployment, FACTS, [], now=NOW, measurements=table or Table([]))


def recorded(
    folder: Path,
    trials: list[dict[str, Any]],
    *,
    made: Plan | None = None,
    number: int = 1,
    not_used: tuple[str, ...] = (),
    on: tuple[str, ...] = (),
    **change: Any,
) -> list[Measurement]:
    """Return the measurements of a job with these trials, whose results are written below ``folder``."""
    folder = folder / f"results-{number}"
    folder.mkdir()
    made = made or plan()
    tuning = {"processes": 1, "counted": [COUNTED], "trials": trials, "not_used": list(not_used)}
    tuning["levers"] = list(on)
    job = {
        "id": str(number), "scheduler": "process", "tag": made.tag(), "state": "completed", "exit_code": 0,
        "submitted": 1795208280.0, "started": 1795208281.8, "ended": 1795208341.8, "seconds": 60.0,
        "directory": "/somewhere", "tuning": tuning,
    }  # fmt: skip
    result = JobResult.model_validate({**job, **change})
    assert has_trials(result) == bool(trials or change.get("restart", {}).get("trials"))
    (folder / "plan.json").write_text(made.to_json())
    (folder / "job.json").write_text(result.model_dump_json())
    return records_of(folder, load_catalogue())
