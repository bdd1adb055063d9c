"""Targets of type kubernetes, and what a Job is as the result of any job; no cluster and no library are needed."""

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import jobplans
from modak_deploy.errors import InputError
from modak_deploy.kubernetes.api import Cluster
from modak_deploy.kubernetes.commands import result_of
from modak_deploy.kubernetes.life import State
from modak_deploy.model.kubernetes import Kubernetes
from modak_deploy.model.target import Target
from modak_deploy.providers.kubernetesplan import facts_of

NODE = {"cores": 4}


def target(**values: Any) -> Target:
    return Target.model_validate({"name": "c", "type": "kubernetes", "node": NODE, **values})


def test_a_cluster_is_one_node_with_images_and_is_not_asked() -> None:
    cluster = target()
    assert (cluster.is_asked, cluster.is_created) == (False, False)
    assert (facts_of(cluster).node.cores, list(facts_of(cluster).runtimes)) == (4, ["docker"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"host": "login"}, "has no 'host'"),
        ({"modules": ["gcc"]}, "has no 'modules'"),
        ({"workspace": "/scratch"}, "has no 'workspace'"),
        ({"polling": {"first": 5.0}}, "has no 'polling'"),
        ({"image_keys": ["key.pem"]}, "has no 'image_keys'"),
        ({"node": {"memory": 2**30}}, "needs 'node' with its 'cores'"),
        ({"partitions": [{"name": "batch"}]}, "has no partitions"),
        ({"type": "machine", "kubernetes": {"namespace": "a"}}, "write 'type: kubernetes'"),
        ({"kubernetes": {"namespace": "../default"}}, "namespace"),
        ({"kubernetes": {"claims": {"data": "/modak/x"}}}, "use another path"),
        ({"kubernetes": {"claims": {"data": "//modak/x"}}}, "use another path"),
        ({"kubernetes": {"claims": {"data": "//"}}}, "use another path"),
        ({"kubernetes": {"keep": 60}}, "keep"),
    ],
)
def test_what_a_cluster_has_not_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        target(**values)


def test_a_section_is_a_placement_with_its_defaults() -> None:
    placement = Kubernetes(context="production", queue="users").placement
    assert (placement.namespace, placement.gpu, placement.queue, placement.keep) == ("default", "nvidia", "users", None)


def test_other_targets_keep_their_identity() -> None:
    assert "kubernetes" not in Target(name="here").identity()
    assert target(kubernetes={"namespace": "a"}).identity() != target(kubernetes={"namespace": "b"}).identity()


@pytest.mark.parametrize(
    ("reason", "state"),
    [("BackoffLimitExceeded", "failed"), ("DeadlineExceeded", "timeout"), ("OOMKilled", "out_of_memory")],
)
def test_a_failed_job_is_called_as_elsewhere(reason: str, state: str, tmp_path: Path) -> None:
    plan = jobplans.plan(["true"], tmp_path)
    result = result_of(plan, State("modak-x", "failed", reason, exit_code=1, started=100.0, ended=160.0))
    assert result is not None
    assert (result.state, result.exit_code, result.seconds, result.tag) == (state, 1, 60.0, plan.tag())
    assert result_of(plan, State("modak-x", "absent")) is None


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(InputError, match=r"pip install 'modak-deploy\[kubernetes\]'"):
        Cluster()
