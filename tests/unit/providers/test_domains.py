"""libvirt's XML: what is created, and what a listed domain is."""

from xml.etree import ElementTree

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.providers.domains import (
    Machine,
    Mark,
    Overlay,
    domain_xml,
    overlay_xml,
    read_domain,
    volume_format,
)

ODD = """<b>&amp;"' ]]>"""
MARK = Mark(
    deployment="modak-0123456789abcdef", plan="p", type="lab.small", created="now", host_key="ssh-ed25519 AA", pool="p"
)


def machine(kind: str = "kvm") -> Machine:
    return Machine(name=ODD, kind=kind, vcpus=2, memory=2**31, disk=ODD, seed="/s", network=ODD, mark=MARK)


def test_what_was_written_is_read_back_whatever_the_values() -> None:
    found = read_domain(domain_xml(machine()))
    assert (found.name, found.active, found.memory, found.macs) == (ODD, False, 2**31, ())
    assert found.mark == vars(MARK)


def test_values_are_no_markup() -> None:
    made = ElementTree.fromstring(domain_xml(machine()))  # noqa: S314 - made here
    assert made.findtext("name") == ODD
    source = made.find("devices/interface/source")
    assert source is not None
    assert source.get("network") == ODD
    overlay = ElementTree.fromstring(overlay_xml(Overlay(name=ODD, path=ODD, format="raw")))  # noqa: S314 - made here
    assert [overlay.findtext(path) for path in ("name", "backingStore/path", "capacity")] == [ODD, ODD, None]
    kind = overlay.find("backingStore/format")
    assert kind is not None
    assert kind.get("type") == "raw"


@pytest.mark.parametrize(("kind", "mode"), [("kvm", "host-passthrough"), ("qemu", "maximum")])
def test_the_processor_is_the_hosts_or_an_emulated_one(kind: str, mode: str) -> None:
    made = ElementTree.fromstring(domain_xml(machine(kind)))  # noqa: S314 - made here
    processor = made.find("cpu")
    assert processor is not None
    assert (made.get("type"), processor.get("mode")) == (kind, mode)


@pytest.mark.parametrize(
    ("element", "memory"),
    [
        ("<memory>4</memory>", 4096),
        ("<memory unit='bytes'>4</memory>", 4),
        ("<memory unit='MiB'>4</memory>", 4 * 1024**2),
        ("<memory>a</memory>", 0),
        ("", 0),
    ],
)
def test_memory_has_units(element: str, memory: int) -> None:
    assert read_domain(f"<domain id='1'>{element}</domain>").memory == memory


@pytest.mark.parametrize("text", ["<domain>", "", "<!DOCTYPE d><domain/>", "<domain>" + "x" * 2_000_000 + "</domain>"])
def test_what_libvirt_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="definition of a domain"):
        read_domain(text)


def test_a_comment_in_somebodys_metadata_hinders_nobody() -> None:
    assert read_domain("<domain><name>a</name><metadata><!-- mine --></metadata></domain>").name == "a"


def test_the_format_of_a_volume() -> None:
    assert volume_format("<volume><target><format type='qcow2'/></target></volume>") == "qcow2"
    assert volume_format("<volume/>") is None
    assert volume_format(None) is None
