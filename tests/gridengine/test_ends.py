"""How jobs end on the real Grid Engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from modak_deploy.errors import JobError

if TYPE_CHECKING:
    from conftest import Cluster

PARALLEL: dict[str, Any] = {"target": {"parallel_environment": "mpi"}, "job": {"nodes": 2}}


@pytest.mark.parametrize(
    ("line", "state", "code"),
    [
        ("true", "completed", 0),
        ("exit 3", "failed", 3),
        ("kill -9 $$", "failed", 137),
        ("no-such-command", "failed", 127),
    ],
)
def test_exit_code(cluster: Cluster, line: str, state: str, code: int) -> None:
    result = cluster.end(line)
    assert (result.state, result.exit_code) == (state, code)


def test_wall_time(cluster: Cluster) -> None:
    result = cluster.end("sleep 100", job={"wall_time": 5})
    assert result.state == "timeout", result.reason


def test_deleted_while_it_ran(cluster: Cluster) -> None:
    job = cluster.submit("touch started; sleep 100")
    cluster.until(lambda: cluster.started(job))
    cluster.ssh(f"qdel {job.job.id}")
    assert cluster.wait(job).state == "cancelled"


def test_deleted_while_it_waited(cluster: Cluster) -> None:
    job = cluster.submit("true", job={"begin": "2035-01-01T00:00"})
    cluster.ssh(f"qdel {job.job.id}")
    result = cluster.wait(job)
    assert (result.state, "most likely it was deleted" in result.reason) == ("lost", True)


def test_memory_that_no_host_has(cluster: Cluster) -> None:
    with pytest.raises(JobError, match=r"^Grid Engine refused the job: no suitable queues$"):
        cluster.submit("true", job={"memory": "900G"})


def test_queue_that_is_not_there(cluster: Cluster) -> None:
    with pytest.raises(JobError, match=r'unknown queue "nosuch.q"'):
        cluster.jobs.preview(cluster.request("true", job={"partition": "nosuch.q"}))


def test_array_with_a_failing_task(cluster: Cluster) -> None:
    result = cluster.end("test $SGE_TASK_ID != 2", job={"array": "1-4%2"})
    assert (result.state, result.exit_code) == ("failed", 1)
    assert cluster.end("echo $MODAK_TASK >out.$MODAK_TASK", name="good", job={"array": "1-4"}).state == "completed"


def test_dependency(cluster: Cluster) -> None:
    trace = cluster.workspace / "trace"
    first = cluster.submit(f"sleep 3; echo first >>{trace}", name="first")
    second = cluster.submit(f"echo second >>{trace}", name="second", job={"dependency": [f"afterany:{first.job.id}"]})
    assert cluster.wait(second).state == "completed"
    assert trace.read_text().split() == ["first", "second"]


def test_ranks_on_two_hosts(cluster: Cluster) -> None:
    resources = {"nodes": 2, "ranks": 6, "ranks_per_node": 3}
    job = cluster.submit("hostname >rank.$PMI_RANK", resources=resources, **PARALLEL)
    assert cluster.wait(job).state == "completed"
    work = Path(job.job.spec.directory) / "work"
    assert sorted(file.read_text() for file in work.glob("rank.*")) == ["ge1\n"] * 3 + ["ge2\n"] * 3


def test_layout_that_the_environment_does_not_give(cluster: Cluster) -> None:
    """Round robin spreads two ranks over two hosts, where one was planned."""
    result = cluster.end("true", resources={"ranks": 2, "ranks_per_node": 2}, target=PARALLEL["target"])
    assert result.state == "failed"


def test_cores_of_a_rank(cluster: Cluster) -> None:
    target = {"parallel_environment": "smp"}
    job = cluster.submit("echo $NSLOTS $OMP_NUM_THREADS >out", resources={"threads": 3}, target=target)
    assert cluster.wait(job).state == "completed"
    assert (Path(job.job.spec.directory) / "work" / "out").read_text() == "3 3\n"
