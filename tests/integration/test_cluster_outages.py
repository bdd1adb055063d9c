"""Parts of the cluster go away while a playbook waits for its job, or while it submits it."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster import Cluster
from endings import jobs_of
from sites import ClusterSite

Document = Callable[..., dict[str, Any]]


@pytest.fixture
def waiting_for(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> Callable[..., None]:
    """Return the function that does something to the cluster while a playbook waits for a job.

    What is done gets a file, with which the job ends; where it makes none, the job ends after it.
    """

    def carry_out(outage: Callable[[Path], None], *words: str) -> None:
        go = cluster.folder / "work" / f"go.{secrets.token_hex(8)}"
        document = on_cluster(f"until [ -e {go} ]; do sleep 0.2; done; echo done")
        cluster_site.write(document)
        runs = cluster.folder / "home" / ".modak" / "runs"
        with cluster_site.start("deploy") as running:
            (job,) = running.wait_for(lambda: jobs_of(cluster, document, "RUNNING"))
            running.wait_for(lambda: list(runs.glob(f"{document['application']['name']}-*/state/id")))
            before = len(cluster.sessions())
            running.wait_for(lambda: len(cluster.sessions()) > before)  # it asks for the job
            outage(go)
            go.touch()
            ended = running.end(90)
        assert ended.code == 0, ended.text
        for word in words:
            assert word in ended.text, ended.text
        assert f"job {job}: completed" in ended.text
        assert jobs_of(cluster, document) == [job]
        (log,) = cluster_site.results.glob("*/output.log")
        assert log.read_text() == "done\n"

    return carry_out


def test_slurmctld_is_restarted(cluster: Cluster, waiting_for: Callable[..., None]) -> None:
    """It comes back when the job has ended."""

    def restart(go: Path) -> None:
        with cluster.without_scheduler():
            go.touch()
            time.sleep(6)

    waiting_for(restart)


def test_the_connection_is_dropped(cluster: Cluster, waiting_for: Callable[..., None]) -> None:
    """The server's processes of the connection are killed, those of a question under way too."""

    def drop(_go: Path) -> None:
        for _ in range(20):
            for pid in cluster.connections():
                cluster.run("login", "sh", "-c", f"kill -KILL {pid} || true")
            time.sleep(0.1)

    waiting_for(drop)


def test_the_network_is_away(cluster: Cluster, waiting_for: Callable[..., None]) -> None:
    def unplug(go: Path) -> None:
        with cluster.without_network():
            go.touch()
            time.sleep(8)

    waiting_for(unplug)


def test_the_login_nodes_sshd_is_away(cluster: Cluster, waiting_for: Callable[..., None]) -> None:
    """Connections are refused, and those that there were are gone."""

    def away(_go: Path) -> None:
        with cluster.without_login():
            time.sleep(5)

    waiting_for(away, "no word of the job, asking again for up to", "the target answers again")


def test_connection_dropped_while_the_job_is_submitted(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    """The job is in the queue, and the answer of sbatch gets lost with the connection."""
    document = on_cluster("echo done")
    cluster_site.write(document)
    with cluster.slow_sbatch(after=2), cluster_site.start("deploy") as running:
        running.wait_for(lambda: jobs_of(cluster, document))
        for pid in cluster.connections():
            cluster.run("login", "sh", "-c", f"kill -KILL {pid} || true")
        ended = running.end(90)
    assert ended.code == 0, ended.text
    assert "the submission is tried again" in ended.text
    assert len(jobs_of(cluster, document)) == 1


def test_sbatch_fails_though_the_job_is_there(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    document = on_cluster("echo done")
    cluster_site.write(document)
    said = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    with cluster.slow_sbatch(said=said):
        ended = cluster_site.play("deploy")
    assert ended.code == 0, ended.text
    assert len(jobs_of(cluster, document)) == 1


def test_slurmctld_is_away_when_the_job_is_submitted(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    document = on_cluster("echo done")
    cluster_site.write(document)
    with cluster.slow_sbatch(before=2), cluster_site.start("deploy") as running:
        running.wait_for(lambda: "sbatch" in cluster.run("login", "ps", "-e", "-o", "args="))
        with cluster.without_scheduler():
            time.sleep(5)
        ended = running.end(90)
    assert ended.code == 0, ended.text
    assert len(jobs_of(cluster, document)) == 1


def test_two_controllers_at_once(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    document = on_cluster("sleep 2; echo done")
    cluster_site.write(document)
    with cluster_site.start("deploy") as first, cluster_site.start("deploy", "-e", "results=other") as second:
        ends = [running.end(90) for running in (first, second)]
    for ended in ends:
        assert ended.code == 0, ended.text
    (job,) = jobs_of(cluster, document)
    assert all(f"job {job}: completed" in ended.text for ended in ends)
