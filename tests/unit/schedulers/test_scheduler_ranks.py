"""The start of ranks: how the program's MPI library is seen, what srun is told, and what each rank makes sure of."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.jobs import ranks
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.plan import RankStart
from modak_deploy.model.target import Facts
from modak_deploy.optimiser.ranks import rank_start
from scheduler_parts import DATA, make, shells

STARTS = yaml.safe_load((DATA / "jobs" / "ranks.yaml").read_text())
LIBRARIES = yaml.safe_load((DATA / "jobs" / "mpi_libraries.yaml").read_text())
SHELLS = pytest.mark.parametrize("shell", shells(), ids=lambda words: words[-1])
TYPES = {"mpich": "pmi2", "openmpi": "pmix"}


@SHELLS
@pytest.mark.parametrize("case", STARTS, ids=lambda case: case["name"])
def test_a_rank(case: dict[str, Any], shell: list[str]) -> None:
    command = [*shell, "-c", ranks._text("mpi_rank"), "modak-rank", case["kind"], "2", "echo", "a  b"]
    environment = {"PATH": os.environ["PATH"], **case["environment"]}
    environment = {name: "0" if name.endswith(("_RANK", "PROCID")) else value for name, value in environment.items()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    if "why" in case:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("modak: ")
        assert case["why"] in done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr) == (0, "a  b\n", "")


@SHELLS
@pytest.mark.parametrize("case", LIBRARIES, ids=lambda case: case["name"])
def test_the_library_of_a_program(case: dict[str, Any], shell: list[str], tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("what the loader reads")
    program.chmod(0o755)
    (tmp_path / "said").write_text(case["ldd"])
    (tmp_path / "ldd").write_text(f"#!/bin/sh\ncase $1 in *program) cat {tmp_path}/said ;; *) exit 1 ;; esac\n")
    (tmp_path / "ldd").chmod(0o755)
    (tmp_path / "job").write_text('#!/bin/sh\n# a comment\nexec time program --"x"\n')
    for words in (["program"], [str(program)], ["sh", "-c", "cd /tmp && program | tee log"], ["sh", f"{tmp_path}/job"]):
        script = f'{ranks._text("mpi_library")}\nmodak_mpi_library "$@"'
        done = subprocess.run(
            [*shell, "-c", script, "sh", *words],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (done.stdout.strip(), done.stderr) == (case["kind"], "")


@SHELLS
@pytest.mark.parametrize(
    ("start", "kind", "launched"),
    [
        ({"types": TYPES}, "mpich", "--mpi=pmi2"),
        ({"types": TYPES}, "openmpi", "--mpi=pmix"),
        ({"types": TYPES}, "mpich-pmix", "--mpi=pmix"),
        ({"types": TYPES}, "", ""),
        ({"types": TYPES, "family": "openmpi"}, "", "--mpi=pmix"),
        ({"types": TYPES, "family": "intelmpi", "required": True}, "", "--mpi=pmi2"),
        ({"types": TYPES, "family": "openmpi", "required": True}, "mpich", "--mpi=pmi2"),
        ({"types": TYPES, "required": True}, "", None),
        ({"types": {"mpich": "pmi2"}}, "openmpi", None),
        ({"family": "mpich", "required": True}, "mpich", ""),
    ],
)
def test_what_srun_is_told(
    start: dict[str, Any], kind: str, launched: str | None, shell: list[str], job_folder: Callable[..., Any],
    tmp_path: Path,
) -> None:  # fmt: skip
    from scriptruns import run

    tools = tmp_path / "tools"
    tools.mkdir()
    said = {"mpich": "libmpich.so.12", "openmpi": "libopen-pal.so", "mpich-pmix": "libmpi.so.12 libpmix.so.2"}.get(kind)
    (tools / "ldd").write_text(f"#!/bin/sh\n{f'echo {said}' if said else 'exit 1'}\n")
    (tools / "srun").write_text('#!/bin/sh\nfor word; do case $word in --mpi=*) echo "$word" ;; esac; done\n')
    (tools / "train").write_text("#!/bin/sh\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    candidate = {"rank_start": RankStart.model_validate(start)}
    folder, _ = job_folder("slurm", "train", resources={"ranks": 2, "ranks_per_node": 2}, candidate=candidate)
    code = run(folder, shell, {"PATH": f"{tools}:{os.environ['PATH']}"})
    output = (folder / "output.log").read_text()
    if launched is None:
        assert code == 1
        assert output.startswith("modak: ")
    else:
        assert (code, output.strip()) == (0, launched)


def test_the_script_has_no_mark_left() -> None:
    shape = {"ranks": 2, "ranks_per_node": 2}
    script = make("slurm", resources=shape, candidate={"rank_start": RankStart(types={"mpich": "pmi2"})}).script()
    assert ranks.KIND not in script
    assert '"$modak_mpi"' in script


PLANNED = [
    ({}, ["none", "pmi2", "pmix"], ["mpich"], {"mpich": "pmi2", "openmpi": "pmix"}),
    ({}, ["none", "pmix_v3", "pmix_v4"], ["openmpi"], {"mpich": "pmix_v4", "openmpi": "pmix_v4"}),
    ({}, ["cray_shasta", "none"], ["mpich"], {"mpich": "cray_shasta"}),
    ({}, [], ["mpich"], {}),
    ({"mpi_launcher": "mpirun"}, ["none"], ["mpich"], {}),
    ({}, ["none"], [], "srun of t offers none only, and an MPI library needs pmi2 or pmix: each of the 2 ranks would"),
    ({}, ["none"], ["mpich"], "srun of t offers none only, and mpich needs pmi2 or cray_shasta or pmix"),
    ({"mpi": "openmpi"}, ["cray_shasta"], ["mpich"], "srun of t offers cray_shasta only, and openmpi needs pmix"),
    ({"mpi": "none"}, ["none"], ["mpich"], None),
    ({"mpi_launcher": "none"}, ["none"], ["mpich"], None),
    ({"ranks": 1}, ["none"], ["mpich"], None),
]


@pytest.mark.parametrize(("job", "offered", "families", "expected"), PLANNED)
def test_what_is_planned(job: dict[str, Any], offered: list[str], families: list[str], expected: Any) -> None:
    deployment = Deployment.model_validate(
        {
            "application": {"name": "a", "type": "hpc", "executable": "./a"},
            "target": {"name": "t", "type": "slurm"},
            "job": {"ranks": 2, **job},
        }
    )
    mpi = [{"family": family, "version": "4.0"} for family in families]
    facts = Facts.model_validate({"scheduler": "slurm", "mpi_types": offered, "mpi": mpi})
    found = rank_start(deployment, facts, None, deployment.job.ranks or 1)
    if isinstance(found, RankStart):
        assert found.types == expected
    elif isinstance(found, str):
        assert found.startswith(expected)
    else:
        assert found is expected


def test_the_library_of_an_image_is_known() -> None:
    entry = ImageEntry.model_validate({"name": "i", "source": "base", "mpi": {"family": "openmpi", "version": "4.1.4"}})
    deployment = Deployment.model_validate(
        {
            "application": {"name": "a", "type": "hpc", "executable": "./a"},
            "target": {"name": "t", "type": "slurm"},
            "job": {"ranks": 2},
        }
    )
    facts = Facts.model_validate({"scheduler": "slurm", "mpi_types": ["pmi2"]})
    found = rank_start(deployment, facts, entry, 2)
    assert isinstance(found, RankStart)
    assert (found.family, found.types) == ("openmpi", {"mpich": "pmi2", "openmpi": "pmi2"})
