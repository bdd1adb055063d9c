"""A type of target of another distribution has what its class says, wherever modak asks for it."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import plugins
from modak_deploy.deploy.cluster import is_on_cluster
from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InfeasibleError, InputError, OptionError
from modak_deploy.extensions import SCHEDULERS, TARGETS
from modak_deploy.model.kinds import KubernetesCluster, Machine, kind_of
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Target, usual_scheduler
from modak_deploy.optimiser.table import render
from modak_deploy.planning import plan_deployment
from modak_deploy.secret_values import Reader, hashes_of
from modak_deploy.transport.local import LocalTransport

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = f"docker://example.org/a@sha256:{'0' * 64}"
POOL = {"name": "pool", "type": "podpool", "node": {"cores": 8}}


@pytest.fixture
def podpool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plugins.install(plugins.DATA / "podpool", tmp_path / "site-packages", monkeypatch)
    yield
    sys.modules.pop("modak_podpool", None)


def planned(folder: Path, image: str = IMAGE, **application: object) -> Plan:
    own = {"name": "a", "type": "hpc", "executable": "true", "image": image, **application}
    deployment = parse_deployment({"application": own, "target": POOL}, origin="test")
    return plan_deployment(deployment, LocalTransport(), search=[folder], now=NOW)


def test_it_is_planned_for_as_it_is_described(podpool: None, tmp_path: Path) -> None:
    plan = planned(tmp_path, secret_environment={"TOKEN": {"variable": "NOWHERE"}})
    assert (plan.chosen.runtime, plan.chosen.resources.threads, plan.scheduler) == ("docker", 8, "process")
    assert is_on_cluster(plan) and not plan.target.is_asked
    assert hashes_of(plan, Reader()) == {}, "the controller has no such variable"
    assert "podpool" in render(plan)


def test_what_it_cannot_do_is_said_in_its_own_words(podpool: None, tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="nodes of the pool pull images of a registry only, and this is none"):
        planned(tmp_path, "/site/a.sif")
    with pytest.raises(OptionError, match="not supported by a target of type podpool"):
        planned(tmp_path, service={"port": 8000})
    for key, message in (
        ({"host": "there"}, "a target of type podpool has no 'host': pods have no login"),
        ({"workspace": "/scratch"}, "a target of type podpool has no 'workspace'"),
        ({"partitions": [{"name": "main"}]}, "a target of type podpool has no partitions"),
        ({"node": None}, "a target of type podpool needs 'node' with its 'cores'"),
    ):
        with pytest.raises(ValueError, match=message):
            Target.model_validate({**POOL, **key})
    assert Target.model_validate({**POOL, "kubernetes": {"namespace": "pods"}}).kubernetes is not None


def test_the_schema_lists_it_only_while_it_is_installed(podpool: None) -> None:
    queues = [name for name in SCHEDULERS.builtin if name != "process"]
    listed = Target.model_json_schema()["properties"]["type"]["enum"]
    assert listed == [*TARGETS.builtin, "podpool", *queues]


def test_a_scheduler_is_a_type_of_target_with_a_queue() -> None:
    assert usual_scheduler("slurm") == "slurm" and not kind_of("slurm").single_node
    assert usual_scheduler("machine") == "process" and isinstance(kind_of("machine"), Machine)
    assert isinstance(kind_of("kubernetes"), KubernetesCluster) and not kind_of("kubernetes").has_login


def test_the_name_of_a_scheduler_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.register(tmp_path, "modak-faulty", {TARGETS.group: {"slurm": "a:B"}})
    monkeypatch.syspath_prepend(tmp_path)
    plugins.forget(monkeypatch)
    with pytest.raises(InputError, match="registers the type of target 'slurm', which is not a valid name"):
        TARGETS.names()
    assert kind_of("slurm").single_node is kind_of("torque").single_node, "built-in ones need no metadata"
