"""Restart trials of MPI programs: all ranks of a trial start together and end together, and none is left."""

import os
import re
import secrets
import shutil
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
from rig import Rig
from trial_parts import states

SOURCE = Path(__file__).parents[1] / "data" / "applications" / "steps.c"
HASTY = replace(Timeouts(), settle=1.0, lost=1.0, pause=0.2)
LEVERS = """version: 1
groups:
  - {name: pauses, summary: how long the program pauses}
levers:
  - {name: short, group: pauses, summary: short pauses, environment: {PAUSE: "60"}}
  - {name: deaf, group: pauses, summary: a rank that hangs and cannot be asked to end, environment: {DEAF: "1"}}
"""
Ended = tuple[JobResult, str]


@pytest.fixture
def deploy(tmp_path: Path) -> Callable[..., Ended]:
    """Return what builds and runs the program with trials on a target and returns how it ended and what it printed."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "levers.yaml").write_text(LEVERS)
    shutil.copy(SOURCE, tmp_path)

    def run(transport: Transport, target: dict[str, Any], **job: Any) -> Ended:
        document = {
            "application": {
                "name": f"steps-{secrets.token_hex(4)}", "type": "hpc", "executable": "./steps", "arguments": ["20"],
                "inputs": ["steps.c"], "progress": r"step (\d+) loss=(\d+)",
                "workload": {"model": "steps", "unit": "iteration", "units": 20},
            },
            "target": {"name": "here", "polling": {"first": 0.2, "maximum": 1.0}, **target},
            "request": {
                "catalogue": [str(folder)], "trials": {"budget": 60},
                "forbid_levers": ["one-thread", "omp-close", "omp-spread", *_allocators()],
            },
            "job": {"pre_execution": "mpicc.mpich -O1 -o steps steps.c", **job},
        }  # fmt: skip
        deployment = parse_deployment(document, origin="the test")
        plan = plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))
        assert plan.restart is not None, plan.reason
        jobs = Jobs(transport, timeouts=HASTY)
        present = jobs.present(job_request(plan), find_sources(plan.application, [tmp_path]))
        (result,) = jobs.wait([present], timeout=200)
        result = jobs.fetch_results(present.job, result, tmp_path / "results").result
        return result, (tmp_path / "results" / plan.name / "output.log").read_text()

    return run


def _allocators() -> list[str]:
    from modak_deploy.catalogue.catalogue import load_catalogue

    return [lever.name for lever in load_catalogue().by_group["allocator"]]


def alive(text: bytes) -> list[Path]:
    """Return the processes of this machine with a text in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if text in (process / "environ").read_bytes():
                found.append(process)
        except OSError:
            continue
    return found


def check(ended: Ended, ranks: int) -> list[str]:
    """Check that the short pauses were found and used by all ranks, and that nothing is left; return the hosts."""
    result, output = ended
    assert (result.state, result.exit_code) == ("completed", 0), output
    assert result.restart is not None and result.restart.levers == ["short"], output
    assert states(result) == {"as-is": "measured", "short": "measured", "deaf": "beaten"}, output
    lines = sorted(line for line in output.splitlines() if line.startswith("rank "))
    assert [line.partition(" on ")[0] for line in lines] == [f"rank {n} of {ranks} pause 60" for n in range(ranks)]
    assert re.findall(r"^step 20 ", output, re.MULTILINE) == ["step 20 "]
    assert not alive(f"MODAK_TRIAL={result.directory}".encode())
    return [line.partition(" on ")[2] for line in lines]


@pytest.mark.skipif(shutil.which("mpirun.mpich") is None, reason="MPICH is not installed")
def test_ranks_of_mpirun_try_together(deploy: Callable[..., Ended], tmp_path: Path) -> None:
    target = {"workspace": str(tmp_path / "space")}
    check(deploy(LocalTransport(), target, ranks=2), 2)
    assert not [path for path in alive(b"DEAF=1") if int(path.name) != os.getpid()]


def test_ranks_of_srun_on_two_nodes_try_together(deploy: Callable[..., Ended], real_slurm: Rig) -> None:
    target = {"type": "slurm", "host": "slurm-login", "mpi_type": "pmi2"}
    with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
        check(deploy(transport, target, nodes=2, ranks=4, wall_time="10m"), 4)
    assert not alive(b"DEAF=1")
