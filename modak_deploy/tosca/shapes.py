"""The shape of a TOSCA document: which keys there are, and what kind of value each takes; data/shapes.yaml has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.validation import shown
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.profiles import OPERA, UNFURL
from modak_deploy.util.text import nearest

_DATA = Path(__file__).parent / "data" / "shapes.yaml"
_HINTS = dict.fromkeys(
    ("interface", "interface_definition"), ": operations stand below the key 'operations', which xOpera requires"
)
"""What is said of an unknown key, where one is often written in another version of TOSCA."""
_DIRECTIVES = ("select", "selectable", "substitute", "substitutable")


@dataclass(frozen=True)
class Misshapen:
    """A fault of shape; it is fatal where what stands there is of another kind, so that nobody can look into it."""

    fault: Diagnostic
    is_fatal: bool = False


@dataclass(frozen=True)
class _Key:
    """What stands below a key of a part."""

    shape: str
    """Empty where nothing may stand."""
    is_required: bool = False
    required_by: tuple[str, ...] = ()
    """The tools that require it where TOSCA does not."""
    rejected_by: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def read(cls, name: str, text: str) -> "tuple[str, _Key]":
        """Return the name of a key and the rest, from what data/shapes.yaml has of it."""
        bare, mark, tools = name.partition("!")
        shape, _, rejection = text.partition("; not ")
        rejecting, _, reason = rejection.partition(": ")
        return bare, cls(shape.strip(), bool(mark), _names(tools), _names(rejecting), reason)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@cache
def _shapes() -> Mapping[str, Mapping[str, _Key]]:
    loaded: dict[str, dict[str, str]] = yaml.safe_load(_DATA.read_text())
    return {part: dict(_Key.read(name, text) for name, text in keys.items()) for part, keys in loaded.items()}


def check_shape(element: SourceLocation, shape: str = "document") -> Iterator[Misshapen]:
    """Yield what is wrong with the shape of a value and all that is in it."""
    if shape == "any":
        return
    if shape.startswith("text or "):
        other = shape.removeprefix("text or ")
        if other in _shapes() and not isinstance(element.value, str | dict):
            yield Misshapen(
                element.diagnostic(f"must be text or a mapping, not {shown(element.value)}", code="wrong-type"), True
            )
        elif not isinstance(element.value, str):
            yield from check_shape(element, other)
    elif shape.startswith("list of "):
        yield from _items(element, list, shape.removeprefix("list of "), "a list")
    elif shape.startswith("map of "):
        yield from _items(element, dict, shape.removeprefix("map of "), "a mapping")
    elif shape.startswith("one "):
        if not isinstance(element.value, dict) or len(element.value) != 1:
            yield Misshapen(
                element.diagnostic(
                    f"must be a mapping with a single name, not {shown(element.value)}", code="wrong-type"
                ),
                True,
            )
        else:
            yield from _items(element, dict, shape.removeprefix("one "), "a mapping")
    elif shape == "directives":
        yield from _directives(element)
    elif shape in _SIMPLE:
        is_right, expected = _SIMPLE[shape]
        if not is_right(element.value):
            yield Misshapen(
                element.diagnostic(f"must be {expected}, not {shown(element.value)}", code="wrong-type"), True
            )
    else:
        yield from _part(element, shape)


def _items(element: SourceLocation, kind: type, shape: str, expected: str) -> Iterator[Misshapen]:
    if not isinstance(element.value, kind):
        yield Misshapen(element.diagnostic(f"must be {expected}, not {shown(element.value)}", code="wrong-type"), True)
        return
    for item in element.items():
        yield from check_shape(item, shape)


def _part(element: SourceLocation, shape: str) -> Iterator[Misshapen]:
    keys = _shapes()[shape]
    required = [name for name, key in keys.items() if key.is_required]
    if not isinstance(element.value, dict):
        expected = f" with the key '{required[0]}'" if required else ""
        yield Misshapen(
            element.diagnostic(f"must be a mapping{expected}, not {shown(element.value)}", code="wrong-type"), True
        )
        return
    meant = {hint.split("'")[1] for key in element.value if key not in keys and (hint := nearest(str(key), list(keys)))}
    for name in required:
        if name not in element.value and name not in meant:
            yield Misshapen(
                element.diagnostic(f"the key '{name}' is required", tools=keys[name].required_by, code="missing-key")
            )
    for item in element.items():
        key = keys.get(item.name)
        if key is None:
            hint = nearest(item.name, list(keys)) or _HINTS.get(shape, "")
            yield Misshapen(item.diagnostic(f"unknown key{hint}", code="unknown-key"))
            continue
        if key.rejected_by:
            yield Misshapen(
                item.diagnostic(f"leave '{item.name}' out: {key.reason}", tools=key.rejected_by, code="not-portable")
            )
        if key.shape:
            yield from check_shape(item, key.shape)


def _directives(element: SourceLocation) -> Iterator[Misshapen]:
    if not isinstance(element.value, list):
        yield Misshapen(element.diagnostic(f"must be a list, not {shown(element.value)}", code="wrong-type"), True)
        return
    if element.value:
        yield Misshapen(
            element.diagnostic("leave 'directives' out: xOpera takes none", tools=OPERA + UNFURL, code="not-portable")
        )
    for item in element.items():
        if item.value not in _DIRECTIVES:
            hint = nearest(str(item.value), _DIRECTIVES)
            yield Misshapen(
                item.diagnostic(
                    f"must be one of {', '.join(_DIRECTIVES)}, not {shown(item.value)}{hint}", code="wrong-type"
                )
            )


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
