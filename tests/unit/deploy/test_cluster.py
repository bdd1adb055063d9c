"""Jobs of Kubernetes that are run again, on a cluster that refuses them: what is there stays."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import jobplans
from modak_deploy.deploy import cluster
from modak_deploy.deploy.cluster import ClusterRun
from modak_deploy.deploy.running import RunSettings
from modak_deploy.errors import JobError
from modak_deploy.kubernetes.api import Cluster, Refused
from modak_deploy.model.plan import Plan
from modak_deploy.providers.kubernetes import job_name

IMAGE = {"reference": "docker://example.org/probe:1", "digest": "sha256:" + "a" * 64}


class Refusing(Cluster):
    """A cluster with one Job that has failed, and that permits no other."""

    def __init__(self, name: str, reason: str) -> None:
        labels = {"app.kubernetes.io/managed-by": "modak", "app.kubernetes.io/instance": name}
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
        self.job: Any = {"metadata": {"name": name, "uid": "u1", "labels": labels}, "status": {"conditions": [failed]}}
        self.reason = reason

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        if query is None:
            return self.job if path.startswith("/apis") else None
        return {"items": [self.job] if self.job is not None and path.endswith("/jobs") else []}

    def create(self, path: str, body: Mapping[str, Any], *, dry: bool = False) -> Any:
        raise Refused(403, self.reason, f"POST {path}")

    def delete(self, path: str, uid: str) -> None:
        self.job = None


def deploy(monkeypatch: pytest.MonkeyPatch, folder: Path, settings: RunSettings, reason: str) -> Refusing:
    """Deploy on a cluster that refuses; return it."""
    data = jobplans.plan(["true"], folder).model_dump(mode="json", by_alias=True)
    data["chosen"] |= {"runtime": "docker", "image": IMAGE}
    data["target"] = {"name": "c", "type": "kubernetes", "node": {"cores": 4}}
    plan = Plan.model_validate(data)
    refusing = Refusing(job_name(plan.name, plan.tag()), reason)
    monkeypatch.setattr(cluster, "Cluster", lambda context: refusing)
    run = ClusterRun(plan, [folder], lambda line: None)
    assert run.see() is not None
    with pytest.raises(JobError, match=reason):
        run.run(settings, folder)
    return refusing


@pytest.mark.parametrize("settings", [RunSettings(restarted=True), RunSettings(retry=True)])
def test_a_job_that_cannot_be_created_again_is_not_deleted(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert deploy(monkeypatch, tmp_path, settings, "denied by policy").job is not None


def test_a_quota_that_the_old_job_fills_does_not_keep_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert deploy(monkeypatch, tmp_path, RunSettings(restarted=True), "exceeded quota: jobs").job is None
