"""OpenStack: what a Plan needs there, and which of the listed resources are the deployment's."""

import ast
import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.plugins.filter.core import FilterModule
from jinja2 import Environment

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.plan import Plan
from modak_deploy.providers import registry
from modak_deploy.providers.decision import decide, to_release
from modak_deploy.providers.openstack import ADDRESS_TAG, HOST_KEY_TAG, OpenStack
from modak_deploy.providers.record import read_public_key
from modak_deploy.providers.resources import DEPLOYMENT_TAG, Listing, Resources

ROLE = Path(__file__).parents[3] / "roles" / "cloud"
FLAVORS = """version: 1
instances:
  - {name: m1.small, provider: openstack, vcpus: 2, memory: 2G, microarchitecture: x86_64_v3,
     prices: [{region: here, hourly: 0, currency: EUR, date: "2026-01-01", source: not charged}]}
  - {name: m1.large, provider: openstack, vcpus: 4, memory: 8G, microarchitecture: x86_64_v3,
     prices: [{region: here, hourly: 0.2, currency: EUR, date: "2026-01-01", source: the project}]}
"""
OWN, OTHER = "modak-0123456789abcdef", "modak-fedcba9876543210"
HOST_KEY = "ssh-ed25519 " + "A" * 68


@pytest.fixture
def described(cloud_plan: Callable[..., Plan], tmp_path: Path) -> Callable[..., Resources]:
    (tmp_path / "instances-here.yaml").write_text(FLAVORS)

    def describe(request: dict[str, Any] | None = None, **cloud: Any) -> Resources:
        asked = {"provider": "openstack", "region": "here", "machine_image": "debian-12", **cloud}
        catalogue = [str(tmp_path / "instances-here.yaml")]
        plan = cloud_plan(asked, request={"catalogue": catalogue, **(request or {})})
        return OpenStack().describe(plan, read_public_key(plan.target))

    return describe


def test_what_is_created(described: Callable[..., Resources]) -> None:
    resources = described(vpc="inside", zones=["nova"], profile="lab")
    assert resources.group is not None
    assert resources.instance is not None
    identity = resources.identity
    assert resources.group.description == f"modak:deployment={identity} modak: what one deployment opens"
    assert (resources.instance.name, resources.instance.vpc, resources.profile) == (identity, "inside", "lab")
    assert {key: resources.tags[key] for key in (DEPLOYMENT_TAG, ADDRESS_TAG)} == {
        DEPLOYMENT_TAG: identity,
        ADDRESS_TAG: "fixed",
    }
    assert described(address="public").tags[ADDRESS_TAG] == "floating"
    assert resources.summary() == [
        f"security group {identity}: opens tcp 22 for 192.0.2.0/24",
        f"instance {identity}: m1.small in here, 0 EUR an hour; it stops itself after 2400 s, at 0 EUR, and stays, "
        "which many clouds charge, until it is undeployed",
    ]


def test_metadata_is_what_nova_takes(described: Callable[..., Resources]) -> None:
    """Keys of ^[a-zA-Z0-9-_:. ]{1,255}$ and values of up to 255 characters (nova/api/validation/parameter_types.py)."""
    for key, value in {**described().tags, HOST_KEY_TAG: HOST_KEY}.items():
        assert len(value) <= 255
        assert set(key) <= set("abcdefghijklmnopqrstuvwxyz_:")


def test_the_rules_that_neutron_is_asked_for(described: Callable[..., Resources]) -> None:
    ports = [{"port": 9000, "last": 9010, "protocol": "udp", "sources": ["0.0.0.0/0", "2001:db8::/32"]}]
    template = (ROLE / "templates" / "openstack_rules.json.j2").read_text()
    # JSON, as Ansible renders it
    engine = Environment(trim_blocks=True, autoescape=False)  # noqa: S701
    text = engine.from_string(template).render(cloud_resources=described(ports=ports))
    ingress = {"direction": "ingress", "ether_type": "IPv4"}
    udp = {"protocol": "udp", "port_range_min": 9000, "port_range_max": 9010}
    assert json.loads(text) == [
        {**ingress, "protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "192.0.2.0/24"},
        {**ingress, **udp, "remote_ip_prefix": "0.0.0.0/0"},
        {**ingress, **udp, "ether_type": "IPv6", "remote_ip_prefix": "2001:db8::/32"},
        {"direction": "egress", "ether_type": "IPv4"},
        {"direction": "egress", "ether_type": "IPv6"},
    ]


def test_what_is_open_twice_is_asked_for_once(described: Callable[..., Resources]) -> None:
    """DuplicateSecurityGroupRuleInPost of neutron: 409, and a group without any rule."""
    ports = [{"port": 22}, {"port": 22, "sources": ["192.0.2.0/24", "198.51.100.0/24", "198.51.100.0/24"]}]
    assert described(ports=ports).summary()[0].endswith("opens tcp 22 for 192.0.2.0/24; tcp 22 for 198.51.100.0/24")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine_image": None}, r"target\.cloud\.machine_image.*by its name or ID"),
        ({"access": []}, r"target\.cloud\.access.*no network may connect"),
        ({"subnet": "s"}, r"target\.cloud\.subnet.*not used.*'vpc'"),
        ({"disk": "20G", "root_device": "/dev/vda"}, r"target\.cloud\.disk.*not used.*flavor"),
    ],
)
def test_what_the_description_lacks_or_has_too_much_is_said(
    described: Callable[..., Resources], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        described(**changes)


def test_a_flavor_without_charge_keeps_every_budget(described: Callable[..., Resources]) -> None:
    resources = described({"budget": 0.001, "objective": "cost"}, instance_types=["m1.small"])
    assert (resources.lease, resources.maximum_cost) == (2400, 0)


def row(**changes: Any) -> dict[str, Any]:
    address = {"addr": "10.99.0.7", "version": 4, "OS-EXT-IPS:type": "fixed"}
    return {
        "id": "0f9e2c4e-0000-4000-8000-000000000001",
        "name": OWN,
        "status": "ACTIVE",
        "task_state": None,
        "created_at": "2026-01-01T00:00:00Z",
        "flavor": {"original_name": "m1.small", "name": "m1.small"},
        "addresses": {"inside": [address]},
        "metadata": {DEPLOYMENT_TAG: OWN, ADDRESS_TAG: "fixed", HOST_KEY_TAG: HOST_KEY},
        **changes,
    }


def listing(*rows: dict[str, Any], groups: list[dict[str, Any]] | None = None) -> Listing:
    return OpenStack().listing({"servers": list(rows), "security_groups": groups or []}, OWN)


def floating(address: str) -> dict[str, Any]:
    fixed, entry = {"addr": "10.99.0.7", "OS-EXT-IPS:type": "fixed"}, {"addr": address, "OS-EXT-IPS:type": "floating"}
    return {"addresses": {"inside": [fixed, entry]}, "metadata": {DEPLOYMENT_TAG: OWN, ADDRESS_TAG: "floating"}}


def test_only_what_carries_the_deployments_mark_is_its_own() -> None:
    groups = [
        {"id": "g1", "name": OWN, "description": f"modak:deployment={OWN} modak: what one deployment opens"},
        {"id": "g2", "name": OWN, "description": "somebody's"},
        {"id": "g3", "name": OWN, "description": f"modak:deployment={OTHER} modak"},
        {"id": "g4", "name": OWN, "description": f"not modak:deployment={OWN}"},
        {"id": "g5", "name": OWN, "description": None},
    ]
    foreign = row(id="x y", status="odd", metadata={DEPLOYMENT_TAG: OTHER})
    found = listing(row(), foreign, row(metadata={}), row(metadata=None), row(status="DELETED"), groups=groups)
    assert [(one.address, one.type, one.host_key) for one in found.instances] == [("10.99.0.7", "m1.small", HOST_KEY)]
    assert [group.id for group in found.groups] == ["g1"]


def test_a_floating_address_stands_over_a_fixed_one() -> None:
    assert listing(row(**floating("203.0.113.9"))).instances[0].address == "203.0.113.9"


def test_one_that_was_renamed_is_the_deployments_all_the_same() -> None:
    assert [one.id for one in listing(row(name="training-box")).instances] == [row()["id"]]
    for task in yaml.safe_load((ROLE / "tasks" / "openstack_list.yml").read_text()):
        assert "name" not in next(value for key, value in task.items() if key.startswith(("openstack.", "ansible.")))


def test_what_has_the_name_and_lacks_the_mark_is_not_taken_over() -> None:
    """The collection's modules know servers and groups by their names: they would change what has it."""
    group = {"id": "g", "name": OWN, "description": "somebody's"}
    server, groups = listing(row(metadata={})), listing(groups=[group])
    for found, what in ((server, f"server {row()['id']}"), (groups, "security group g")):
        decision = decide(found, wanted="m1.small", permitted=[], pending=False)
        assert decision.step == "refuse"
        assert decision.reason is not None
        assert decision.reason.startswith(f"{what}: the name is the deployment's")
        assert to_release(found) == ([], [], [])
    both = listing(row(), row(id="2", metadata={}))
    assert decide(both, wanted="m1.small", permitted=[], pending=False).step == "use"


def test_a_server_that_failed_is_deleted_and_made_anew() -> None:
    lacks_its_floating_ip = row(
        launched_at="2020-01-01T00:00:00.000000", metadata={DEPLOYMENT_TAG: OWN, ADDRESS_TAG: "floating"}
    )
    for fault in (row(status="ERROR", addresses={}), lacks_its_floating_ip):
        found = listing(fault)
        decision = decide(found, wanted="m1.small", permitted=[], pending=False)
        assert (decision.step, decision.surplus) == ("create", [fault["id"]])
        assert to_release(found)[0] == [fault["id"]]
        both = decide(listing(fault, row(id="2")), wanted="m1.small", permitted=[], pending=True)
        assert (both.step, both.surplus) == ("use", [fault["id"]])


@pytest.mark.parametrize("status", ["ERROR", "UNKNOWN"])
def test_a_server_that_has_run_is_not_deleted_by_a_deployment(status: str) -> None:
    """A reboot or a migration that failed leaves ERROR behind, and the job's results on the disk."""
    decision = decide(
        listing(row(status=status, launched_at="2020-01-01T00:00:00.000000")),
        wanted="m1.small",
        permitted=[],
        pending=False,
    )
    assert (decision.step, decision.surplus) == ("refuse", [])


@pytest.mark.parametrize("key", ["launched_at", "created_at"])
def test_another_controller_gets_the_time_to_attach_the_floating_ip(key: str) -> None:
    begun = datetime.now(UTC).replace(tzinfo=None).isoformat()
    young = row(metadata={DEPLOYMENT_TAG: OWN, ADDRESS_TAG: "floating"}, **{key: begun})
    decision = decide(listing(young), wanted="m1.small", permitted=[], pending=False)
    assert (decision.step, decision.surplus) == ("wait", [])


def test_one_that_is_deleted_already_is_waited_for() -> None:
    found = listing(row(task_state="deleting"))
    assert decide(found, wanted="m1.small", permitted=[], pending=False).step == "wait"


def test_one_whose_lease_is_over_is_stopped() -> None:
    decision = decide(listing(row(status="SHUTOFF")), wanted="m1.small", permitted=[], pending=False)
    assert decision.step == "refuse"


@pytest.mark.parametrize(
    "change",
    [
        {"status": "CONFUSED"},
        {"status": None},
        {"id": "a; reboot"},
        {"flavor": None},
        {"flavor": {"original_name": "\x1b[2J"}},
        {"created_at": None},
        {"addresses": {"inside": [{"addr": "-oProxyCommand=x", "OS-EXT-IPS:type": "fixed"}]}},
    ],
)
def test_an_odd_answer_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TargetError, match="OpenStack lists"):
        listing(row(**change))


@pytest.mark.parametrize("raw", [{}, {"servers": None, "security_groups": []}, {"servers": ["x"]}])
def test_a_missing_list_is_no_empty_one(raw: dict[str, Any]) -> None:
    with pytest.raises(TargetError, match="has no list of"):
        OpenStack().listing(raw, OWN)


@pytest.mark.parametrize(
    "message",
    [
        "Error in creating the server. Compute service reports fault: No valid host was found. ",
        "ForbiddenException: 403: Quota exceeded for cores: Requested 64, but already used 0 of 20 cores",
        "403: Quota exceeded for cores, ram: Requested 64, 1024, but already used 0, 0 of 20, 512 cores, ram",
        "Project p is over a limit for [Resource class:VCPU is over limit of 20 due to current usage 0 and delta 64]",
        "No Flavor found for m1.absent",
    ],
)
def test_a_lack_of_capacity_is_told_from_other_errors(message: str) -> None:
    assert registry.get("openstack").has_no_capacity(message)


@pytest.mark.parametrize(
    "message",
    [
        "ForbiddenException: 403: Policy doesn't allow it",
        "ConflictException: 409: Quota exceeded for resources: ['floatingip'].",
        "ConflictException: 409: Quota exceeded for resources: ['security_group'].",
        "ForbiddenException: 403: Quota exceeded for instances: Requested 1, but already used 10 of 10 instances",
    ],
)
def test_what_no_other_flavor_helps_is_no_lack_of_capacity(message: str) -> None:
    assert not registry.get("openstack").has_no_capacity(message)


def test_an_odd_kind_of_address_is_none() -> None:
    odd = {"inside": [{"addr": "10.99.0.7", "OS-EXT-IPS:type": []}]}
    assert listing(row(addresses=odd)).instances[0].address is None


@pytest.mark.parametrize("name", ["list", "create", "release"])
def test_the_tasks_hold_no_credential_and_no_address_of_a_cloud(name: str) -> None:
    tasks = yaml.safe_load((ROLE / "tasks" / f"openstack_{name}.yml").read_text())
    flat = [inner for task in tasks for inner in (task, *task.get("block", []), *task.get("rescue", []))]
    for task in flat:
        for module, arguments in task.items():
            if module.startswith("openstack.cloud."):
                assert not {"auth", "auth_type", "api_timeout"} & set(arguments)
                assert {"cloud", "region_name"} <= set(arguments)


def rendered(template: str, **variables: Any) -> str:
    """Return a template of the role's, with Ansible's own filters."""
    engine = Environment(autoescape=False)  # noqa: S701
    filters = FilterModule().filters()
    engine.filters.update(
        {name: filters[name] for name in ("regex_replace", "regex_search", "dict2items", "flatten", "quote")}
    )
    return engine.from_string(template).render(**variables).strip()


def tasks_of(name: str) -> dict[str, dict[str, Any]]:
    """Return a file's tasks by their names, those of its blocks included."""
    tasks = yaml.safe_load((ROLE / "tasks" / f"{name}.yml").read_text())
    flat = [inner for task in tasks for inner in (task, *task.get("block", []), *task.get("rescue", []))]
    return {task["name"]: task for task in flat}


def test_user_data_that_nova_quotes_is_not_shown() -> None:
    """nova/api/validation/validators.py: "Invalid input for field/attribute %(path)s. Value: %(value)s. ..."."""
    task = tasks_of("openstack_create")["Say why it was not created"]
    secret = base64.b64encode(b"#cloud-config\n" + b"-----BEGIN OPENSSH PRIVATE KEY-----" * 20).decode()
    fault = f"400: Invalid input for field/attribute server. Value: {{'user_data': '{secret}', 'tags': []}}. 'tags' was"
    shown = rendered(
        task["ansible.builtin.fail"]["msg"], cloud_servers={"servers": [{"status": "BUILD"}]}, cloud_fault=fault
    )
    assert shown == "400: Invalid input for field/attribute server. Value: {'user_data': '...', 'tags': []}. 'tags' was"


@pytest.mark.parametrize(("kind", "fails"), [("fixed", "True"), ("floating", "False")])
def test_a_server_without_the_floating_ip_it_was_to_have_is_an_error(kind: str, fails: str) -> None:
    """Else it would be listed as failed, deleted, and made anew for ever."""
    tasks = yaml.safe_load((ROLE / "tasks" / "openstack_create.yml").read_text())
    block = next(task for task in tasks if task["name"] == "Require the floating IP")
    task = block["block"][-1]
    servers = [{"addresses": {"inside": [{"OS-EXT-IPS:type": "fixed"}, {"OS-EXT-IPS:type": kind}], "other": []}}]
    networks = rendered(task["vars"]["cloud_networks"], cloud_servers={"servers": servers})
    kinds = rendered(task["vars"]["cloud_kinds"], cloud_networks=ast.literal_eval(networks))
    assert rendered(f"{{{{ {task['when']} }}}}", cloud_kinds=ast.literal_eval(kinds)) == fails


@pytest.mark.parametrize(("address", "deleted"), [("floating", "True"), ("fixed", "False"), (None, "False")])
def test_only_a_floating_ip_of_the_deployments_own_is_deleted(address: str | None, deleted: str) -> None:
    """A server without one may have been given an address that its user keeps."""
    task = tasks_of("openstack_release")["Delete the servers"]
    metadata = {DEPLOYMENT_TAG: OWN} | ({ADDRESS_TAG: address} if address else {})
    servers = [row(id="2", metadata={ADDRESS_TAG: "floating"}), row(id="1", metadata=metadata)]
    found = rendered(task["vars"]["cloud_addresses"], cloud_listed={"servers": servers}, cloud_server_id="1")
    template = task["openstack.cloud.server"]["delete_ips"]
    assert rendered(template, cloud_addresses=ast.literal_eval(found)) == deleted


def shown_of(fault: str, python: str | None) -> str:
    """Return what is shown where a provider cannot be asked."""
    task = tasks_of("list")["Give the command that installs the Python package"]
    variables: dict[str, Any] = {"cloud_fault": fault, "cloud_described": {"python": python}}
    package = rendered(task["vars"]["cloud_package"], **variables)
    lacks = rendered(task["vars"]["cloud_lacks_package"], cloud_package=package, **variables)
    return rendered(task["ansible.builtin.fail"]["msg"], cloud_lacks_package=lacks == "True", **variables)


@pytest.mark.parametrize(
    ("provider", "fault", "command"),
    [
        ("openstack", "openstacksdk is required for this module", "pip install 'openstacksdk<4.8'"),
        ("libvirt", "The `libvirt` module is not importable. Check", "pip install libvirt-python lxml pycdlib"),
        ("aws", "Failed to import the required Python library (botocore and boto3)", "pip install boto3"),
    ],
)
def test_the_command_for_a_missing_package_is_the_one_of_the_documentation(
    provider: str, fault: str, command: str
) -> None:
    python = registry.get(provider).python
    assert shown_of(fault, python) == f"{fault}; run: {command} for the Python of localhost"
    assert f"`{command}" in (ROLE.parents[1] / "docs" / "cloud.md").read_text()
    assert shown_of(fault, None) == fault
    assert shown_of("the host does not answer", python) == "the host does not answer"


def test_no_listing_of_servers_is_logged() -> None:
    """nova tells administrators each server's user data (OS-EXT-SRV-ATTR), and there the private host key is."""
    blocks = [yaml.safe_load((ROLE / "tasks" / f"openstack_{name}.yml").read_text()) for name in ("list", "create")]
    tops = [task for block in blocks for task in block]
    tasks = [inner for task in tops for inner in (task, *task.get("block", []), *task.get("rescue", []))]
    telling = {"openstack.cloud.server_info", "openstack.cloud.server", "ansible.builtin.set_fact"}
    found = [task for task in tasks if telling & set(task)]
    assert len(found) == 5
    assert all(task.get("no_log") is True for task in found)
