"""An image that is not available: the optimiser decides again without it, by the same rules."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import modak_deploy.planning
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.errors import TargetError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.measurement import Measurement
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table
from modak_deploy.planning import with_image
from modak_deploy.transport.local import LocalTransport

DIGEST = "sha256:" + "0123456789abcdef" * 4
FACTS = {
    "hostname": "node",
    "node": {"cores": 4, "microarchitecture": "zen2", "cpu_model": "AMD EPYC 7742"},
    "runtimes": {"apptainer": "1.3.0"},
    "python": "/usr/bin/python3",
    "packages": {"numexpr": "2.14.1"},
}
HARDWARE = {"microarchitecture": "zen2", "cpu_model": "AMD EPYC 7742", "cores": 4}


@pytest.fixture
def silent_registry() -> Iterator[str]:
    """An address of this machine at which nothing listens, though nobody else can take it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def catalogue(tmp_path: Path, silent_registry: str) -> Path:
    """Three images of one framework: two in a registry that does not answer, one pinned elsewhere."""
    common = {"source": "hub", "framework": "numexpr", "version": "2.14.1", "packages": {"numexpr": "2.14.1"}}
    images = [
        {"name": "fast", "reference": f"docker://{silent_registry}/fast:1", **common},
        {"name": "quick", "reference": f"docker://{silent_registry}/quick:1", **common},
        {"name": "pinned", "reference": "docker://docker.io/some/pinned:1", "digest": DIGEST, **common},
    ]
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "images.yaml").write_text(yaml.safe_dump({"version": 1, "images": images}))
    return folder


def record(image: str | None, seconds: list[float]) -> Measurement:
    configuration = {"runtime": "apptainer", "image": image} if image else {"runtime": "native"}
    return Measurement.model_validate(
        {
            "type": "big_data",
            "framework": "numexpr",
            "workload": {"model": "table", "unit": "run"},
            "hardware": HARDWARE,
            "configuration": configuration,
            "runs": [{"total": value} for value in seconds],
            "provenance": {"source": "a test", "date": "2026-01-01", "method": "invented"},
        }
    )


def measured(pinned: list[float]) -> Table:
    return Table(
        [
            record("fast", [10.0, 10.1, 10.2, 9.9]),
            record("quick", [11.0, 11.1, 11.2, 10.9]),
            record("pinned", pinned),
            record(None, [20.0, 20.5, 20.2, 19.8]),
        ]
    )


@pytest.fixture
def plan(catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Plan, Plan]]:
    """Return the function that gives the Plan before its image is resolved, and after."""

    def both(table: Table, application: dict[str, Any] | None = None, request: dict[str, Any] | None = None) -> Any:
        monkeypatch.setattr(modak_deploy.planning, "available_measurements", lambda: table)
        document = {
            "application": {
                "name": "table",
                "type": "big_data",
                "script": "table.py",
                "framework": {"name": "numexpr"},
                "workload": {"model": "table", "unit": "run"},
                **(application or {}),
            },
            "target": {"name": "here", "workspace": str(tmp_path / "workspace")},
            "request": {"catalogue": [str(catalogue)], **(request or {})},
        }
        deployment = Deployment.model_validate(document)
        first = make_plan(
            deployment,
            Facts.model_validate(FACTS),
            [],
            now=datetime(2026, 1, 1, tzinfo=UTC),
            catalogue=catalogue_for(deployment.request.catalogue, []),
            measurements=table,
        )
        return first, with_image(first, LocalTransport(), search=[])

    return both


def test_what_takes_its_place_is_not_slower_than_the_default(plan: Callable[..., Any]) -> None:
    # The image that is left is the second best by its mean, and not surely faster than the default.
    before, after = plan(measured(pinned=[15.0, 19.0, 24.0, 20.0]))
    assert before.chosen.name == "apptainer:fast"
    assert [ranked.candidate.name for ranked in before.alternatives][:2] == ["apptainer:quick", "apptainer:pinned"]
    assert after.chosen.runtime == "native"
    assert after.gain is None
    assert "the default stays" in after.reason
    assert "it was decided without fast and 1 more, because the registry 127.0.0.1" in after.reason
    reasons = {row.name: row.reason for row in after.rejected}
    assert "cannot be reached" in reasons["apptainer:fast"]
    assert "cannot be reached" in reasons["apptainer:quick"]
    assert (after.created, after.inputs, after.facts) == (before.created, before.inputs, before.facts)


def test_what_takes_its_place_is_faster_than_the_default_where_that_is_sure(plan: Callable[..., Any]) -> None:
    _, after = plan(measured(pinned=[12.0, 12.1, 12.2, 11.9]))
    assert after.chosen.name == "apptainer:pinned"
    assert after.gain is not None
    assert after.gain.low > 1


@pytest.mark.parametrize(
    ("application", "request_"),
    [
        ({"image": "fast"}, {}),
        ({}, {"configuration": {"runtime": "apptainer", "image": "fast"}}),
    ],
)
def test_what_the_user_asked_for_is_not_replaced(
    plan: Callable[..., Any], application: dict[str, Any], request_: dict[str, Any]
) -> None:
    table = Table([record("fast", [10.0]), record("quick", [11.0])])
    with pytest.raises(TargetError, match=r"^the image 'fast' is not available: the registry 127.0.0.1:[0-9]+ cannot"):
        plan(table, application, request_)
