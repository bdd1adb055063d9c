"""A host that is there already: it is asked about itself, and nothing is created."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InputError
from modak_deploy.planning import plan_deployment
from modak_deploy.providers.existing import Existing
from modak_deploy.transport.local import LocalTransport


def test_it_is_planned_for_like_a_machine_and_nothing_is_created(tmp_path: Path) -> None:
    document = {
        "application": {"name": "probe", "type": "hpc", "executable": "true"},
        "target": {"name": "box", "type": "cloud", "host": "box.example.org", "cloud": {"provider": "existing"}},
    }
    deployment = parse_deployment(document, origin="test")
    plan = plan_deployment(deployment, LocalTransport(), search=[tmp_path], now=datetime(2026, 1, 1, tzinfo=UTC))
    assert (plan.scheduler, plan.instance) == ("process", None)
    assert Existing().describe(plan, "").summary() == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"type": "cloud", "cloud": {"provider": "existing"}}, "needs a 'host'"),
        ({"type": "cloud", "host": "h", "cloud": {"provider": "aws", "region": "r"}}, "has no 'host'"),
        ({"type": "cloud", "cloud": {"provider": "aws"}}, "needs a 'region'"),
        ({"type": "cloud"}, "needs a section 'cloud'"),
        ({"type": "machine", "cloud": {"provider": "aws", "region": "r"}}, "has no section 'cloud'"),
        ({"type": "cloud", "cloud": {"provider": "aws", "region": "r", "access": ["1.2.3.4/99"]}}, "is not a network"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(target: dict[str, object], words: str) -> None:
    application = {"name": "probe", "type": "hpc", "executable": "true"}
    with pytest.raises(InputError, match=words):
        parse_deployment({"application": application, "target": {"name": "x", **target}}, origin="test")
