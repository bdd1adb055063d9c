"""The cluster of tests/real/kubernetes.sh, and a namespace of its own for each test."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("kubernetes.client", reason="needs the package kubernetes: pip install 'modak-deploy[kubernetes]'")

import deployed

RIG = Path(__file__).resolve().parent.parent / "real" / "kubernetes.sh"


@pytest.fixture(scope="session")
def folder() -> Path:
    done = subprocess.run([RIG, "folder"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("needs the cluster of tests/real/kubernetes.sh up")
    return Path(done.stdout.strip())


@pytest.fixture
def site(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[deployed.Site]:
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    site = deployed.Site(folder, tmp_path, f"test-{uuid.uuid4().hex[:8]}")
    site.kubectl("create", "namespace", site.namespace)
    yield site
    site.kubectl("delete", "namespace", site.namespace, "--wait=false")
