"""A container on the real Slurm over ssh: planned from what the login node tells, checked there, run by srun."""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers
from modak_deploy.documents import find_sources, parse_deployment
from modak_deploy.errors import TargetError
from modak_deploy.images.store import realise
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.model.plan import Plan
from modak_deploy.planning import plan_deployment, with_image
from modak_deploy.transport.ssh import SshTransport
from rig import Rig

SCRIPT = """
import json, os, sys
from pathlib import Path
known = {name: os.environ.get(name) for name in ("SLURM_JOB_ID", "SLURM_PROCID", "ASKED_FOR", "PYTHONPATH")}
inside = Path("/.singularity.d").is_dir()
told = {"inside": inside, "work": os.getcwd(), "argv": sys.argv[1:], **known}
Path(f"rank-{known['SLURM_PROCID']}.json").write_text(json.dumps(told))
"""


@pytest.fixture
def login(rig_with_runtimes: Rig) -> Iterator[SshTransport]:
    """The login node; jobs get Apptainer by what they do first."""
    with SshTransport("slurm-login", config=rig_with_runtimes.ssh_config) as transport:
        yield transport


@pytest.fixture(scope="session")
def mpich_sif(parts: Containers, built_image: Callable[[str], Path]) -> Path:
    """An image with MPICH, where every user can read it."""
    return built_image("debian12-mpich")


@pytest.fixture(scope="session")
def python_sif(built_image: Callable[[str], Path]) -> Path:
    """The base system with Python, where every user can read it."""
    return built_image("debian12-cpu")


def plan_for(parts: Containers, image: Path, folder: Path, transport: SshTransport, **job: object) -> Plan:
    (folder / "job.py").write_text(SCRIPT)
    document = {
        "application": {
            "name": "in-apptainer", "script": "job.py", "type": "hpc", "image": str(image),
            "arguments": ["a b", "$(id)", "'"], "outputs": ["rank-0.json", "rank-1.json"],
            "environment": {"ASKED_FOR": 'x "y" $(id) `id`, z'},
        },
        "target": {"name": "rig", "type": "slurm", "host": "slurm-login", "polling": {"first": 0.5, "maximum": 2.0}},
        "request": {"runtimes": ["apptainer"]},
        "job": {"wall_time": "5m", "pre_execution": f"export PATH={parts.apptainer}:$PATH", **job},
    }  # fmt: skip
    deployment = parse_deployment(document, origin="the test")
    plan = plan_deployment(deployment, transport, search=[folder], now=datetime.now(UTC))
    return with_image(plan, transport, search=[folder])


def submitted(jobs: Jobs, plan: Plan, transport: SshTransport, folder: Path) -> Present:
    """Submit the job, once its image is there and checked."""
    return jobs.present(
        job_request(plan),
        find_sources(plan.application, [folder]),
        realise=lambda directory: realise(transport, job_request(plan), directory) and None,
    )


@pytest.mark.parametrize("scratch", [False, True])
def test_ranks_run_in_the_image_with_what_slurm_and_the_plan_give_them(
    parts: Containers, login: SshTransport, real_slurm: Rig, python_sif: Path, tmp_path: Path, scratch: bool
) -> None:
    import json

    local = real_slurm.home / "local disk" if scratch else None
    real_slurm.ssh("mkdir -p 'local disk'")
    place = {"scratch": str(local)} if scratch else {"nodes": 2, "ranks_per_node": 1}
    plan = plan_for(parts, python_sif, tmp_path, login, ranks=2, **place)
    assert plan.chosen.runtime == "apptainer"
    jobs = Jobs(login)
    jobs.absent(job_request(plan))
    present = submitted(jobs, plan, login, tmp_path)
    (result,) = jobs.wait([present], timeout=300)
    fetched = jobs.fetch_results(present.job, result, tmp_path / "results").result
    folder = tmp_path / "results" / plan.name
    assert result.state == "completed", (folder / "output.log").read_text()
    ranks = [json.loads((folder / f"rank-{number}.json").read_text()) for number in (0, 1)]
    assert [rank["SLURM_PROCID"] for rank in ranks] == ["0", "1"]
    assert all(rank["inside"] and rank["SLURM_JOB_ID"] == fetched.id for rank in ranks)
    assert all(rank["ASKED_FOR"] == 'x "y" $(id) `id`, z' and rank["PYTHONPATH"] is None for rank in ranks)
    assert all(rank["argv"] == ["a b", "$(id)", "'"] for rank in ranks)
    assert all(rank["work"].startswith(f"{local or fetched.directory}/") for rank in ranks)
    assert local is None or not list(local.iterdir())
    jobs.absent(job_request(plan))


def test_nothing_is_submitted_when_the_image_was_changed(
    parts: Containers, login: SshTransport, real_slurm: Rig, python_sif: Path, tmp_path: Path
) -> None:
    copy = real_slurm.home / "changed.sif"
    copy.write_bytes(python_sif.read_bytes())
    plan = plan_for(parts, copy, tmp_path, login)
    with copy.open("r+b") as file:
        file.seek(100_000)
        file.write(b"changed")
    before = set(real_slurm.jobs())
    jobs = Jobs(login)
    try:
        with pytest.raises(TargetError, match=f"the image {copy} was changed"):
            submitted(jobs, plan, login, tmp_path)
        assert set(real_slurm.jobs()) <= before
    finally:
        copy.unlink()
        jobs.absent(job_request(plan))


# MPICH 4.0.2 over UCX 1.13.1 and tcp may hang in MPI_Finalize (openucx/ucx issue 8738; backtraces: read() on PMI_FD in
# three ranks, ucp_worker_progress in the fourth): beside other load 2 of 2 runs did, although their ranks had exchanged
# data with all others. So the ranks use shared memory, by file names: what other containers of the user have open
# cannot be reached through /proc.
HELLO = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, sum, length, round, mine[4], theirs[4];
  char host[MPI_MAX_PROCESSOR_NAME], name[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (round = 0; round < 4; round++) mine[round] = rank;
  for (round = 0; round < 20; round++) {
    MPI_Alltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  snprintf(name, sizeof name, "mpi-%d.txt", rank);
  FILE *out = fopen(name, "w");
  fprintf(out, "%d of %d, sum %d\\n", rank, size, sum);
  fclose(out);
  return MPI_Finalize();
}
"""


def test_mpi_ranks_inside_find_each_other(
    parts: Containers, login: SshTransport, mpich_sif: Path, tmp_path: Path
) -> None:
    # Compiled once, and not by each rank.
    work = parts.folder("hello")
    (work / "hello.c").write_text(HELLO)
    parts.own(work)
    parts.run("apptainer", "exec", str(mpich_sif), "mpicc", "-o", f"{work}/hello", f"{work}/hello.c")
    shutil.copy(work / "hello", tmp_path / "hello")
    document = {
        "application": {
            "name": "mpi-in-apptainer", "type": "hpc", "image": str(mpich_sif), "inputs": ["hello"],
            "executable": "./hello",
            "outputs": [f"mpi-{rank}.txt" for rank in range(4)],
            "environment": {"UCX_TLS": "posix,self", "UCX_POSIX_USE_PROC_LINK": "n"},
        },
        "target": {
            "name": "rig", "type": "slurm", "host": "slurm-login", "mpi_type": "pmi2",
            "polling": {"first": 0.5, "maximum": 2.0},
        },
        "request": {"runtimes": ["apptainer"]},
        "job": {
            "wall_time": "10m", "nodes": 2, "ranks": 4, "ranks_per_node": 2, "mpi_launcher": "srun",
            "pre_execution": f"export PATH={parts.apptainer}:$PATH",
        },
    }  # fmt: skip
    deployment = parse_deployment(document, origin="the test")
    plan = plan_deployment(deployment, login, search=[tmp_path], now=datetime.now(UTC))
    plan = with_image(plan, login, search=[tmp_path])
    jobs = Jobs(login)
    jobs.absent(job_request(plan))
    present = submitted(jobs, plan, login, tmp_path)
    (result,) = jobs.wait([present], timeout=300)
    jobs.fetch_results(present.job, result, tmp_path / "results")
    folder = tmp_path / "results" / plan.name
    assert result.state == "completed", (folder / "output.log").read_text()
    said = [(folder / f"mpi-{rank}.txt").read_text() for rank in range(4)]
    assert said == [f"{rank} of 4, sum 6\n" for rank in range(4)]
    jobs.absent(job_request(plan))
