"""A Plan for an instance, made from a document without contacting anything."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.documents import parse_deployment
from modak_deploy.model.plan import Plan
from modak_deploy.planning import plan_deployment
from modak_deploy.transport.local import LocalTransport


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The user's private key file; only the public one beside it is there."""
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3Vt8Gm0nZb8x user@example.org\n")
    return tmp_path / "id"


@pytest.fixture
def cloud_plan(key: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Return the function that plans a document with changes in its sections."""
    monkeypatch.setenv("XDG_STATE_HOME", str(key.parent / "state"))

    def make(cloud: dict[str, Any] | None = None, **sections: dict[str, Any]) -> Plan:
        described: dict[str, Any] = {
            "provider": "aws",
            "region": "us-east-1",
            "machine_image": "ami-1",
            "access": ["192.0.2.0/24"],
            **(cloud or {}),
        }
        document = {
            "application": {"name": "probe", "type": "hpc", "executable": "true"},
            "target": {"name": "aws", "type": "cloud", "private_key": str(key), "cloud": described},
            "job": {"wall_time": "10m"},
            **sections,
        }
        deployment = parse_deployment(document, origin="test")
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return plan_deployment(deployment, LocalTransport(), search=[key.parent], now=now)

    return make
