"""Numbers of threads as levers: which are offered where, and what they set."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.catalogue.effects import Cores
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Node
from modak_deploy.optimiser.candidates import Enumerator
from modak_deploy.optimiser.options import Location
from modak_deploy.optimiser.resources import cores_of

CATALOGUE = load_catalogue()
FAMILY = {lever.name for lever in CATALOGUE.levers.values() if lever.threads is not None}
SMT = Node(cores=16, threads_per_core=2)


def deployment(kind: str = "hpc", target: str = "machine", **job: Any) -> Deployment:
    application = {"name": "a", "type": kind, "executable": "./a"}
    return Deployment.model_validate(
        {"application": application, "target": {"name": "t", "type": target}, "request": {}, "job": job}
    )


def offered(asked: Deployment, node: Node, framework: str | None = None, **packages: str) -> dict[str, str]:
    """Return the number of threads of each lever that can be used."""
    location = Location(asked.application.type, framework, node, "2.36", [], packages, 0, None)
    enumerator = Enumerator(CATALOGUE, asked, location)
    usable = sorted(FAMILY - enumerator.faults.keys())
    return {name: CATALOGUE.levers[name].variables(enumerator.cores)["OMP_NUM_THREADS"] for name in usable}


def test_an_openmp_program_on_a_node_with_smt() -> None:
    assert offered(deployment(), SMT) == {
        "one-thread": "1", "threads-physical": "8", "threads-2": "2", "threads-4": "4"
    }  # fmt: skip


def test_half_of_the_cores_where_smt_is_not_known() -> None:
    assert offered(deployment(), Node(cores=12)) == {
        "one-thread": "1", "threads-half": "6", "threads-2": "2", "threads-4": "4"
    }  # fmt: skip


@pytest.mark.parametrize("framework", ["onnxruntime", "jax"])
def test_no_number_where_variables_have_no_effect(framework: str) -> None:
    assert offered(deployment("ai_inference"), SMT, framework) == {}


def test_pytorch_may_have_more_than_its_physical_cores() -> None:
    usable = offered(deployment("ai_training"), SMT, "pytorch", torch="2.6")
    assert usable["threads-all"] == "16" and usable["threads-physical"] == "8"


@pytest.mark.parametrize(
    ("kind", "target", "job", "count"),
    [
        ("hpc", "machine", {}, 16),
        ("hpc", "machine", {"ranks": 4}, 4),
        ("hpc", "slurm", {}, 1),
        ("hpc", "slurm", {"cores_per_rank": 6}, 6),
        ("ai_training", "slurm", {}, 16),
    ],
)
def test_the_cores_of_a_rank(kind: str, target: str, job: dict[str, Any], count: int) -> None:
    asked = deployment(kind, target, **job)
    assert cores_of(asked, SMT) == Cores(count, 2)
    assert all(int(threads) <= count for threads in offered(asked, SMT).values())
    assert count > 1 or not offered(asked, SMT)


def test_the_users_own_number_stays() -> None:
    assert set(offered(deployment(threads=4), SMT).values()) <= {"4"}


@pytest.mark.parametrize("job", [{"ranks": 4}, {"ranks_per_node": 4}, {"nodes": 2}, {"nodes": 2, "ranks_per_node": 2}])
def test_no_program_before_the_ranks_of_mpi_however_they_are_asked_for(job: dict[str, Any], tmp_path: Path) -> None:
    lever = "{name: interleaved, group: pages, summary: s, effects: {prefix: [numactl, --interleave=all]}}"
    (tmp_path / "levers.yaml").write_text(f"version: 1\ngroups: [{{name: pages, summary: s}}]\nlevers:\n  - {lever}\n")
    catalogue = load_catalogue([tmp_path])

    def fault(**job: Any) -> str | None:
        asked = deployment("hpc", "slurm", **job)
        location = Location("hpc", None, SMT, "2.36", [], {}, 0, None)
        return Enumerator(catalogue, asked, location).faults.get("interleaved")

    assert fault() is None
    assert "not supported for MPI ranks" in (fault(**job) or "")
