"""Slurm with accounting: it knows who cancelled a job, and keeps what its queue has forgotten.

MODAK_REAL_ACCOUNTING=1 MODAK_BUILD_DIR=$PWD/.build/accounting pytest tests/integration/test_cluster_accounting.py
"""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from cluster import Cluster
from endings import jobs_of, one_sentence
from sites import ClusterSite

Document = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.skipif(
    not os.environ.get("MODAK_REAL_ACCOUNTING"), reason="MODAK_REAL_ACCOUNTING=1 gives the cluster a slurmdbd"
)


def test_who_cancelled_a_job_is_told(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    user = (cluster.folder / "etc" / "user").read_text().strip()
    for host, who in (("head", "root"), ("login", user)):
        document = on_cluster("sleep 300")
        cluster_site.write(document)
        with cluster_site.start("deploy") as running:
            (job,) = running.wait_for(lambda document=document: jobs_of(cluster, document, "RUNNING"))
            if host == "head":
                cluster.run("head", "scancel", job)
            else:
                cluster.ssh(f"scancel {job}")
            one_sentence(running.end(30), job, f"ended as cancelled: cancelled by {who}")


def test_accounting_knows_what_the_queue_has_forgotten(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    """Nobody watched when the job was cancelled, and its folder tells nothing."""
    document = on_cluster("sleep 300", begin="2099-01-01T00:00", retry=False)
    cluster_site.write(document)
    ended = cluster_site.play("deploy", "-e", "wait=false")
    assert ended.code == 0, ended.text
    (job,) = jobs_of(cluster, document)
    cluster.run("head", "scancel", job)
    while job in cluster.jobs():
        time.sleep(0.5)
    one_sentence(cluster_site.play("deploy"), job, "ended as cancelled: cancelled by root")
