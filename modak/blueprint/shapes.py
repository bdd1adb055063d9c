"""The shape of a TOSCA document: which keys there are, and what kind of value each takes; data/shapes.yaml has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from modak.blueprint.spot import Fault, Spot
from modak.documents.faults import shown
from modak.util.text import nearest

_DATA = Path(__file__).parent / "data" / "shapes.yaml"
_REFUSED = "no: "
_HINTS = dict.fromkeys(
    ("interface", "interface_definition"), ": operations stand below the key 'operations', which xOpera wants"
)
"""What is said of an unknown key, where one is often written in another version of TOSCA."""


@dataclass(frozen=True)
class Misshapen:
    """A fault of shape; it is fatal where what stands there is of another kind, so that nobody can look into it."""

    fault: Fault
    is_fatal: bool = False


@cache
def _shapes() -> Mapping[str, Mapping[str, str]]:
    loaded: dict[str, dict[str, str]] = yaml.safe_load(_DATA.read_text())
    return loaded


def check_shape(spot: Spot, shape: str = "document") -> Iterator[Misshapen]:
    """Yield what is wrong with the shape of a value and all that is in it."""
    if shape == "any":
        return
    if shape.startswith("text or "):
        other = shape.removeprefix("text or ")
        if other in _shapes() and not isinstance(spot.value, str | dict):
            yield Misshapen(spot.fault(f"must be text or a mapping, not {shown(spot.value)}"), True)
        elif not isinstance(spot.value, str):
            yield from check_shape(spot, other)
    elif shape.startswith("list of "):
        yield from _items(spot, list, shape.removeprefix("list of "), "a list")
    elif shape.startswith("map of "):
        yield from _items(spot, dict, shape.removeprefix("map of "), "a mapping")
    elif shape.startswith("one "):
        if not isinstance(spot.value, dict) or len(spot.value) != 1:
            yield Misshapen(spot.fault(f"must be a mapping with a single name, not {shown(spot.value)}"), True)
        else:
            yield from _items(spot, dict, shape.removeprefix("one "), "a mapping")
    elif shape in _SIMPLE:
        is_right, words = _SIMPLE[shape]
        if not is_right(spot.value):
            yield Misshapen(spot.fault(f"must be {words}, not {shown(spot.value)}"), True)
    else:
        yield from _part(spot, shape)


def _items(spot: Spot, kind: type, shape: str, words: str) -> Iterator[Misshapen]:
    if not isinstance(spot.value, kind):
        yield Misshapen(spot.fault(f"must be {words}, not {shown(spot.value)}"), True)
        return
    for item in spot.items():
        yield from check_shape(item, shape)


def _part(spot: Spot, shape: str) -> Iterator[Misshapen]:
    keys = {key.removesuffix("!"): value for key, value in _shapes()[shape].items()}
    required = [key.removesuffix("!") for key in _shapes()[shape] if key.endswith("!")]
    if not isinstance(spot.value, dict):
        words = f" with the key '{required[0]}'" if required else ""
        yield Misshapen(spot.fault(f"must be a mapping{words}, not {shown(spot.value)}"), True)
        return
    meant = {hint.split("'")[1] for key in spot.value if key not in keys and (hint := nearest(str(key), list(keys)))}
    for key in required:
        if key not in spot.value and key not in meant:
            yield Misshapen(spot.fault(f"the key '{key}' is missing"))
    for item in spot.items():
        value = keys.get(item.name)
        if value is None:
            hint = nearest(item.name, list(keys)) or _HINTS.get(shape, "")
            yield Misshapen(item.fault(f"unknown key{hint}"))
        elif value.startswith(_REFUSED):
            yield Misshapen(item.fault(f"leave '{item.name}' out: {value.removeprefix(_REFUSED)}"))
        else:
            yield from check_shape(item, value)


def _is_range(value: Any) -> bool:
    match value:
        case [int(low), int(high)]:
            return 0 <= low <= high > 0
        case [int(low), "UNBOUNDED"]:
            return low >= 0
    return False


_SIMPLE: Mapping[str, tuple[Any, str]] = {
    "text": (lambda value: isinstance(value, str), "text"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "integer": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "map": (lambda value: isinstance(value, dict), "a mapping"),
    "range": (_is_range, "a list of the lowest and the highest number, such as [0, UNBOUNDED]"),
}
