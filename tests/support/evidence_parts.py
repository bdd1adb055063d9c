"""Results of deployed jobs for the tests of reports."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import load_measurements

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DIGITS = {
    "name": "digits",
    "script": "train.py",
    "framework": {"name": "keras"},
    "workload": {
        "model": "mnist-cnn",
        "dataset": "uci-digits",
        "unit": "epoch",
        "units": 12,
        "samples": 1437,
        "batch": 128,
    },
}
FACTS = {
    "hostname": "node1",
    "glibc": "2.36",
    "python": "/usr/bin/python3",
    "libraries": ["libtcmalloc_minimal.so.4"],
    "node": {"cores": 2, "microarchitecture": "x86_64_v4", "cpu_model": "AMD EPYC"},
    "packages": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0", "numpy": "2.4.6", "jax": "0.10.2", "jaxlib": "0.10.2"},
}
TUNING = {
    "processes": 1,
    "counted": [
        {
            "name": "training: Functional", "unit": "step", "units": 144, "seconds": 6.1, "start": 3.2,
            "compile": 1.1, "steady": 0.035, "elapsed": 6.4, "loss": 0.0312,
        }
    ],
    "trials": [
        {"of": "Functional", "levers": [], "result": "the default", "seconds": 0.058, "gain": 1.0},
        {"of": "Functional", "levers": ["keras-mixed-bfloat16"], "result": "faster than the best so far",
         "seconds": 0.035, "gain": 1.66, "kept": True},
        {"of": "Functional", "levers": ["planted-wrong"], "result": "its results differ by 0.8", "seconds": 0.01,
         "gain": 5.8, "failed": True, "difference": 0.8},
        {"of": "Functional", "levers": ["malloc-hugepages"], "result": "not faster", "seconds": 0.061, "gain": 0.95},
    ],
    "settled": [{"of": "Functional", "levers": ["keras-mixed-bfloat16"], "reason": "fastest of all", "gain": 1.66}],
    "not_used": ["planted-wrong: its results differ by 0.8"],
    "peak_memory": 1_234_567_890,
}  # fmt: skip


def digits_plan(**changes: Any) -> Plan:
    """Return the Plan of the digits example on a node that was measured."""
    application = DIGITS | changes.pop("application", {})
    deployment = Deployment.model_validate({"application": application, **changes})
    facts = Facts.model_validate(FACTS)
    return make_plan(deployment, facts, [], now=NOW, measurements=load_measurements())


def job_values(plan: Plan, **changes: Any) -> dict[str, Any]:
    """Return what ``job.json`` holds for the Plan's job."""
    return {
        "id": "4711", "scheduler": plan.scheduler, "tag": plan.tag(), "state": "completed", "exit_code": 0,
        "host": "node1", "submitted": 1795208250.0, "started": 1795208281.8, "ended": 1795208294.3, "seconds": 11.7,
        "directory": "/somewhere/runs/digits", "tuning": TUNING, **changes,
    }  # fmt: skip


def write_results(folder: Path, plan: Plan, job: dict[str, Any] | None) -> Path:
    """Write a results folder as a deployment leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(plan.to_json())
    if job is not None:
        JobResult.model_validate_json(json.dumps(job))
        (folder / "job.json").write_text(json.dumps(job))
    return folder
