"""An image that the catalogue does not have is for the node's processor."""

from datetime import UTC, datetime

import pytest

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(("processor", "architecture"), [("neoverse_v2", "arm64"), ("zen2", "amd64"), (None, "amd64")])
def test_a_reference_is_taken_for_the_node_s_processor(processor: str | None, architecture: str) -> None:
    document = {
        "application": {"name": "hello", "executable": "hello", "image": f"docker://r.example.org/app@{DIGEST}"},
        "target": {"name": "here"},
    }
    facts = {"hostname": "node", "node": {"cores": 4, "microarchitecture": processor}, "runtimes": {"podman": "5.0.0"}}
    plan = make_plan(
        Deployment.model_validate(document),
        Facts.model_validate(facts),
        [],
        now=datetime(2026, 1, 1, tzinfo=UTC),
        catalogue=load_catalogue(),
        measurements=Table([]),
    )
    assert plan.chosen.image is not None
    assert plan.chosen.image.architecture == architecture
