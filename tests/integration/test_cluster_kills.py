"""The controller killed at each of many points of a deployment, which is then made again: one job, every time."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import Cluster
from endings import jobs_of
from kills import KilledDeployment
from sites import ClusterSite, Running

POINTS = yaml.safe_load((Path(__file__).parents[1] / "data" / "jobs" / "kills.yaml").read_text())


def reached(point: str, deployment: KilledDeployment, running: Running) -> Callable[[], bool]:
    """Return the function that tells whether the deployment has come to that point."""
    cluster = deployment.cluster
    sessions = len(cluster.sessions())

    def record(name: str) -> Callable[[], bool]:
        return lambda: (folder := deployment.folder()) is not None and (folder / name).exists()

    points: dict[str, Callable[[], bool]] = {
        "started": lambda: True,
        "session": lambda: len(cluster.sessions()) > sessions,
        "plan": lambda: (deployment.results / "plan.json").exists(),
        "folder": lambda: deployment.folder() is not None,
        "script": record("job.sh"),
        "intent": record("state/intent"),
        "queued": lambda: bool(jobs_of(cluster, deployment.document)),
        "id": record("state/id"),
        "start": record("state/start"),
        "exit": record("state/exit"),
        "result": lambda: (deployment.results / "out").exists(),
        "end": lambda: running.process.poll() is not None,
    }
    return points[point]


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, id=point["name"], marks=[pytest.mark.long] if "long" in point else []) for point in POINTS],
)
def test_killed_and_deployed_again(cluster: Cluster, cluster_site: ClusterSite, point: dict[str, Any]) -> None:
    deployment = KilledDeployment(cluster, cluster_site)
    before, after = point.get("sbatch", (0, 0))
    with cluster.slow_sbatch(before=before, after=after), cluster_site.start("deploy") as running:
        there = reached(point["when"], deployment, running)
        deadline = time.monotonic() + 60
        while not there():
            assert time.monotonic() < deadline, f"never came to the point '{point['when']}'"
            time.sleep(0.005)
        time.sleep(point.get("then", 0))
        deployment.kill(login=point.get("login", False))
        running.end(10)
    deployment.check()
