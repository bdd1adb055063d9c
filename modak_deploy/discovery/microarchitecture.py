"""archspec's name of a processor, from the text of /proc/cpuinfo of any machine."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from modak_deploy.util.architectures import machine as kernel_name

if TYPE_CHECKING:
    from archspec.cpu import Microarchitecture

_RISC_V = {"sifive,u74-mc": "u74mc", "spacemit,x60": "x60", "Spacemit(R) X60": "x60"}
"""Linux's names of the RISC-V processors that archspec knows."""


def microarchitecture(machine: str, cpuinfo: Mapping[str, str]) -> str | None:
    """Return the best of archspec's targets that the processor satisfies; None for a family it does not know.

    ``machine`` is what ``uname -m`` prints, ``cpuinfo`` the first processor's entry in /proc/cpuinfo. The rules are
    those by which archspec recognises the machine that it runs on, which it has for no other machine.
    """
    return _microarchitecture(machine, tuple(sorted(cpuinfo.items())))


@lru_cache(maxsize=16)
def _microarchitecture(machine: str, entry: tuple[tuple[str, str], ...]) -> str | None:
    from archspec.cpu import TARGETS

    cpuinfo = dict(entry)
    root = TARGETS.get(kernel_name(machine))
    if root is None:
        return None
    processor = _described(cpuinfo)
    fitting = [
        target
        for target in TARGETS.values()
        if (target == root or root in target.ancestors) and _fits(target, root.name, processor)
    ]
    return str(_best(fitting or [root], processor.cpu_part).name)


def features_of(cpuinfo: Mapping[str, str]) -> set[str]:
    """Return the processor's features: ``flags`` of x86, ``Features`` of ARM."""
    return set((cpuinfo.get("flags") or cpuinfo.get("Features") or "").split())


def _described(cpuinfo: Mapping[str, str]) -> "Microarchitecture":
    from archspec.cpu.detect import partial_uarch
    from archspec.cpu.schema import TARGETS_JSON

    vendor = cpuinfo.get("vendor_id", "generic")
    if (code := cpuinfo.get("CPU implementer")) is not None:
        vendor = TARGETS_JSON["conversions"]["arm_vendors"].get(code, code)
    power = re.search(r"POWER([0-9]{1,3})", cpuinfo.get("cpu", ""))
    return partial_uarch(
        name=_RISC_V.get(cpuinfo.get("uarch", "")) or _RISC_V.get(cpuinfo.get("model name", ""), ""),
        vendor=vendor,
        features=features_of(cpuinfo),
        generation=int(power[1]) if power else 0,
        cpu_part=cpuinfo.get("CPU part", ""),
    )


def _fits(target: "Microarchitecture", family: str, processor: "Microarchitecture") -> bool:
    if family in ("ppc64le", "ppc64"):
        return bool(target.generation <= processor.generation)
    if family == "riscv64":
        return bool(target.vendor == "generic" or target.name == processor.name)
    if family == "aarch64" and target.vendor == "generic" and target.name != family:
        return False  # The versions of the architecture cannot be told from the features.
    return target.vendor in (processor.vendor, "generic") and bool(target.features <= processor.features)


def _best(fitting: "list[Microarchitecture]", part: str) -> "Microarchitecture":
    def depth(target: "Microarchitecture") -> tuple[int, int, str]:
        return len(target.ancestors), len(target.features), target.name

    generic = max((target for target in fitting if target.vendor == "generic"), key=depth, default=None)
    same_part = [target for target in fitting if part and target.cpu_part == part]
    # A feature that firmware has switched off must not throw the processor back behind the generic level.
    above = [target for target in same_part or fitting if generic is None or target > generic]
    return max(above, key=depth) if above else max(fitting if generic is None else [generic], key=depth)
