"""A provider of another distribution: planned for by the catalogue of its user, and described."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import plugins
from modak_deploy.documents import parse_deployment
from modak_deploy.errors import InputError
from modak_deploy.extensions import PROVIDERS
from modak_deploy.model.plan import Plan
from modak_deploy.providers import registry

TYPES = """version: 1
instances:
  - {name: shelf, provider: lendinghosts, vcpus: 4, memory: 8G, microarchitecture: zen3,
     prices: [{region: here, hourly: 0.5, currency: EUR, date: "2026-01-01", source: the notice board}]}
"""


@pytest.fixture
def lending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    plugins.install(plugins.DATA / "lendinghosts", tmp_path / "site-packages", monkeypatch)
    (tmp_path / "instances-lent.yaml").write_text(TYPES)
    yield tmp_path
    sys.modules.pop("modak_lendinghosts", None)


def test_it_is_planned_for_and_described(lending: Path, cloud_plan: Callable[..., Plan]) -> None:
    plan = cloud_plan(
        {"provider": "lendinghosts", "region": "here"}, request={"catalogue": [str(lending / "instances-lent.yaml")]}
    )
    assert plan.instance is not None
    assert (plan.instance.chosen.name, plan.instance.currency) == ("shelf", "EUR")
    provider = registry.get("lendinghosts")
    resources = provider.describe(plan, "ssh-ed25519 AAAA")
    host = {"id": "h1", "type": "shelf", "state": "running", "launched": "2026", "tags": resources.tags}
    found = provider.listing({"hosts": [host, {**host, "tags": {}}]}, resources.identity)
    assert [one.id for one in found.instances] == ["h1"]
    assert provider.has_no_capacity("AllLent: come back tomorrow")


def test_one_that_is_not_installed_is_no_provider() -> None:
    assert PROVIDERS.names() == list(PROVIDERS.builtin)
    target = {"name": "x", "type": "cloud", "cloud": {"provider": "lendinghosts", "region": "here"}}
    with pytest.raises(InputError, match=r"cloud\.provider.*'existing'"):
        parse_deployment(
            {"application": {"name": "a", "executable": "x", "type": "hpc"}, "target": target}, origin="test"
        )
