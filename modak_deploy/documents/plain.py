"""Values of Ansible, ruamel and YAML as plain JSON types."""

import datetime
from collections.abc import Mapping
from typing import Any

from modak_deploy.diagnostics import Location
from modak_deploy.errors import InputError


def plain(value: Any) -> Any:
    """Return ``value`` made of dict, list, str, int, float, bool and None only.

    Tagged subclasses (of Ansible, ruamel) become their base type, tuples lists, dates text as in ISO 8601. InputError
    names the path of a key that is not text, of a value of any other type, and of a value that contains itself.
    """
    return _plain(value, (), ())


def _plain(value: Any, location: Location, parents: tuple[int, ...]) -> Any:
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
                raise InputError("the value contains itself", key=location, code="recursive-value")
            return _plain_inside(value, location, (*parents, id(value)))
        case _:
            text = f"a value of type {type(value).__name__} is not supported"
            raise InputError(text, key=location, code="wrong-type")


def _plain_inside(value: Any, location: Location, parents: tuple[int, ...]) -> Any:
    if not isinstance(value, Mapping):
        return [_plain(item, (*location, number), parents) for number, item in enumerate(value)]
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            text = f"the key {key!r} is not text"
            raise InputError(text, key=location, hint="write it in quotes", code="invalid-key")
        name = str.__str__(key)
        result[name] = _plain(item, (*location, name), parents)
    return result
