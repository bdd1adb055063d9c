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


def parse_nvidia(text: str) -> list[Accelerator]:
    """Return the GPUs of ``nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits``."""
    devices = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        # Without a driver or a device it prints a sentence.
        if len(cells) == 3 and cells[0] and re.match(r"\d|\[", cells[1]):
            mebibytes = digits(cells[1], _MOST)
            memory = None if mebibytes is None else mebibytes * 1024**2
            devices.append((cells[0], memory, _version(cells[2])))
    return _grouped(devices, "nvidia")


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


def _grouped(devices: Iterable[tuple[str, int | None, str | None]], vendor: Vendor) -> list[Accelerator]:
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
