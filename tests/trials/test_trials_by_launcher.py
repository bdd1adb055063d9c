"""Restart trials of an unchanged PyTorch program, whose steps the launcher counts: here and on the real Slurm."""

import secrets
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.base import Transport
from modak_deploy.transport.local import LocalTransport
from modak_deploy.transport.ssh import SshTransport
from rig import TOP, Rig
from transports import Notes
from trial_parts import leaves_nothing, states

EXAMPLE = TOP / "examples" / "pytorch-training"
PYTHON = str(TOP / ".venv" / "bin" / "python")
LEVERS = """version: 1
groups:
  - {name: kernels, summary: instructions that oneDNN may use}
levers:
  - {name: old-kernels, group: kernels, summary: SSE 4.1 alone, environment: {ONEDNN_MAX_CPU_ISA: SSE41}}
  - {name: refused, group: kernels, summary: PyTorch cannot be imported, environment: {PYTHONHOME: /nowhere}}
"""
HASTY = replace(Timeouts(), settle=1.0, lost=1.0, pause=0.2)
Ended = tuple[JobResult, str, list[str]]


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Ended]:
    """Return what trains with restart trials and returns how that ended, the output, and what was said meanwhile."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
        pytest.skip("PyTorch is not installed")
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "levers.yaml").write_text(LEVERS)

    def run(transport: Transport, target: dict[str, Any], **job: Any) -> Ended:
        document = {
            "application": {
                "name": f"trained-{secrets.token_hex(4)}", "type": "ai_training", "script": "train.py",
                "arguments": ["--epochs", "2", "--batch", "64", "--samples", "2560"],
                "outputs": ["metrics.json"], "metrics": "metrics.json", "framework": {"name": "pytorch"},
                "workload": {"model": "mnist-cnn", "unit": "step", "units": 80},
            },
            "target": {"name": "here", "python": PYTHON, "polling": {"first": 0.2, "maximum": 1.0}, **target},
            "request": {
                "catalogue": [str(folder)], "trials": {"budget": 200, "live": False},
                "forbid_levers": ["one-thread", *_of_group("allocator")],
            },
            "job": job,
        }  # fmt: skip
        deployment = parse_deployment(document, origin="the test")
        plan = plan_deployment(deployment, transport, search=[EXAMPLE], now=datetime.now(UTC))
        assert plan.restart is not None, plan.reason
        assert (plan.restart.signal, plan.restart.units) == ("launcher", 80)
        notes = Notes()
        jobs = Jobs(transport, timeouts=HASTY, reporter=notes)
        present = jobs.present(job_request(plan), find_sources(plan.application, [EXAMPLE]))
        (result,) = jobs.wait([present], timeout=400)
        result = jobs.fetch_results(present.job, result, tmp_path / "results").result
        return result, (tmp_path / "results" / plan.name / "output.log").read_text(), notes.notices

    return run


def _of_group(name: str) -> list[str]:
    from modak_deploy.catalogue.catalogue import load_catalogue

    return [lever.name for lever in load_catalogue().by_group[name]]


def check(ended: Ended) -> None:
    result, output, _ = ended
    assert result.state == "completed", output
    tried = result.restart
    assert tried is not None and tried.chosen is not None, output
    found = states(result)
    assert (found["as-is"], found["refused"]) == ("measured", "failed"), output
    assert found["old-kernels"] in ("measured", "beaten"), output
    assert "refused" not in tried.levers
    assert all(trial.steady and trial.units >= 2 for trial in tried.trials if trial.state == "measured"), tried
    assert result.tuning is not None
    assert [(counted.unit, counted.units) for counted in result.tuning.counted] == [("step", 80)]


def test_steps_of_pytorch_on_this_machine(train: Callable[..., Ended], tmp_path: Path) -> None:
    ended = train(LocalTransport(), {"workspace": str(tmp_path / "space")})
    check(ended)
    leaves_nothing(ended[0])


def test_steps_of_pytorch_on_slurm(train: Callable[..., Ended], real_slurm: Rig) -> None:
    with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
        check(train(transport, {"type": "slurm", "host": "slurm-login"}, wall_time="20m"))
