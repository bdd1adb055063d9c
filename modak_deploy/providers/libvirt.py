"""Hosts with libvirt and QEMU, by the collection community.libvirt.

A domain is marked by its metadata, which the call that defines it gives. Volumes have no metadata in libvirt: their
name is the deployment's tag, and nothing else recognises them.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from modak_deploy.errors import InputError
from modak_deploy.model.cloud import Cloud
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Target
from modak_deploy.providers.base import Provider, cloud_of, identity_of
from modak_deploy.providers.domains import (
    Domain,
    Machine,
    Mark,
    Overlay,
    domain_xml,
    overlay_xml,
    read_domain,
)
from modak_deploy.providers.libvirthost import check_host, check_network, check_space, find_image, pool_folder
from modak_deploy.providers.lists import rows, valid_address, validated, wanted
from modak_deploy.providers.resources import (
    DEPLOYMENT_TAG,
    PLAN_TAG,
    Identity,
    Instance,
    Listed,
    ListedGroup,
    Listing,
    Resources,
    State,
)
from modak_deploy.terminal import excerpt

_STARTING = 60.0
"""Seconds from its definition in which a domain that has not run may still be started by who defined it."""
_WRITTEN = 1024 * 1024
"""Bytes of an overlay that show that its domain has run: a new one has some 200 kB, and a guest soon writes more."""
_MOST = 10_000
_ALIAS = re.compile(r"[A-Za-z0-9_.-]+")
_TRANSPORTS = frozenset({"qemu", "qemu+unix", "qemu+ssh", "qemu+libssh", "qemu+libssh2", "qemu+tls"})
_PARAMETERS = frozenset({"socket", "mode", "proxy", "keyfile", "known_hosts_verify", "sshauth"})
"""Parameters of a URI. Of the others 'command' and 'netcat' name programs, 'no_verify' lets any host answer, a file of
'known_hosts' whoever wrote it, and 'pkipath' names the certificate authority that says which host is the right one."""
_UNUSED: Mapping[str, str] = {
    "subnet": "name the network of libvirt as 'vpc'",
    "root_device": "the root disk is the domain's first",
    "zones": "name one host as 'profile'",
    "access": "libvirt has no security groups: who reaches the network of the instance is decided where it is defined; "
    "leave it out",
    "ports": "libvirt has no security groups: all ports are open to whoever reaches the network of the instance; leave "
    "it out",
}


class Libvirt(Provider):
    """A host with libvirt's QEMU driver."""

    name: ClassVar[str] = "libvirt"
    collection: ClassVar[str | None] = "community.libvirt"
    # pycdlib makes the disk with the user data; the collection's own modules import all three.
    python: ClassVar[str | None] = "libvirt-python lxml pycdlib"
    # The first two are definitions()'s own. Then QEMU's where the host's memory does not suffice (softmmu/physmem.c,
    # util/oslib-posix.c of 7.2) and where the machine has fewer processors (libvirt's qemu_validate.c of 9.0), and the
    # C library's where a disk is full (ENOSPC) or over a quota (EDQUOT).
    capacity: ClassVar[Sequence[str]] = (
        "the host has no room for it",
        "the storage pool has no room for it",
        "Cannot allocate memory",
        "cannot set up guest memory",
        "Maximum CPUs greater than",
        "No space left on device",
        "Disk quota exceeded",
    )

    def describe(self, plan: Plan, public_key: str) -> Resources:
        """See Provider."""
        identity = identity_of(plan, public_key)
        cloud, instance = wanted(plan)
        chosen = instance.chosen
        _check(cloud)
        if "x86_64" not in _family(plan):
            raise InputError("the provider 'libvirt' has domains of x86_64 alone", key="target.cloud.instance_types")
        return Resources(
            provider=self.name,
            identity=identity,
            region=cloud.region,
            profile=cloud.profile,
            tags={DEPLOYMENT_TAG: identity, PLAN_TAG: plan.tag()},
            pool=cloud.pool or "default",
            network=cloud.vpc or "default",
            instance=Instance(
                # The collection knows a domain by its name alone.
                name=identity,
                type=chosen.name,
                machine_image=cloud.machine_image or "",
                vpc=cloud.vpc or "default",
                public_address=False,
                disk=cloud.disk or chosen.disk,
                vcpus=chosen.vcpus,
                memory=chosen.memory,
                pool=cloud.pool or "default",
                emulation=cloud.emulation,
            ),
            lease=instance.lease,
            hourly=chosen.hourly,
            currency=instance.currency,
            maximum_cost=instance.maximum_cost,
            stays=True,
        )

    def belonging(self, target: Target, identity: Identity) -> Resources:
        """See Provider; InputError for a URI that is not supported."""
        cloud = cloud_of(target)
        _check_profile(cloud)
        return (
            super()
            .belonging(target, identity)
            .model_copy(update={"pool": cloud.pool or "default", "network": cloud.vpc or "default"})
        )

    def listing(self, raw: Mapping[str, Any], identity: Identity) -> Listing:
        """See Provider."""
        domains = _domains(raw)
        volumes = rows(raw, "volumes", "libvirt", _MOST)
        own = [domain for domain in domains if domain.mark.get("deployment") == identity]
        _check_pool(own, raw)
        unmarked = [f"domain {domain.name}" for domain in domains if domain not in own and domain.name == identity]
        names = [row.get("name") for row in volumes]
        with validated("libvirt"):
            return Listing(
                instances=[_instance(domain, raw) for domain in own],
                # What is deleted after the instances. An unmarked domain of the name may use them.
                groups=[
                    ListedGroup.model_validate({"id": name, "tags": {DEPLOYMENT_TAG: identity}})
                    for name in volume_names(identity)
                    if name in names and not unmarked
                ],
                unmarked=unmarked,
            )

    def definitions(self, resources: Resources, raw: Mapping[str, Any], host_key: str) -> Mapping[str, str]:
        """See Provider: ``disk`` and ``domain`` are XML, ``disk_name`` and ``seed_name`` names of volumes."""
        instance = resources.instance
        if instance is None or instance.vcpus is None or instance.memory is None:
            raise InputError("the Plan has no size of the instance", hint="plan it again")
        check_network(raw, instance)
        check_host(raw, instance, _domains(raw))
        image, folder = find_image(raw, instance), pool_folder(raw, instance)
        disk_name, seed_name = volume_names(resources.identity)
        capacity = instance.disk
        if capacity is not None and capacity < image.size:
            raise InputError(
                f"{capacity} bytes are less than the {image.size} of the machine image", key="target.cloud.disk"
            )
        check_space(raw, instance, max(capacity or 0, image.size))
        mark = Mark(
            deployment=resources.identity,
            plan=resources.tags.get(PLAN_TAG, ""),
            type=instance.type,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            host_key=host_key,
            pool=resources.pool or "",
        )
        machine = Machine(
            name=instance.name,
            kind="qemu" if instance.emulation else "kvm",
            vcpus=instance.vcpus,
            memory=instance.memory,
            disk=f"{folder}/{disk_name}",
            seed=f"{folder}/{seed_name}",
            network=instance.vpc or "",
            mark=mark,
        )
        overlay = Overlay(name=disk_name, path=image.path, format=image.format, capacity=capacity)
        return {
            "disk": overlay_xml(overlay),
            "disk_name": disk_name,
            "seed_name": seed_name,
            "domain": domain_xml(machine),
        }


def volume_names(identity: Identity) -> tuple[str, str]:
    """Return the names of a deployment's volumes: its disk, and the disk with its user data."""
    return f"{identity}.qcow2", f"{identity}-seed.iso"


def _check(cloud: Cloud) -> None:
    """Raise InputError for what a domain needs and the description lacks, and for what has no meaning here."""
    if cloud.machine_image is None:
        raise InputError(
            "a domain of libvirt needs a machine image, a volume or a path", key="target.cloud.machine_image"
        )
    if cloud.address == "public":
        raise InputError(
            "libvirt gives an instance no public address",
            key="target.cloud.address",
            hint="leave it out: the address of its network is taken",
        )
    for key, hint in _UNUSED.items():
        if getattr(cloud, key):
            raise InputError("not used by the provider 'libvirt'", key=f"target.cloud.{key}", hint=hint)
    _check_profile(cloud)


def _check_profile(cloud: Cloud) -> None:
    if cloud.profile is not None:
        _check_uri(cloud.profile)


def _check_pool(domains: Sequence[Domain], raw: Mapping[str, Any]) -> None:
    """Raise InputError where a domain has its disk in another pool, whose volumes were not listed.

    Its disk would look as if it had never run, and stay behind when it is deleted.
    """
    listed = raw.get("pool_name")
    for domain in domains:
        pool = domain.mark.get("pool") or listed
        if pool != listed:
            raise InputError(
                f"the domain {excerpt(domain.name)} has its disk in the storage pool '{excerpt(str(pool))}', not in "
                f"'{excerpt(str(listed))}'",
                key="target.cloud.pool",
                hint="undeploy it with its own pool first",
            )


def _check_uri(uri: str) -> None:
    """Raise InputError for what is no URI of libvirt's QEMU driver, or runs a program, or checks no host."""
    if _ALIAS.fullmatch(uri):
        return
    key = "target.cloud.profile"
    try:
        parts = urlsplit(uri)
    except ValueError:  # a bracket of an IPv6 address without the other
        parts = urlsplit("")
    if "://" not in uri or not parts.scheme.startswith("qemu") or re.search(r"\s", uri):
        raise InputError(
            f"'{excerpt(uri)}' is neither a URI of libvirt's QEMU driver, such as qemu:///system, nor an alias of one",
            key=key,
        )
    if parts.scheme not in _TRANSPORTS:
        raise InputError(f"'{excerpt(parts.scheme)}' is not supported", key=key, hint=", ".join(sorted(_TRANSPORTS)))
    parameters = parse_qsl(parts.query.replace(";", "&"), keep_blank_values=True)
    if strange := sorted({name for name, _ in parameters} - _PARAMETERS):
        raise InputError(
            f"the parameter '{excerpt(strange[0])}' of the URI is not supported",
            key=key,
            hint=f"supported are {', '.join(sorted(_PARAMETERS))}; hosts are checked against ~/.ssh/known_hosts, "
            "or for qemu+tls against the certificate authority in ~/.pki/libvirt or /etc/pki/CA",
        )
    # libvirt (rpc/virnetsshsession.c) compares the value whatever its case; with 'auto' a new host is trusted.
    if loose := [value for name, value in parameters if name == "known_hosts_verify" and value.lower() != "normal"]:
        text = f"with 'known_hosts_verify={excerpt(loose[0])}' nobody checks which host answers"
        raise InputError(text, key=key, hint="leave it out")


def _family(plan: Plan) -> str:
    from archspec.cpu import TARGETS

    node = plan.facts.node
    target = TARGETS.get(node.microarchitecture or "") if node is not None else None
    return target.family.name if target is not None else "unknown"


def _domains(raw: Mapping[str, Any]) -> list[Domain]:
    """Return all domains of the host; one that ended while they were listed has no definition."""
    texts = [row.get("get_xml") for row in rows(raw, "domains", "libvirt", _MOST)]
    return [read_domain(text) for text in texts if isinstance(text, str)]


def _instance(domain: Domain, raw: Mapping[str, Any]) -> Listed:
    return Listed.model_validate(
        {
            "id": domain.name,
            "type": domain.mark.get("type"),
            "state": _state(domain, raw),
            "launched": domain.mark.get("created"),
            "address": _address(domain, raw),
            "host_key": domain.mark.get("host_key"),
            "tags": {DEPLOYMENT_TAG: domain.mark.get("deployment", "")},
        }
    )


def _state(domain: Domain, raw: Mapping[str, Any]) -> State:
    if domain.active:
        running = raw.get("running")
        return "running" if isinstance(running, list) and domain.name in running else "stopped"
    if _written(domain, raw) > _WRITTEN:
        return "stopped"  # it has run, and may have results: nobody but its user deletes it
    # The clocks of two controllers may differ.
    return "starting" if abs(_age(domain)) < _STARTING else "failed"


def _written(domain: Domain, raw: Mapping[str, Any]) -> float:
    """Return the bytes of the domain's disk on the host."""
    name, _ = volume_names(domain.mark.get("deployment", ""))
    for row in rows(raw, "volumes", "libvirt", _MOST):
        if row.get("name") == name:
            info = row.get("info")  # virStorageVolInfo: type, capacity, allocation
            if isinstance(info, list) and len(info) > 2 and isinstance(info[2], int):
                return info[2]
            return math.inf
    return 0


def _age(domain: Domain) -> float:
    """Return the seconds since the domain was defined; infinity where that cannot be told."""
    try:
        begun = datetime.fromisoformat(domain.mark.get("created", ""))
    except ValueError:
        return math.inf
    return (datetime.now(UTC) - begun).total_seconds() if begun.tzinfo else math.inf


def _address(domain: Domain, raw: Mapping[str, Any]) -> str | None:
    """Return the address that the network leased to the domain last; IPv4 before IPv6."""
    network = raw.get("network")
    leases = network.get("dhcp_leases") if isinstance(network, dict) else None
    own: list[tuple[bool, int, str]] = []
    for lease in leases if isinstance(leases, list) else []:
        if isinstance(lease, dict) and str(lease.get("mac")).lower() in domain.macs:
            address, expiry = valid_address(lease.get("ipaddr"), "libvirt"), lease.get("expirytime")
            own.append((":" in address, -expiry if isinstance(expiry, int) else 0, address))
    return min(own)[2] if own else None
