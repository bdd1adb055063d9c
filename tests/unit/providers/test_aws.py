"""AWS: what a Plan needs there, and which of the listed resources are the deployment's."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from modak_deploy.errors import InfeasibleError, InputError, TargetError
from modak_deploy.model.plan import Plan
from modak_deploy.providers import registry
from modak_deploy.providers.aws import Aws
from modak_deploy.providers.base import identity_named
from modak_deploy.providers.record import read_public_key
from modak_deploy.providers.resources import DEPLOYMENT_TAG, Listing

Planner = Callable[..., Plan]


def test_the_group_opens_what_is_asked_to_whom_it_is_asked(cloud_plan: Planner) -> None:
    ports = [{"port": 8080, "sources": ["0.0.0.0/0"]}, {"port": 9000, "last": 9010, "protocol": "udp"}]
    plan = cloud_plan({"ports": ports})
    group = Aws().describe(plan, read_public_key(plan.target)).group
    assert group is not None
    assert [(r.protocol, r.first, r.last, r.sources) for r in group.rules] == [
        ("tcp", 22, 22, ["192.0.2.0/24"]),
        ("tcp", 8080, 8080, ["0.0.0.0/0"]),
        ("udp", 9000, 9010, ["192.0.2.0/24"]),
    ]


def test_the_summary_names_everything_with_its_price(cloud_plan: Planner) -> None:
    plan = cloud_plan({"instance_types": ["c7i.xlarge"]})
    resources = Aws().describe(plan, read_public_key(plan.target))
    assert resources.summary() == [
        f"security group {resources.identity}: opens tcp 22 for 192.0.2.0/24",
        "instance modak-probe: c7i.xlarge in us-east-1, 0.1785 USD an hour, 0.119 USD at most; "
        "it ends itself after 2400 s",
    ]


def test_the_identity_is_the_documents_and_the_keys(cloud_plan: Planner) -> None:
    plan = cloud_plan()
    key = read_public_key(plan.target)
    first = Aws().describe(plan, key).identity
    assert Aws().describe(cloud_plan({"instance_types": ["m7i.large"]}), key).identity == first
    assert Aws().describe(cloud_plan(job={"wall_time": "20m"}), key).identity == first
    assert Aws().describe(plan, key.replace("user@example.org", "other comment")).identity == first
    assert Aws().describe(plan, key.replace("AAAAIJ3V", "AAAAIJ4V")).identity != first
    assert Aws().describe(cloud_plan({"region": "us-east-1"}, job={"name": "other"}), key).identity != first


def test_runs_that_name_one_deployment_share_its_instance(cloud_plan: Planner) -> None:
    """What the target names alone is enough to list and delete it; what the job does is the same as before."""
    plan = cloud_plan({"deployment": "shared"})
    key = read_public_key(plan.target)
    shared = Aws().describe(plan, key).identity
    assert Aws().describe(cloud_plan({"deployment": "shared"}, job={"name": "other"}), key).identity == shared
    assert Aws().describe(cloud_plan(), key).identity != shared
    belonging = Aws().belonging(plan.target, identity_named("", plan.target, key))
    assert (belonging.identity, belonging.region, belonging.instance) == (shared, "us-east-1", None)
    assert plan.tag() == cloud_plan().tag() == cloud_plan({"after_failure": "release"}).tag()


@pytest.mark.parametrize(
    ("missing", "words"), [("access", "no network may connect"), ("machine_image", "machine image")]
)
def test_what_the_description_lacks_is_said(cloud_plan: Planner, missing: str, words: str) -> None:
    plan = cloud_plan({missing: [] if missing == "access" else None})
    with pytest.raises(InputError, match=rf"target\.cloud\.{missing}.*{words}"):
        Aws().describe(plan, read_public_key(plan.target))


def row(identity: str, **changes: Any) -> dict[str, Any]:
    data = "#cloud-config\nssh_keys:\n  ed25519_public: ssh-ed25519 " + "A" * 68 + "\n"
    return {
        "instance_id": "i-1",
        "instance_type": "c7i.xlarge",
        "state": {"name": "running", "code": 16},
        "launch_time": "2026-01-01T00:00:00+00:00",
        "public_ip_address": "192.0.2.7",
        "private_ip_address": "10.0.0.7",
        "tags": {DEPLOYMENT_TAG: identity},
        "attributes": {"user_data": {"value": base64.b64encode(data.encode()).decode()}},
        **changes,
    }


def listing(
    *rows: dict[str, Any], groups: list[dict[str, Any]] | None = None, ended: Sequence[dict[str, Any]] = ()
) -> Listing:
    raw = {"instances": list(rows), "security_groups": groups or [], "ended": list(ended)}
    return Aws().listing(raw, "modak-0123456789abcdef")


def test_what_carries_another_tag_is_not_the_deployments() -> None:
    own, other = "modak-0123456789abcdef", "modak-fedcba9876543210"
    groups = [{"group_id": "sg-1", "tags": {DEPLOYMENT_TAG: own}}, {"group_id": "sg-2", "tags": {}}]
    found = listing(row(own), row(other), row(own, tags=None), row(own, state={"name": "terminated"}), groups=groups)
    assert [one.host_key for one in found.instances] == ["ssh-ed25519 " + "A" * 68]
    assert [group.id for group in found.groups] == ["sg-1"]


@pytest.mark.parametrize(
    "change",
    [
        {"state": {"name": "confused"}},
        {"state": None},
        {"instance_id": "i-1; reboot"},
        {"instance_id": None},
        {"public_ip_address": "-oProxyCommand=x"},
        {"instance_type": "\x1b[2J"},
    ],
)
def test_an_odd_answer_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TargetError, match="AWS lists"):
        listing(row("modak-0123456789abcdef", **change))


@pytest.mark.parametrize("raw", [{}, {"instances": None, "security_groups": []}, {"instances": ["x"]}])
def test_a_missing_list_is_no_empty_one(raw: dict[str, Any]) -> None:
    with pytest.raises(TargetError, match="has no list of"):
        Aws().listing(raw, "modak-0123456789abcdef")


def test_a_spot_instance_that_was_taken_back_is_told_from_one_that_ended() -> None:
    own = "modak-0123456789abcdef"
    taken = {"state": {"name": "terminated"}, "state_reason": {"code": "Server.SpotInstanceTermination"}}
    ended = {"state": {"name": "terminated"}, "state_reason": {"code": "Client.InstanceInitiatedShutdown"}}
    spot = {"instance_lifecycle": "spot"}
    found = listing(
        row(own, instance_id="i-1", **spot, **taken),
        row(own, instance_id="i-2", **spot, **ended),
        row(own, instance_id="i-3", **spot),
        row("modak-fedcba9876543210", instance_id="i-4", **spot, **taken),
        row(own, instance_id="i-5", state_reason="odd"),
        ended=[row(own, instance_id="i-6", attributes=None, **spot, **taken), row(own, instance_id="i-7", **ended)],
    )
    assert found.interrupted == ["i-1", "i-6"]
    assert [one.label for one in found.instances] == ["c7i.xlarge spot", "c7i.xlarge"]


def test_launch_templates_are_the_deployments_by_their_tag() -> None:
    own = "modak-0123456789abcdef"
    templates = [
        {"launch_template_id": "lt-1", "tags": {DEPLOYMENT_TAG: own}},
        {"launch_template_id": "lt-2", "tags": {DEPLOYMENT_TAG: "modak-fedcba9876543210"}},
        {"launch_template_id": "lt-3"},
    ]
    found = Aws().listing({"instances": [], "security_groups": [], "launch_templates": templates}, own)
    assert [template.id for template in found.templates] == ["lt-1"]


def test_a_budget_shortens_the_lease_and_refuses_what_it_cannot_pay(cloud_plan: Planner) -> None:
    plan = cloud_plan({"instance_types": ["c7i.xlarge"]}, request={"budget": 0.1})
    assert plan.instance is not None
    assert plan.instance.maximum_cost <= 0.1
    assert plan.instance.lease == int(0.1 / 0.1785 * 3600)
    with pytest.raises(InfeasibleError, match=r"the budget of 0\.01 pays for 201 s"):
        cloud_plan({"instance_types": ["c7i.xlarge"]}, request={"budget": 0.01})


def test_a_capacity_error_is_told_from_others() -> None:
    provider = registry.get("aws")
    assert provider.has_no_capacity("An error occurred (InsufficientInstanceCapacity) when calling RunInstances")
    assert not provider.has_no_capacity("An error occurred (UnauthorizedOperation) when calling RunInstances")
