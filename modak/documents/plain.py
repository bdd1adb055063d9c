"""Values of Ansible, ruamel and YAML as plain JSON types."""

import datetime
from collections.abc import Mapping
from typing import Any

from modak.errors import InputError


def plain(value: Any, place: str = "") -> Any:
    """Return ``value`` made of dict, list, str, int, float, bool and None only.

    Tagged subclasses (of Ansible, ruamel) become their base type, tuples lists, dates text as in ISO 8601. InputError
    names the ``place`` of a key that is no text, of a value of any other type, and of a value that holds itself.
    """
    return _plain(value, place, ())


def _plain(value: Any, place: str, parents: tuple[int, ...]) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            # ruamel keeps an anchored boolean in a subclass of int.
            return bool(value) if type(value).__name__ == "ScalarBoolean" else int.__int__(value)
        case float():
            return float.__float__(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Mapping() | list() | tuple():
            if id(value) in parents:
                raise InputError(f"{place or 'the document'}: the value holds itself")
            return _plain_inside(value, place, (*parents, id(value)))
        case _:
            raise InputError(f"{place or 'the document'}: a value of type {type(value).__name__} is of no use here")


def _plain_inside(value: Any, place: str, parents: tuple[int, ...]) -> Any:
    if not isinstance(value, Mapping):
        return [_plain(item, f"{place}[{number}]", parents) for number, item in enumerate(value)]
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise InputError(f"{place or 'the document'}: the key {key!r} is no text: write it in quotes")
        name = str.__str__(key)
        result[name] = _plain(item, f"{place}.{name}" if place else name, parents)
    return result
