"""What a Plan is made from before it is decided."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.documents import parse_deployment
from modak_deploy.model.plan import Plan
from modak_deploy.objects import transfer
from modak_deploy.planning import plan_deployment
from modak_deploy.providers.base import identity_of
from modak_deploy.transport.local import LocalTransport

OBJECTS = {"inputs": {"data/w": "s3://bucket/words"}}


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without copies of objects, for whom every storage fails."""
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr(transfer, "_STORAGES", {})


def planned(tmp_path: Path, *, deployed: bool, **application: Any) -> Plan:
    cloud = {"provider": "aws", "region": "us-east-1", "machine_image": "ami-1", "access": ["192.0.2.0/24"]}
    document = {
        "application": {"name": "probe", "executable": "true", **application},
        "target": {"name": "aws", "type": "cloud", "private_key": str(tmp_path / "id"), "cloud": cloud},
        "job": {"wall_time": "10m"},
    }
    asked = parse_deployment(document, origin="test")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return plan_deployment(asked, LocalTransport(), search=[tmp_path], now=now, deployed=deployed)


def test_an_instance_is_undeployed_without_the_objects_that_it_had(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        planned(tmp_path, deployed=False, objects=OBJECTS)
    asked = planned(tmp_path, deployed=True, objects=OBJECTS)
    assert identity_of(asked, "key") == identity_of(planned(tmp_path, deployed=False), "key")
