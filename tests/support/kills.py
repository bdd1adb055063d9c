"""A deployment on the cluster whose controller is killed, and then made again."""

import secrets
from pathlib import Path
from typing import Any

from cluster import Cluster
from endings import jobs_of
from sites import ClusterSite


class KilledDeployment:
    """A document of a short job that leaves a line in a file each time it runs, and what becomes of it."""

    def __init__(self, cluster: Cluster, site: ClusterSite) -> None:
        self.cluster, self.site = cluster, site
        name = f"killed-{secrets.token_hex(4)}"
        self.trace = cluster.folder / "home" / f"{name}.trace"
        self.document: dict[str, Any] = {
            "application": {
                "name": name,
                "type": "hpc",
                "executable": "sh",
                "arguments": ["-c", f"echo $SLURM_JOB_ID >>{self.trace}; sleep 0.5; echo done >out"],
                "outputs": ["out"],
            },
            "target": {
                "name": "cluster",
                "type": "slurm",
                "host": "login",
                "polling": {"first": 0.5, "maximum": 2.0},
            },
            "job": {"wall_time": "5m", "memory": "64M"},
        }
        site.write(self.document)

    @property
    def results(self) -> Path:
        return self.site.results / self.document["application"]["name"]

    def folder(self) -> Path | None:
        """Return the job's folder, once there is one."""
        runs = self.cluster.folder / "home" / ".modak" / "runs"
        return next(iter(runs.glob(f"{self.document['application']['name']}-*")), None)

    def kill(self, *, login: bool) -> None:
        """Kill all that runs on the client, and all of the user's on the login node where ``login`` says so."""
        self.cluster.kill_client()
        if login:
            self.cluster.kill_user("login")

    def check(self) -> None:
        """Deploy again, to the end, and check that there was one job and that its results are here."""
        ended = self.site.play("deploy")
        assert ended.code == 0, ended.text
        ran = self.trace.read_text().split()
        assert len(ran) == 1, f"jobs {' and '.join(ran)} ran\n{ended.text}"
        assert set(jobs_of(self.cluster, self.document)) <= set(ran), ended.text
        assert f"job {ran[0]}" in ended.text or "changed=0" in ended.text, ended.text
        assert (self.results / "out").read_text() == "done\n"
