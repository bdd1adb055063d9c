"""What jobs cost the login node: ssh sessions and commands of its scheduler. Times are shown by ``pytest -rP``."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import Cluster
from jobplans import plan
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Polling
from rig import TOP
from sites import ClusterSite, Ended

Document = Callable[..., dict[str, Any]]
PROGRAMS = ("sbatch", "squeue", "scontrol", "sacct")
MANY = int(os.environ.get("MODAK_MANY_JOBS", "16"))
SECONDS = int(os.environ.get("MODAK_MANY_SECONDS", "6"))
"""How long each of many jobs takes; with 1 the times printed are modak's own rather than those of the jobs."""


@pytest.fixture(autouse=True)
def _compiled(cluster_site: ClusterSite) -> None:
    """Give the user modak's bytecode, which pip writes when it installs modak: else each process compiles 200 files."""
    cluster_site.environment["PYTHONPYCACHEPREFIX"] = str(cluster_site.folder / "bytecode")
    compiling = [*cluster_site.cluster.enter, sys.executable, "-m", "compileall", "-q", str(TOP / "modak_deploy")]
    with cluster_site.started(compiling) as running:
        assert running.end(300).code == 0


def test_one_job_from_its_description_to_its_results(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    document = on_cluster("sleep 5; echo done")
    del document["target"]["polling"]
    cluster_site.write(document)
    assert cluster_site.play("deploy", "--check").code == 0  # which compiles ansible-core, pydantic and the rest
    before, logins = len(cluster.sessions()), cluster.logins()
    began = time.monotonic()
    with cluster.counted("squeue") as squeues, cluster.counted("sbatch") as sbatches:
        ended = cluster_site.play("deploy")
        seconds = time.monotonic() - began
        sessions = len(cluster.sessions()) - before
        print(
            f"a job of 5 s: {seconds:.1f} s, {sessions} ssh sessions over {cluster.logins() - logins} connections, "
            f"{squeues()} squeue, {sbatches()} sbatch"
        )
        assert ended.code == 0, ended.text
        assert sessions < 12
        assert sbatches() == 1
        assert squeues() < 8


def play(site: ClusterSite, *tasks: dict[str, Any]) -> Ended:
    book = [{"hosts": "login", "gather_facts": False, "tasks": list(tasks)}]
    (site.folder / "play.yml").write_text(yaml.safe_dump(book))
    with site.started(site.words("ansible-playbook", "play.yml")) as running:
        return running.end(900)


def plans(name: str, count: int) -> list[dict[str, Any]]:
    def one(number: int) -> Plan:
        return plan(
            ["sh", "-c", f"sleep {SECONDS}; echo {name} >out"], Path("~/.modak"), name=f"many-{number}",
            scheduler="slurm", polling=Polling(first=1.0, maximum=10.0), outputs=["out"], job={"memory": 64 << 20},
        )  # fmt: skip

    return [one(number).model_dump(mode="json", by_alias=True) for number in range(count)]


def test_many_jobs_of_one_task(cluster: Cluster, cluster_site: ClusterSite) -> None:
    """Two tasks, so that the submission and the rest are told apart."""
    many = plans(cluster_site.folder.name, MANY)
    task = {"modak.deploy.batch_job": {"plans": many, "wait": False}}
    with ExitStack() as stack:
        counts = [stack.enter_context(cluster.counted(name)) for name in PROGRAMS]
        before, began, logins = len(cluster.sessions()), time.monotonic(), cluster.logins()
        submitted = play(cluster_site, task)
        assert submitted.code == 0, submitted.text
        between, asked, middle = len(cluster.sessions()), [count() for count in counts], time.monotonic()
        waited = play(cluster_site, {"modak.deploy.batch_job": {"plans": many}})
        assert waited.code == 0, waited.text
        sessions = len(cluster.sessions())
        commands = {name: count() for name, count in zip(PROGRAMS, counts, strict=True)}
        print(
            f"{MANY} jobs of one task: submitted in {middle - began:.0f} s by {between - before} ssh sessions, "
            f"{dict(zip(PROGRAMS, asked, strict=True))}; waited for and fetched in {time.monotonic() - middle:.0f} s "
            f"by {sessions - between} sessions; {commands}, {cluster.logins() - logins} logins in all"
        )
    assert commands["sbatch"] == MANY
    assert sum(commands.values()) <= MANY + 30
    assert sessions - before <= 12 + MANY // 20  # many more take longer, and are asked for more often
    assert len(list(cluster_site.results.glob("many-*/out"))) == MANY


def test_many_jobs_are_watched_by_the_questions_of_one(cluster: Cluster, cluster_site: ClusterSite) -> None:
    many = plans(cluster_site.folder.name, MANY)
    submit = {"modak.deploy.batch_job": {"plan": "{{ item }}", "wait": False}, "loop": many}
    submit["loop_control"] = {"label": "{{ item.name }}"}
    with cluster.counted("squeue") as squeues, cluster.counted("sbatch") as sbatches:
        before, began = len(cluster.sessions()), time.monotonic()
        submitted = play(cluster_site, submit)
        assert submitted.code == 0, submitted.text
        between, asked, middle = len(cluster.sessions()), squeues(), time.monotonic()
        waited = play(cluster_site, {"modak.deploy.batch_job_wait": {"plans": many}})
        assert waited.code == 0, waited.text
        print(
            f"{MANY} jobs: submitted in {middle - began:.0f} s by {between - before} ssh sessions, {asked} squeue, "
            f"{sbatches()} sbatch; waited for and brought in {time.monotonic() - middle:.0f} s by "
            f"{len(cluster.sessions()) - between} sessions, {squeues() - asked} squeue"
        )
        assert sbatches() == MANY
        assert asked <= 2 * MANY
        assert squeues() - asked < max(MANY / 2, 8)
    assert len(list(cluster_site.results.glob("many-*/out"))) == MANY
