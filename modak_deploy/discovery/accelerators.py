"""GPUs as nvidia-smi and rocm-smi tell them."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from packaging.version import Version

from modak_deploy.model.target import Accelerator
from modak_deploy.numbers import digits

_MOST = 2**31 - 1
Vendor = Literal["nvidia", "amd", "intel"]
_Device = tuple[str, int | None, str | None]
"""Model, bytes of memory and version of the driver."""


_GPU = re.compile(r"GPU \d+: ")
_SLICE = re.compile(r"\s+MIG (?P<profile>\S+)\s+Device +\d+:")


def parse_nvidia(text: str, listing: str = "") -> list[Accelerator]:
    """Return the GPUs of ``nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits``.

    ``listing`` is the output of ``nvidia-smi -L``, which alone tells that a GPU is divided (MIG): then programs see its
    parts, each with a part of the memory, and never the whole.
    """
    devices: list[_Device] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        # Without a driver or a device it prints a sentence.
        if len(cells) == 3 and cells[0] and re.match(r"\d|\[", cells[1]):
            mebibytes = digits(cells[1], _MOST)
            memory = None if mebibytes is None else mebibytes * 1024**2
            devices.append((cells[0], memory, _version(cells[2])))
    slices = _slices(listing)
    if len(slices) == len(devices):
        divided = zip(devices, slices, strict=True)
        devices = [part for device, parts in divided for part in _parts(device, parts)]
    return _grouped(devices, "nvidia")


def _slices(listing: str) -> list[list[str]]:
    """Return the profiles of the parts of each GPU, such as ``1g.5gb``; none of one that is not divided."""
    gpus: list[list[str]] = []
    for line in listing.splitlines():
        if _GPU.match(line):
            gpus.append([])
        elif gpus and (part := _SLICE.match(line)):
            gpus[-1].append(part["profile"])
    return gpus


def _parts(device: _Device, profiles: list[str]) -> list[_Device]:
    """Return the parts of a GPU as devices of their own; the GPU itself where there are none."""
    if not profiles:
        return [device]
    model, _, driver = device
    sizes = ((profile, re.search(r"\.([0-9]{1,4})gb", profile)) for profile in profiles)
    return [(f"{model} MIG {profile}", int(size[1]) * 1024**3 if size else None, driver) for profile, size in sizes]


def parse_rocm(text: str) -> list[Accelerator]:
    """Return the GPUs of ``rocm-smi --showproductname --showmeminfo vram --showdriverversion --json``."""
    start, end = text.find("{"), text.rfind("}")
    try:
        cards: dict[str, Any] = json.loads(text[start : end + 1]) if start >= 0 else {}
    except (ValueError, RecursionError):  # numbers of 4300 digits, and nesting
        return []
    folded = {
        card: {key.lower(): str(value) for key, value in fields.items()}
        for card, fields in cards.items()
        if isinstance(fields, dict)
    }
    driver = _version(folded.get("system", {}).get("driver version", ""))
    devices = []
    for card, fields in folded.items():
        # An integrated one is no accelerator: its memory is a piece of the host's.
        memory = digits(fields.get("vram total memory (b)", ""))
        if card.startswith("card") and (memory is None or memory >= 1024**3):
            name = fields.get("card series") or fields.get("card model") or "AMD GPU"
            devices.append((_in_brackets(name), memory, driver))
    return _grouped(devices, "amd")


def _grouped(devices: Iterable[_Device], vendor: Vendor) -> list[Accelerator]:
    return [
        Accelerator(model=model, count=count, vendor=vendor, memory=memory, driver=driver)
        for (model, memory, driver), count in Counter(devices).items()
    ]


def _in_brackets(name: str) -> str:
    """Return ``AMD Instinct MI100`` of ``Arcturus GL-XL [AMD Instinct MI100]``."""
    devices = re.search(r"\[(.+)\]", name)
    return devices[1] if devices else name


def _version(text: str) -> str | None:
    try:
        return str(Version(text)) and text
    except ValueError:  # InvalidVersion, and parts of 4300 digits
        return None
