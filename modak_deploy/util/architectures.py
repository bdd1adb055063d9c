"""Names of processor architectures: registries of images, the kernel and job models each have their own."""

from collections.abc import Mapping

MACHINES: Mapping[str, str] = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le"}
"""What ``uname -m`` and archspec call the architectures of image registries (GOARCH)."""
FAMILIES: Mapping[str, str] = {
    "x86": MACHINES["amd64"],
    "amd": MACHINES["amd64"],
    "arm": MACHINES["arm64"],
    "power": MACHINES["ppc64le"],
}
"""The same by the processor types of the JSON job model."""


def architecture(machine: str | None) -> str:
    """Return the registries' name of what the kernel calls ``machine``; that of x86-64 where it is not known."""
    return next((name for name, own in MACHINES.items() if machine in (name, own)), "amd64")


def machine(name: str) -> str:
    """Return the kernel's name of an architecture; FreeBSD's ``uname -m`` prints the registries'."""
    return MACHINES.get(name, name)
