"""Walk through the arguments and results of calls: tuples, lists, dicts, named tuples, data classes, and leaves."""

import copy
import dataclasses
import operator
from typing import Any, Callable, Dict, List

PLAIN = (type(None), bool, int, float, complex, str, bytes)
DEEPEST = 20


class Unsupported(TypeError):
    """A value is of a type whose content cannot be seen."""


def replace(value: Any, change: Callable[[Any], Any], is_leaf: Callable[[Any], bool], depth: int = 0) -> Any:
    """Return the value with each leaf changed, its containers copied; Unsupported for what is neither."""
    if is_leaf(value):
        return change(value)
    if isinstance(value, PLAIN):
        return value
    if depth > DEEPEST:
        raise Unsupported("a value is nested more than {} levels deep".format(DEEPEST))

    def inner(item: Any) -> Any:
        return replace(item, change, is_leaf, depth + 1)

    if isinstance(value, tuple):
        _check_attributes(value, {})
        items = [inner(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else _same(value, tuple(items))
    if type(value) is list:
        return [inner(item) for item in value]
    if isinstance(value, dict):
        return _dict(value, inner)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        result = copy.copy(value)
        _check_attributes(value, fields)
        for name, item in fields.items():
            object.__setattr__(result, name, inner(item))
        return result
    raise Unsupported("a value is of the type {}.{}".format(type(value).__module__, type(value).__qualname__))


def leaves(value: Any, is_leaf: Callable[[Any], bool]) -> List[Any]:
    """Return all leaves, in order; Unsupported as for ``replace``."""
    leaves: List[Any] = []

    def keep(leaf: Any) -> Any:
        leaves.append(leaf)
        return leaf

    replace(value, keep, is_leaf)
    return leaves


def shape(value: Any, describe: Callable[[Any], Any], is_leaf: Callable[[Any], bool], depth: int = 0) -> Any:
    """Return a hashable description: containers, keys, plain values, and what ``describe`` says about the leaves."""
    if is_leaf(value):
        return describe(value)
    if isinstance(value, PLAIN):
        return (type(value), value)
    if depth > DEEPEST:
        raise Unsupported("a value is nested more than {} levels deep".format(DEEPEST))
    if isinstance(value, (tuple, list)):
        _check_attributes(value, {})
        return (type(value), tuple(shape(item, describe, is_leaf, depth + 1) for item in value))
    if isinstance(value, dict):
        held = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        raise Unsupported("a value is of the type {}.{}".format(type(value).__module__, type(value).__qualname__))
    _check_attributes(value, held)
    return (type(value), tuple((key, shape(item, describe, is_leaf, depth + 1)) for key, item in held.items()))


class Held:
    """What containers hold, and the attributes of all that a value consists of; compared by identity.

    A list that a call adds to, or a dict that it fills, shows in no leaf that was there before.
    """

    def __init__(self, value: Any) -> None:
        self._tables: List[Any] = []
        self._walk(value, 0)
        self._items = list(map(_items, self._tables))

    def unchanged(self) -> bool:
        """Tell whether all holds the very objects that it held at first, in the same order."""
        for table, before in zip(self._tables, self._items):
            now = _items(table)
            if len(now) != len(before) or not all(map(operator.is_, now, before)):
                return False
        return True

    def _walk(self, value: Any, depth: int) -> None:
        if isinstance(value, PLAIN) or depth > DEEPEST:
            return
        tables = [value] if isinstance(value, (tuple, list, dict)) else []
        if hasattr(value, "__dict__") and not isinstance(value, type):
            tables.append(vars(value))
        self._tables.extend(tables)
        for table in tables:
            for item in table.values() if isinstance(table, dict) else table:
                self._walk(item, depth + 1)


def _items(table: Any) -> List[Any]:
    return [*table.keys(), *table.values()] if isinstance(table, dict) else list(table)


def _same(value: Any, items: Any) -> Any:
    if type(value) is not tuple:
        raise Unsupported("a value is of the type {}".format(type(value).__qualname__))
    return items


def _dict(value: Any, inner: Callable[[Any], Any]) -> Any:
    result = copy.copy(value)  # the outputs of Hugging Face's models are ordered dicts and data classes at once
    mirrored = _check_attributes(value, value)
    if getattr(value, "__dict__", None) is value:  # its items are its attributes
        result.__dict__ = result
    for key, item in value.items():
        new = inner(item)
        if new is not item:
            result[key] = new
    for name in mirrored:
        vars(result)[name] = dict.get(result, name)
    return result


def _check_attributes(value: Any, held: Dict[Any, Any]) -> List[str]:
    """Return the names of attributes that a container's items, or a data class's fields, stand for as well.

    Unsupported where another attribute holds more than a plain value: it would be that of another call, or stay in the
    number format of a variant.
    """
    attributes = getattr(value, "__dict__", None)
    if not attributes:
        return []
    mirrored = [name for name, item in attributes.items() if name in held and dict.get(held, name) is item]
    if not all(isinstance(item, PLAIN) for name, item in attributes.items() if name not in mirrored):
        raise Unsupported("a value of the type {} has attributes beside its items".format(type(value).__qualname__))
    return mirrored
