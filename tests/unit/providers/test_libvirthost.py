"""What a host with libvirt has for an instance."""

from typing import Any

import pytest

from modak_deploy.errors import InputError, TargetError
from modak_deploy.providers.domains import Domain
from modak_deploy.providers.libvirthost import check_host, check_network, check_space, find_image, pool_folder
from modak_deploy.providers.resources import Instance

GIB = 1024**3
NODE = {"phymemory": str(16 * 1024), "cpus": "8"}


def instance(**changes: Any) -> Instance:
    asked = {"name": "x", "type": "lab.small", "machine_image": "debian.qcow2", "vcpus": 2, "memory": 2 * GIB}
    return Instance.model_validate({**asked, "pool": "images", "vpc": "inside", **changes})


def domain(memory: int, *, active: bool = True) -> Domain:
    return Domain(name="x", active=active, memory=memory)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"network": {}, "network_fault": "network inside not found"}, "cannot be used: network inside not found"),
        ({}, "cannot be used: not found"),
        ({"network": {"state": "inactive"}}, "virsh net-start"),
    ],
)
def test_a_network_that_gives_no_address_is_an_error(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_network(raw, instance())


def test_an_active_network_is_none() -> None:
    check_network({"network": {"state": "active"}}, instance())


def test_memory_is_what_the_domains_that_run_leave() -> None:
    running = [domain(10 * GIB), domain(100 * GIB, active=False)]
    check_host({"node": NODE}, instance(memory=6 * GIB), running)
    with pytest.raises(TargetError, match=r"the host has no room for it: .*run leave 6442450944"):
        check_host({"node": NODE}, instance(memory=6 * GIB + 1), running)


def test_a_host_has_its_processors() -> None:
    check_host({"node": NODE}, instance(vcpus=8), [])
    with pytest.raises(TargetError, match=r"the host has no room for it: .*the host 8"):
        check_host({"node": NODE}, instance(vcpus=9), [])


@pytest.mark.parametrize("node", [None, {}, {"phymemory": "-1", "cpus": "8"}, {"phymemory": "9" * 30, "cpus": "8"}])
def test_a_host_that_says_no_size_is_an_error(node: Any) -> None:
    with pytest.raises(TargetError, match="has no 'phymemory'"):
        check_host({"node": node}, instance(), [])


def volume(name: str, kind: str = "qcow2") -> dict[str, Any]:
    text = f"<volume><target><format type='{kind}'/></target></volume>"
    return {"name": name, "path": f"/pool/{name}", "XMLDesc": text, "info": [0, GIB, 5]}


def test_the_machine_image_is_a_volume_or_a_path() -> None:
    raw = {"volumes": [volume("other"), volume("debian.qcow2"), volume("fedora.img", "raw")]}
    found = find_image(raw, instance())
    assert (found.path, found.format, found.size) == ("/pool/debian.qcow2", "qcow2", GIB)
    found = find_image(raw, instance(machine_image="/pool/fedora.img"))
    assert (found.path, found.format, found.size) == ("/pool/fedora.img", "raw", GIB)
    found = find_image(raw, instance(machine_image="/elsewhere/x.raw"))
    assert (found.path, found.format, found.size) == ("/elsewhere/x.raw", "raw", 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.qcow2", "virsh pool-refresh"), ("/elsewhere/x.img", "format is not guessed"), ("cd.iso", "but iso")],
)
def test_a_machine_image_that_cannot_be_used_is_an_error(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_image({"volumes": [volume("cd.iso", "iso")]}, instance(machine_image=name))


def test_the_volumes_of_the_pool_are_files() -> None:
    assert pool_folder({"pool": {"path": "/pool/", "type": "dir"}}, instance()) == "/pool"
    for pool, message in (({}, "not found"), ({"path": "/dev/vg", "type": "logical"}, "of type 'logical'.*dir, fs")):
        with pytest.raises(InputError, match=message):
            pool_folder({"pool": pool}, instance())


def test_the_pool_could_hold_the_whole_disk() -> None:
    raw = {"pool": {"size_available": "100"}}
    check_space(raw, instance(), 100)
    with pytest.raises(TargetError, match="the storage pool has no room for it"):
        check_space(raw, instance(), 101)
