"""Benchmarks on clusters: the job has the cores that its configurations are recorded with."""

from datetime import UTC, datetime

import pytest

from modak_deploy.catalogue import load_catalogue
from modak_deploy.evidence import benchmark
from modak_deploy.evidence.configurations import Wanted
from modak_deploy.evidence.protocol import Protocol
from modak_deploy.jobrequest import job_request
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan

NODE = {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC 9654"}
FACTS = {
    "hostname": "login",
    "glibc": "2.36",
    "python": "/usr/bin/python3",
    "node": NODE,
    "packages": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0"},
}
CLUSTER = {
    "scheduler": "slurm",
    "scheduler_version": "23.11",
    "partitions": [{"name": "main", "default": True, "nodes": 4, "node": {"cores": 8}}],
}
KERAS = {"framework": {"name": "keras"}}
HERE = {"name": "localhost", "type": "machine"}
THERE = {"name": "cluster", "type": "slurm", "host": "login"}


@pytest.mark.parametrize(
    ("application", "target", "job", "levers", "cores"),
    [
        (KERAS, THERE, {}, ["one-thread"], 8),  # one, on which eight threads took turns, and recorded as eight
        (KERAS, THERE, {"threads": 4}, [], 4),
        (KERAS, THERE, {"cores_per_rank": 2}, [], 2),
        ({"type": "hpc"}, THERE, {}, [], None),
        (KERAS, HERE, {}, ["one-thread"], None),
    ],
)
def test_the_job_has_the_cores_of_its_configurations(tmp_path, monkeypatch, application, target, job, levers, cores):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    work = {"name": "x", "script": "train.py", "workload": {"model": "m"}, **application}
    deployment = Deployment.model_validate({"application": work, "target": target, "job": job})
    facts = Facts.model_validate(FACTS | (CLUSTER if target is THERE else {}))
    now, catalogue = datetime(2026, 1, 1, tzinfo=UTC), load_catalogue()
    plan = make_plan(deployment, facts, [], now=now, catalogue=catalogue)
    monkeypatch.setattr(benchmark, "plan_deployment", lambda *arguments, **options: plan)
    monkeypatch.setattr(benchmark, "with_image", lambda plan, *arguments, **options: plan)
    wanted = Wanted(levers=levers)
    prepared = benchmark.prepare(deployment, None, wanted=wanted, protocol=Protocol(), search=[tmp_path])  # type: ignore[arg-type]
    assert job_request(prepared.plan).resources.threads == cores
    assert prepared.configurations[0].chosen.resources.threads == cores
