"""XML of libvirt: domains and volumes that are created, and what a listed domain is.

Documents are built and read by a parser, never by joining text. Elements are those of libvirt's "Domain XML format" and
"Storage pool and volume XML format".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as Tree

from modak_deploy.errors import TargetError
from modak_deploy.terminal import excerpt

NAMESPACE = "urn:modak:instance:1"
"""Namespace of the element below ``metadata`` that marks a domain; libvirt keeps one element of each namespace."""
_MARK = f"{{{NAMESPACE}}}instance"
_UNITS: Mapping[str, int] = {"b": 1, "bytes": 1, "KB": 1000, "KiB": 1024, "k": 1024, "MB": 10**6, "MiB": 1024**2}
_MOST = 1_000_000

Tree.register_namespace("modak", NAMESPACE)


@dataclass(frozen=True)
class Mark:
    """What the metadata of a domain say of the deployment; all of it is given by the call that defines the domain."""

    deployment: str
    plan: str
    type: str
    created: str
    host_key: str
    pool: str
    """Storage pool with its disk."""


@dataclass(frozen=True)
class Domain:
    """A domain as its definition shows it."""

    name: str
    active: bool
    memory: int
    """Bytes."""
    mark: Mapping[str, str] = field(default_factory=dict)
    """Attributes of its mark; empty where it has none."""
    macs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A domain to define."""

    name: str
    kind: str
    """``kvm`` or ``qemu``."""
    vcpus: int
    memory: int
    disk: str
    seed: str
    """Paths of the volumes, as the host of libvirt has them."""
    network: str
    mark: Mark


@dataclass(frozen=True)
class Overlay:
    """A volume that holds what the instance writes over the machine image."""

    name: str
    path: str
    """Path of the machine image."""
    format: str
    """``qcow2`` or ``raw``: libvirt never guesses it, since a guest could write a header of its own."""
    capacity: int | None = None


def read_domain(text: str) -> Domain:
    """Return what a listed domain is; TargetError for what is no definition of one.

    Every user of the host may have written it, so that a document type, with which a small text can become large, is
    refused: libvirt writes none.
    """
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text) or len(text) > _MOST:
        raise TargetError(f"libvirt's definition of a domain is not as libvirt writes it: {excerpt(text)}")
    try:
        root = Tree.fromstring(text)  # noqa: S314 - no entities without the document type that is refused above
    except Tree.ParseError as error:
        raise TargetError(f"libvirt's definition of a domain is no XML: {error}") from None
    mark = root.find(f"metadata/{_MARK}")
    macs = (element.get("address", "") for element in root.findall("devices/interface/mac"))
    return Domain(
        name=root.findtext("name") or "",
        # Only a domain that is active has a number.
        active=root.get("id") is not None,
        memory=_bytes(root.find("memory")),
        mark=dict(mark.attrib) if mark is not None else {},
        macs=tuple(address.lower() for address in macs),
    )


def volume_format(text: object) -> str | None:
    """Return the format that libvirt found for a volume, such as ``qcow2``; None where it says none."""
    match = re.search(r"<format type='([a-z0-9-]{1,20})'/>", text[:10_000]) if isinstance(text, str) else None
    return match.group(1) if match else None


def _bytes(element: Tree.Element | None) -> int:
    if element is None or not (element.text or "").isascii() or not (element.text or "").isdigit():
        return 0
    return int((element.text or "")[:18]) * _UNITS.get(element.get("unit", "KiB"), 1024)


def overlay_xml(overlay: Overlay) -> str:
    """Return the definition of an overlay."""
    volume = Tree.Element("volume", type="file")
    _add(volume, "name", overlay.name)
    if overlay.capacity is not None:
        _add(volume, "capacity", str(overlay.capacity), unit="bytes")
    _add(_add(volume, "target"), "format", type="qcow2")
    backing = _add(volume, "backingStore")
    _add(backing, "path", overlay.path)
    _add(backing, "format", type=overlay.format)
    return Tree.tostring(volume, encoding="unicode")


def domain_xml(machine: Machine) -> str:
    """Return the definition of a domain: a q35 machine that boots from its disk by BIOS, virtio devices, no display."""
    domain = Tree.Element("domain", type=machine.kind)
    _add(domain, "name", machine.name)
    metadata = _add(domain, "metadata")
    metadata.append(Tree.Element(_MARK, _attributes(machine.mark)))
    _add(domain, "memory", str(machine.memory), unit="bytes")
    _add(domain, "vcpu", str(machine.vcpus))
    _add(_add(domain, "os"), "type", "hvm", arch="x86_64", machine="q35")
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(features, "apic")
    # All that the host's processor can do, as the catalogue says of the type; what QEMU emulates where there is no KVM.
    _add(domain, "cpu", mode="host-passthrough" if machine.kind == "kvm" else "maximum")
    _add(domain, "on_poweroff", "destroy")
    _add(domain, "on_reboot", "restart")
    _add(domain, "on_crash", "destroy")
    devices = _add(domain, "devices")
    _add_disk(devices, machine.disk, "qcow2", "vda").append(Tree.Element("boot", order="1"))
    # A virtio disk, since Debian's kernel for clouds has no driver for CD-ROMs; cloud-init goes by the label.
    _add(_add_disk(devices, machine.seed, "raw", "vdb"), "readonly")
    interface = _add(devices, "interface", type="network")
    _add(interface, "source", network=machine.network)
    _add(interface, "model", type="virtio")
    _add(interface, "rom", enabled="no")
    _add(devices, "console", type="pty")
    _add(_add(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
    return Tree.tostring(domain, encoding="unicode")


def _add_disk(devices: Tree.Element, path: str, kind: str, name: str) -> Tree.Element:
    disk = _add(devices, "disk", type="file", device="disk")
    _add(disk, "driver", name="qemu", type=kind)
    _add(disk, "source", file=path)
    _add(disk, "target", dev=name, bus="virtio")
    return disk


def _attributes(mark: Mark) -> dict[str, str]:
    attributes: dict[str, Any] = vars(mark)
    return {name: str(value) for name, value in attributes.items()}


def _add(parent: Tree.Element, tag: str, text: str | None = None, /, **attributes: str) -> Tree.Element:
    element = Tree.SubElement(parent, tag, attributes)
    element.text = text
    return element
