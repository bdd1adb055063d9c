"""Results of deployed jobs for the tests of reports."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from modak_deploy.evidence.bundle import archive
from modak_deploy.evidence.protocol import Protocol, Repeat, settings
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Measurements, load_measurements

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


def digits_plan(measurements: Measurements | None = None, **changes: Any) -> Plan:
    """Return the Plan of the digits example on a node that was measured, by what ships or these measurements."""
    application = DIGITS | changes.pop("application", {})
    deployment = Deployment.model_validate({"application": application, **changes})
    facts = Facts.model_validate(FACTS)
    return make_plan(deployment, facts, [], now=NOW, measurements=measurements or load_measurements())


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


def repeat(name: str, block: int, wall: float, **more: Any) -> Repeat:
    """Return a run of a benchmark as its driver writes it."""
    values = {"name": name, "block": block, "time": 1, "load": 0.1, "wall": wall, "cpu": wall}
    return Repeat.model_validate({**values, **more})


def drive(
    folder: Path, configurations: dict[str, str], launch: dict[str, Any] | None = None, **change: Any
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run a benchmark's driver in ``folder`` as a job would, in its ``work``."""
    work = prepare(folder, configurations, launch, **change)
    done = subprocess.run([sys.executable, "driver.pyz", "settings.json"], cwd=work, capture_output=True, text=True)
    return done, work


def prepare(folder: Path, configurations: dict[str, str], launch: dict[str, Any] | None = None, **change: Any) -> Path:
    """Write the driver and its settings; ``configurations`` are commands by names, and ``launch`` what some have."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "driver.pyz").write_bytes(archive())
    protocol = Protocol.model_validate({"least": 2, "most": 2, "others": 1000.0, "retries": 0, **change})
    more = {"outputs": ["out.txt"], "metrics": None, "first_key": "first", "later_key": "later"}
    entries = [
        {"name": name, "command": command, "environment": {}, "launch": (launch or {}).get(name)}
        for name, command in configurations.items()
    ]
    (work / "settings.json").write_text(settings(protocol, entries, **more))
    return work
