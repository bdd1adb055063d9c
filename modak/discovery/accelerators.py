"""GPUs as nvidia-smi and rocm-smi tell them, and as Slurm's generic resources do."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from packaging.version import InvalidVersion, Version

from modak.model.target import Accelerator

Vendor = Literal["nvidia", "amd", "intel"]
_MADE_BY: tuple[tuple[Vendor, str], ...] = (
    ("amd", r"^(amd|mi\d|gfx|vega|radeon|instinct|navi)"),
    ("intel", r"^(intel|pvc|xe|arc|max\d|ponte)"),
)
"""Names by which sites call GPUs in Slurm; all others are NVIDIA's."""


def parse_nvidia(text: str) -> list[Accelerator]:
    """Return the GPUs of ``nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits``."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        # Without a driver or a device it prints a sentence.
        if len(cells) == 3 and cells[0] and re.match(r"\d|\[", cells[1]):
            memory = int(cells[1]) * 1024**2 if cells[1].isdecimal() else None
            found.append((cells[0], memory, _version(cells[2])))
    return _grouped(found, "nvidia")


def parse_rocm(text: str) -> list[Accelerator]:
    """Return the GPUs of ``rocm-smi --showproductname --showmeminfo vram --showdriverversion --json``."""
    start, end = text.find("{"), text.rfind("}")
    try:
        cards: dict[str, Any] = json.loads(text[start : end + 1]) if start >= 0 else {}
    except (ValueError, RecursionError):
        return []
    folded = {
        card: {key.lower(): str(value) for key, value in fields.items()}
        for card, fields in cards.items()
        if isinstance(fields, dict)
    }
    driver = _version(folded.get("system", {}).get("driver version", ""))
    found = []
    for card, fields in folded.items():
        # An integrated one is no accelerator: its memory is a piece of the host's.
        memory = fields.get("vram total memory (b)", "")
        if card.startswith("card") and (not memory.isdecimal() or int(memory) >= 1024**3):
            name = fields.get("card series") or fields.get("card model") or "AMD GPU"
            found.append((_in_brackets(name), int(memory) if memory.isdecimal() else None, driver))
    return _grouped(found, "amd")


def parse_gres(text: str) -> list[Accelerator]:
    """Return the GPUs of a node in Slurm's words, such as ``gpu:a100:4(S:0-1),mps:400``; ``gpu`` where untyped."""
    found: Counter[str] = Counter()
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        words = item.strip().split(":")
        if words[0] == "gpu" and words[-1].isdecimal():
            found[words[1] if len(words) > 2 else "gpu"] += int(words[-1])
    return [
        Accelerator(model=model, count=count, vendor=vendor_of(model)) for model, count in found.items() if count > 0
    ]


def vendor_of(model: str) -> Vendor:
    """Return who makes the GPU that a site calls ``model``."""
    return next((vendor for vendor, pattern in _MADE_BY if re.search(pattern, model.lower())), "nvidia")


def _grouped(found: Iterable[tuple[str, int | None, str | None]], vendor: Vendor) -> list[Accelerator]:
    return [
        Accelerator(model=model, count=count, vendor=vendor, memory=memory, driver=driver)
        for (model, memory, driver), count in Counter(found).items()
    ]


def _in_brackets(name: str) -> str:
    """Return ``AMD Instinct MI100`` of ``Arcturus GL-XL [AMD Instinct MI100]``."""
    found = re.search(r"\[(.+)\]", name)
    return found[1] if found else name


def _version(text: str) -> str | None:
    try:
        return str(Version(text)) and text
    except InvalidVersion:
        return None
