"""libvirt: what a Plan needs there, and which of the listed domains and volumes are the deployment's."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Target
from modak_deploy.providers import registry
from modak_deploy.providers.decision import decide, to_release
from modak_deploy.providers.domains import NAMESPACE
from modak_deploy.providers.libvirt import Libvirt
from modak_deploy.providers.record import read_public_key
from modak_deploy.providers.resources import DEPLOYMENT_TAG, Listing, Resources

TYPES = """version: 1
instances:
  - {name: lab.small, provider: libvirt, vcpus: 2, memory: 2G, microarchitecture: x86_64_v3,
     prices: [{region: here, hourly: 0, currency: EUR, date: "2026-01-01", source: not charged}]}
  - {name: lab.large, provider: libvirt, vcpus: 4, memory: 8G, disk: 40G, microarchitecture: x86_64_v3,
     prices: [{region: here, hourly: 0.2, currency: EUR, date: "2026-01-01", source: the lab}]}
  - {name: lab.arm, provider: libvirt, vcpus: 4, memory: 8G, architecture: arm64, microarchitecture: neoverse_n1,
     prices: [{region: here, hourly: 0.2, currency: EUR, date: "2026-01-01", source: the lab}]}
"""
OWN, OTHER = "modak-0123456789abcdef", "modak-fedcba9876543210"
HOST_KEY = "ssh-ed25519 " + "A" * 68
MAC = "52:54:00:85:5e:50"
LONG_AGO = "2026-01-01T00:00:00.000+00:00"
GIB = 1024**3


@pytest.fixture
def described(cloud_plan: Callable[..., Plan], tmp_path: Path) -> Callable[..., Resources]:
    (tmp_path / "instances-here.yaml").write_text(TYPES)

    def describe(**cloud: Any) -> Resources:
        asked = {
            "provider": "libvirt",
            "region": "here",
            "machine_image": "debian-12.qcow2",
            "access": [],
            "instance_types": ["lab.small"],
            **cloud,
        }
        plan = cloud_plan(asked, request={"catalogue": [str(tmp_path / "instances-here.yaml")]})
        return Libvirt().describe(plan, read_public_key(plan.target))

    return describe


def domain(name: str = OWN, *, active: bool = True, mark: str | None = OWN, created: str = LONG_AGO) -> dict[str, Any]:
    """Return what virt's get_xml returns of a domain."""
    element = (
        f"<metadata><modak:instance xmlns:modak='{NAMESPACE}' deployment='{mark}' type='lab.small' created='{created}' "
        f"host_key='{HOST_KEY}'/></metadata>"
    )
    number = " id='3'" if active else ""
    return {
        "get_xml": f"<domain type='kvm'{number}><name>{name}</name>{element if mark else ''}"
        f"<memory unit='KiB'>2097152</memory><devices><interface type='network'><mac address='{MAC}'/></interface>"
        "</devices></domain>"
    }


def volume(name: str = f"{OWN}.qcow2", written: int = 50 * 1024**2, **changes: Any) -> dict[str, Any]:
    """Return a volume as virt_volume lists it."""
    text = "<volume type='file'><target><format type='qcow2'/></target></volume>"
    return {"name": name, "path": f"/pool/{name}", "XMLDesc": text, "info": [0, 4 * GIB, written], **changes}


def lease(address: str = "192.168.77.45", **changes: Any) -> dict[str, Any]:
    return {"mac": MAC, "ipaddr": address, "expirytime": 100, **changes}


def raw(*domains: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return what the tasks libvirt_list found."""
    return {
        "domains": list(domains),
        "running": [OWN],
        "volumes": [],
        "network": {"state": "active", "dhcp_leases": [lease()]},
        "pool_name": "default",
        "pool": {"path": "/pool", "type": "dir", "size_available": str(50 * GIB)},
        "node": {"phymemory": "16000", "cpus": "8"},
        **changes,
    }


def listing(*domains: dict[str, Any], **changes: Any) -> Listing:
    return Libvirt().listing(raw(*domains, **changes), OWN)


def step_for(listed: Listing) -> tuple[str, list[str]]:
    decision = decide(listed, wanted="lab.small", permitted=[], pending=False)
    return decision.step, decision.surplus


def test_what_is_created(described: Callable[..., Resources]) -> None:
    resources = described(vpc="inside", pool="images", profile="qemu+ssh://lab/system", emulation=True)
    instance = resources.instance
    assert instance is not None
    assert (resources.group, resources.profile) == (None, "qemu+ssh://lab/system")
    assert (instance.name, instance.vpc, instance.pool, instance.emulation) == (
        resources.identity,
        "inside",
        "images",
        True,
    )
    assert (instance.vcpus, instance.memory, instance.disk) == (2, 2 * GIB, None)
    assert resources.summary() == [
        f"instance {resources.identity}: lab.small in here, 0 EUR an hour; it stops itself after 2400 s, at 0 EUR, and "
        "stays, which many clouds charge, until it is undeployed"
    ]


def test_the_network_and_the_pool_are_libvirts_own_defaults(described: Callable[..., Resources]) -> None:
    instance = described().instance
    assert instance is not None
    assert (instance.vpc, instance.pool) == ("default", "default")
    assert (described(pool="p", vpc="n").pool, described(pool="p", vpc="n").network) == ("p", "n")


def test_the_disk_is_that_of_the_document_before_that_of_the_type(described: Callable[..., Resources]) -> None:
    sizes = [
        described(instance_types=["lab.large"], **disk).instance.disk  # type: ignore[union-attr]
        for disk in ({}, {"disk": "20G"})
    ]
    assert sizes == [40 * GIB, 20 * GIB]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine_image": None}, r"target\.cloud\.machine_image.*a volume or a path"),
        ({"access": ["192.0.2.0/24"]}, r"target\.cloud\.access.*not used.*no security groups"),
        ({"ports": [{"port": 80}]}, r"target\.cloud\.ports.*not used.*no security groups"),
        ({"subnet": "s"}, r"target\.cloud\.subnet.*not used.*'vpc'"),
        ({"zones": ["a"]}, r"target\.cloud\.zones.*not used.*'profile'"),
        ({"address": "public"}, r"target\.cloud\.address.*no public address"),
        ({"profile": "xen:///system"}, r"target\.cloud\.profile.*neither a URI"),
        ({"profile": "qemu:///system --help"}, r"target\.cloud\.profile.*neither a URI"),
        ({"profile": "qemu+ssh://[2001:db8::1/system"}, r"target\.cloud\.profile.*neither a URI"),
        ({"profile": "qemu+ssh://lab/system?no_verify=1"}, r"target\.cloud\.profile.*'no_verify'.*known_hosts"),
        ({"profile": "qemu+ssh://lab/system?mode=auto;no_verify=1"}, r"target\.cloud\.profile.*'no_verify'"),
        ({"profile": "qemu+ssh://lab/system?netcat=/tmp/x"}, r"target\.cloud\.profile.*'netcat'"),
        ({"profile": "qemu+ext:///system?command=/tmp/x"}, r"target\.cloud\.profile.*'qemu\+ext' is not supported"),
        ({"profile": "qemu+tcp://lab/system"}, r"target\.cloud\.profile.*'qemu\+tcp' is not supported"),
        ({"profile": "qemu+libssh://l/system?known_hosts_verify=ignore"}, r"target\.cloud\.profile.*nobody checks"),
        ({"profile": "qemu+libssh://l/system?known_hosts_verify=IGNORE"}, r"target\.cloud\.profile.*nobody checks"),
        ({"profile": "qemu+libssh://l/system?known_hosts_verify=auto"}, r"target\.cloud\.profile.*nobody checks"),
        (
            {"profile": "qemu+libssh://l/system?known_hosts_verify=auto&known_hosts_verify=normal"},
            r"target\.cloud\.profile.*nobody checks",
        ),
        ({"profile": "qemu+libssh://l/system?known_hosts=/tmp/mine"}, r"target\.cloud\.profile.*'known_hosts'"),
        ({"profile": "qemu+tls://l/system?pkipath=/tmp/ca"}, r"target\.cloud\.profile.*'pkipath'.*/etc/pki"),
        ({"instance_types": ["lab.arm"]}, r"target\.cloud\.instance_types.*x86_64 alone"),
    ],
)
def test_what_the_description_lacks_or_has_too_much_is_said(
    described: Callable[..., Resources], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        described(**changes)


@pytest.mark.parametrize(
    "uri",
    [
        "lab",
        "qemu:///system",
        "qemu+ssh://me@lab:22/system?keyfile=/k&socket=/s",
        "qemu+tls://h/system",
        "qemu+libssh2://h/system?known_hosts_verify=normal",
    ],
)
def test_a_profile_is_a_uri_or_an_alias_of_libvirts_configuration(
    described: Callable[..., Resources], uri: str
) -> None:
    assert described(profile=uri).profile == uri


def described_target(**cloud: Any) -> Target:
    asked = {"provider": "libvirt", "region": "here", "deployment": "shared", **cloud}
    return Target.model_validate({"name": "lab", "type": "cloud", "private_key": "/k", "cloud": asked})


def test_what_a_deployment_has_is_listed_and_deleted_without_a_plan() -> None:
    resources = Libvirt().belonging(described_target(profile="qemu+ssh://lab/system", pool="images", vpc="inside"), OWN)
    assert (resources.instance, resources.profile) == (None, "qemu+ssh://lab/system")
    assert (resources.pool, resources.network, resources.tags) == ("images", "inside", {DEPLOYMENT_TAG: OWN})
    plain = Libvirt().belonging(described_target(), OWN)
    assert (plain.pool, plain.network) == ("default", "default")
    with pytest.raises(InputError, match=r"target\.cloud\.profile.*'command' of the URI"):
        Libvirt().belonging(described_target(profile="qemu+ssh://lab/system?command=/tmp/x"), OWN)


def test_a_domain_with_its_disk_in_another_pool_is_left_alone() -> None:
    marked = {"get_xml": domain(active=False)["get_xml"].replace(" type='lab", " pool='images' type='lab")}
    with pytest.raises(InputError, match=r"target\.cloud\.pool.*'images', not in 'default'.*its own pool first"):
        listing(marked, pool_name="default", running=[])
    assert step_for(listing(marked, pool_name="images", running=[])) == ("create", [OWN])
    # One that an earlier modak has defined says nothing of its pool.
    assert step_for(listing(domain(active=False), pool_name="images", running=[])) == ("create", [OWN])


def test_the_documents_are_for_one_host_key_and_one_machine_image(described: Callable[..., Resources]) -> None:
    resources = described(vpc="in & out", disk="20G")
    documents = Libvirt().definitions(resources, raw(volumes=[volume("debian-12.qcow2")]), HOST_KEY)
    assert (documents["disk_name"], documents["seed_name"]) == (
        f"{resources.identity}.qcow2",
        f"{resources.identity}-seed.iso",
    )
    made = ElementTree.fromstring(documents["domain"])  # noqa: S314 - made here
    mark = made.find(f"metadata/{{{NAMESPACE}}}instance")
    assert mark is not None
    assert (mark.get("deployment"), mark.get("type"), mark.get("host_key"), mark.get("pool")) == (
        resources.identity,
        "lab.small",
        HOST_KEY,
        "default",
    )
    assert [source.get("file") for source in made.findall("devices/disk/source")] == [
        f"/pool/{documents['disk_name']}",
        f"/pool/{documents['seed_name']}",
    ]
    assert [source.get("network") for source in made.findall("devices/interface/source")] == ["in & out"]
    disk = ElementTree.fromstring(documents["disk"])  # noqa: S314 - made here
    assert [disk.findtext(path) for path in ("capacity", "backingStore/path")] == [
        str(20 * GIB),
        "/pool/debian-12.qcow2",
    ]
    with pytest.raises(InputError, match="less than"):
        Libvirt().definitions(described(disk="1G"), raw(volumes=[volume("debian-12.qcow2")]), HOST_KEY)


def test_what_was_defined_is_listed_as_the_deployments(described: Callable[..., Resources]) -> None:
    resources = described()
    documents = Libvirt().definitions(resources, raw(volumes=[volume("debian-12.qcow2")]), HOST_KEY)
    own = raw({"get_xml": documents["domain"]})
    (found,) = Libvirt().listing(own, resources.identity).instances
    assert (found.id, found.type, found.state, found.host_key) == (
        resources.identity,
        "lab.small",
        "starting",
        HOST_KEY,
    )


def test_only_what_carries_the_deployments_mark_is_its_own() -> None:
    listed = listing(
        domain(), domain(OTHER, mark=OTHER), domain("somebody", mark=None), {"msg": "Domain not found", "failed": True}
    )
    (found,) = listed.instances
    assert (found.id, found.type, found.state, found.address, found.host_key) == (
        OWN,
        "lab.small",
        "running",
        "192.168.77.45",
        HOST_KEY,
    )
    assert found.tags == {DEPLOYMENT_TAG: OWN}


def test_one_that_was_renamed_is_the_deployments_all_the_same() -> None:
    assert [found.id for found in listing(domain("training-box")).instances] == ["training-box"]


def test_what_has_the_name_and_lacks_the_mark_is_not_taken_over() -> None:
    """Nor are the volumes deleted that it may use."""
    listed = listing(domain(mark=None), volumes=[volume()])
    decision = decide(listed, wanted="lab.small", permitted=[], pending=False)
    assert decision.step == "refuse"
    assert decision.reason is not None
    assert decision.reason.startswith(f"domain {OWN}: the name is the deployment's")
    assert to_release(listed) == ([], [], [])


def test_volumes_without_a_domain_are_deleted() -> None:
    listed = listing(volumes=[volume("debian-12.qcow2"), volume(), volume(f"{OWN}-seed.iso"), volume(f"{OTHER}.qcow2")])
    assert to_release(listed) == ([], [f"{OWN}.qcow2", f"{OWN}-seed.iso"], [])
    assert step_for(listed) == ("create", [])


def test_a_domain_that_never_ran_is_deleted_and_made_anew() -> None:
    for volumes in ([], [volume(written=200_000)]):
        assert step_for(listing(domain(active=False), volumes=volumes, running=[])) == ("create", [OWN])


def test_another_controller_gets_the_time_to_start_it() -> None:
    now = datetime.now(UTC)
    for seconds in (5, -5):  # the clock of the other one may be ahead
        young = (now - timedelta(seconds=seconds)).isoformat()
        assert step_for(listing(domain(active=False, created=young), running=[])) == ("wait", [])
    for created in ((now + timedelta(days=1)).isoformat(), "yesterday", "2026-01-01T00:00:00"):
        assert step_for(listing(domain(active=False, created=created), running=[])) == ("create", [OWN])


@pytest.mark.parametrize(
    "changes", [{"running": []}, {"domains": [domain(active=False)], "running": [], "volumes": [volume()]}]
)
def test_one_that_is_paused_or_whose_lease_is_over_is_stopped(changes: dict[str, Any]) -> None:
    """It has run, and may have results."""
    assert step_for(listing(domain(), **changes)) == ("refuse", [])


def test_a_volume_whose_size_is_not_known_may_hold_results() -> None:
    listed = listing(domain(active=False), running=[], volumes=[volume(info=None)])
    assert listed.instances[0].state == "stopped"


@pytest.mark.parametrize(
    ("leases", "address"),
    [
        ([], None),
        (None, None),
        ([lease(mac="52:54:00:00:00:01")], None),
        ([lease("192.168.77.9"), lease("192.168.77.11", expirytime=300)], "192.168.77.11"),
        ([lease("2001:db8::9", expirytime=300), lease("192.168.77.9")], "192.168.77.9"),
        ([lease("2001:db8::9", mac=MAC.upper())], "2001:db8::9"),
    ],
)
def test_the_address_is_that_of_the_latest_lease(leases: Any, address: str | None) -> None:
    (found,) = listing(domain(), network={"dhcp_leases": leases}).instances
    assert found.address == address
    assert step_for(listing(domain(), network={"dhcp_leases": leases}))[0] == ("use" if address else "wait")


def test_without_the_network_it_can_be_deleted_all_the_same() -> None:
    assert to_release(listing(domain(), network={})) == ([OWN], [], [])


@pytest.mark.parametrize(
    "change",
    [
        {"domains": [{"get_xml": domain()["get_xml"].replace("lab.small", "a b")}]},
        {"domains": [domain("a b")]},
        {"domains": [{"get_xml": "<domain"}]},
        {"domains": [{"get_xml": "<!DOCTYPE x [<!ENTITY a 'b'>]><domain>&a;</domain>"}]},
        {"network": {"dhcp_leases": [lease("-oProxyCommand=x")]}},
        {"network": {"dhcp_leases": [lease(["x"])]}},  # type: ignore[arg-type]
    ],
)
def test_an_odd_answer_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TargetError, match="libvirt"):
        listing(domain(), **change)


@pytest.mark.parametrize("key", ["domains", "volumes"])
@pytest.mark.parametrize("value", [None, "x", ["x"]])
def test_a_missing_list_is_no_empty_one(key: str, value: Any) -> None:
    with pytest.raises(TargetError, match="has no list of"):
        listing(domain(active=False), **{key: value})


@pytest.mark.parametrize(
    "message",
    [
        "internal error: process exited while connecting to monitor: cannot set up guest memory 'pc.ram'",
        "libvirtError: unsupported configuration: Maximum CPUs greater than specified machine type limit 255",
        "libvirtError('cannot extend file /pool/x: No space left on device')",
        "the host has no room for it: lab.vast has 4294967296000 bytes of memory",
        "the storage pool has no room for it: the disk",
    ],
)
def test_a_lack_of_capacity_is_told_from_other_errors(message: str) -> None:
    assert registry.get("libvirt").has_no_capacity(message)


@pytest.mark.parametrize(
    "message",
    [
        "libvirtError: invalid argument: could not get preferred machine for /usr/bin/qemu-system-x86_64 type=kvm",
        "operation failed: domain 'x' already exists with uuid 1",
        "Network not found: no network with matching name 'inside'",
    ],
)
def test_what_no_other_type_helps_is_no_lack_of_capacity(message: str) -> None:
    assert not registry.get("libvirt").has_no_capacity(message)
