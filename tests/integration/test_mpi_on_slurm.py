"""MPI programs on the real Slurm: all ranks join, or the job fails with the reason; no rank ever runs alone unseen."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.performance.recording import records_of
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.ssh import SshTransport
from rig import Rig
from transports import Notes

SOURCE = Path(__file__).parents[1] / "data" / "applications" / "ranks.c"
HASTY = replace(Timeouts(), settle=1.0, lost=1.0, pause=0.2)
BUILD = "mpicc.mpich -O1 -o ranks ranks.c"


@pytest.fixture(scope="module")
def transport(real_slurm: Rig) -> Iterator[SshTransport]:
    with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
        yield transport


@pytest.fixture
def planned(transport: SshTransport, tmp_path: Path) -> Callable[..., Plan]:
    """Return the function that plans a program with two ranks, by what the target says of itself."""
    shutil.copy(SOURCE, tmp_path)

    def make(
        executable: str = "./ranks",
        arguments: tuple[str, ...] = (),
        target: dict[str, Any] | None = None,
        type: str = "hpc",
        **job: Any,
    ) -> Plan:
        deployment = Deployment.model_validate(
            {
                "application": {
                    "name": f"ranks-{secrets.token_hex(4)}",
                    "type": type,
                    "executable": executable,
                    "arguments": list(arguments),
                    "inputs": ["ranks.c"],
                    "workload": {"model": "ranks", "unit": "run"},
                },
                "target": {
                    "name": "rig", "type": "slurm", "host": "slurm-login", "polling": {"first": 0.3, "maximum": 1.0},
                    **(target or {}),
                },
                "job": {"ranks": 2, "wall_time": "2m", "pre_execution": BUILD, **job},
            }
        )  # fmt: skip
        return plan_deployment(deployment, transport, search=[tmp_path], now=datetime.now(UTC))

    return make


@pytest.fixture
def run(transport: SshTransport, tmp_path: Path) -> Callable[[Plan], tuple[JobResult, str]]:
    """Return the function that runs a Plan and gives how it ended and what it printed."""

    def carry_out(plan: Plan) -> tuple[JobResult, str]:
        from modak_deploy.documents import find_sources

        jobs = Jobs(transport, timeouts=HASTY, reporter=Notes())
        present = jobs.present(job_request(plan), find_sources(plan.application, [tmp_path]))
        (result,) = jobs.wait([present])
        brought = jobs.fetch_results(present.job, result, tmp_path / "results").result
        return brought, (tmp_path / "results" / plan.name / "output.log").read_text()

    return carry_out


TWO = ["rank 0 of 2", "rank 1 of 2"]


@pytest.mark.parametrize(
    ("executable", "arguments"),
    [
        ("./ranks", ()),
        ("sh", ("-c", "./ranks || exit 1")),
        ("/usr/bin/env", ("A=b", "./ranks")),
    ],
)
def test_the_ranks_of_mpich_join(
    executable: str, arguments: tuple[str, ...], planned: Callable[..., Plan], run: Callable[..., Any], tmp_path: Path
) -> None:
    """Without a word on MPI in the document: Slurm's own default, none, would run two programs of one rank."""
    plan = planned(executable, arguments)
    assert plan.facts.mpi[0].family == "mpich"
    assert plan.chosen.rank_start is not None
    assert plan.chosen.rank_start.types["mpich"] == "pmi2"
    result, output = run(plan)
    assert (result.state, sorted(output.splitlines())) == ("completed", TWO)
    (record,) = records_of(tmp_path / "results" / plan.name, load_catalogue())
    assert record.configuration.ranks == 2


def test_ranks_that_are_offered_nothing_are_refused_when_planned(planned: Callable[..., Plan]) -> None:
    with pytest.raises(
        InfeasibleError, match=r"target\.mpi_type is none, and mpich needs pmi2 .* 2 ranks would run al"
    ):
        planned(target={"mpi_type": "none"})
    with pytest.raises(InfeasibleError, match=r"target\.mpi_type is pmi7, and srun of rig knows .*none.*pmi2"):
        planned(target={"mpi_type": "pmi7"})


@pytest.mark.parametrize("environment", [{}, {"SLURM_MPI_TYPE": "none"}])
def test_ranks_that_would_run_alone_fail_and_are_no_measurement(
    environment: dict[str, str], planned: Callable[..., Plan], run: Callable[..., Any], tmp_path: Path
) -> None:
    """What is planned may be wrong, or the user's: the ranks themselves look what they are offered."""
    plan = planned(target={"mpi_type": "none"}, type="big_data", environment=environment)
    result, output = run(plan)
    assert result.state == "failed"
    assert "rank 0 of 1" not in output
    assert (
        "modak: the program uses MPICH, which needs PMI (srun --mpi=pmi2, or the mpirun of MPICH), and its launcher "
        "offers none: each of the 2 ranks would run alone\n" in output
    )
    with pytest.raises(InputError, match="a measurement needs a job that completed, and this one is failed"):
        records_of(tmp_path / "results" / plan.name, load_catalogue())


def test_the_mpirun_of_the_library_brings_its_ranks_together(
    planned: Callable[..., Plan], run: Callable[..., Any]
) -> None:
    result, output = run(planned(mpi_launcher="mpirun"))
    assert (result.state, sorted(output.splitlines())) == ("completed", TWO)


def test_ranks_without_mpi_are_left_alone(planned: Callable[..., Plan], run: Callable[..., Any]) -> None:
    plan = planned("sh", ("-c", 'echo "$SLURM_PROCID"'), target={"mpi_type": "none"}, type="ai_training")
    result, output = run(plan)
    assert (result.state, sorted(output.split())) == ("completed", ["0", "1"])
    plan = planned("sh", ("-c", 'echo "$SLURM_PROCID"'), target={"mpi_type": "none"}, mpi="none")
    assert plan.chosen.rank_start is None
    result, output = run(plan)
    assert (result.state, sorted(output.split())) == ("completed", ["0", "1"])


def test_a_program_that_nobody_can_look_into_is_checked_where_its_library_is_named(
    planned: Callable[..., Plan], run: Callable[..., Any]
) -> None:
    """A static program, as here in effect, shows no library; its user can."""
    hidden = ("-c", 'name=ra; ./"$name"nks')
    result, output = run(planned("sh", hidden))
    assert (result.state, sorted(output.splitlines())) == ("completed", TWO)
    result, output = run(planned("sh", hidden, target={"mpi_type": "pmi2"}, mpi="openmpi"))
    assert result.state == "failed"
    assert "the program uses Open MPI, which needs PMIx" in output


@pytest.fixture(scope="module")
def open_mpi(real_slurm: Rig) -> str:
    """The command that builds with Open MPI; skip where the rig has none, or its Slurm has no library for PMIx."""
    if "rc 0" not in real_slurm.ssh("mpicc.openmpi --version >/dev/null 2>&1 && srun --mpi=pmix true; echo rc $?"):
        pytest.skip("there is no Open MPI here that Slurm's PMIx can start")
    return "mpicc.openmpi -O1 -o ranks ranks.c"


def test_the_ranks_of_open_mpi_join(planned: Callable[..., Plan], run: Callable[..., Any], open_mpi: str) -> None:
    """What the target says of itself is MPICH alone: the program itself shows what it needs."""
    plan = planned(pre_execution=open_mpi)
    assert {library.family for library in plan.facts.mpi} == {"mpich"}
    result, output = run(plan)
    assert (result.state, sorted(line for line in output.splitlines() if "rank" in line)) == ("completed", TWO)


@pytest.mark.parametrize(
    "launch", [{"target": {"mpi_type": "pmi2"}}, {"mpi_launcher": "mpirun"}], ids=["srun --mpi=pmi2", "MPICH's mpirun"]
)
def test_the_ranks_of_open_mpi_are_not_started_alone(
    launch: dict[str, Any], planned: Callable[..., Plan], run: Callable[..., Any], open_mpi: str
) -> None:
    result, output = run(planned(pre_execution=open_mpi, **launch))
    assert result.state == "failed"
    assert "the program uses Open MPI, which needs PMIx" in output
    assert "rank 0" not in output
