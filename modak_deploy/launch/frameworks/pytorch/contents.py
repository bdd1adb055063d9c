"""What values hold, as far as Python shows it: containers, objects, tensors, and the memory of arrays."""

import collections
import itertools
import operator
import sys
import types
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ... import structures

DEEPEST = 12
NEAR = 2
"""Levels that are looked into whatever they hold."""
APART = ("lightning", "lightning_fabric", "pytorch_lightning")
"""Libraries whose objects hold a whole program, with its counters: no farther into those than the levels nearby."""
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)


class Bounds(NamedTuple):
    """How much is looked at."""

    largest: int
    """Entries of a container; of a larger one, a vocabulary or a data set, the number of entries counts alone."""
    most: int
    """Entries in all, beyond the levels nearby."""


class Contents:
    """Containers and objects that some values hold, level by level; they are compared by what they hold now."""

    def __init__(self, torch: Any, roots: Iterable[Any], bounds: Bounds) -> None:
        self._torch = torch
        self._bounds = bounds
        self._dicts: List[Dict[Any, Any]] = []
        self._sequences: List[Any] = []
        self._large: List[Any] = []
        self._alive: Dict[int, Any] = {}
        """All that was looked at, by its id: as long as it lives, no other gets it."""
        self._count = 0
        self.tensors: List[Any] = []
        self.arrays: List[Any] = []
        self.others: List[Any] = []
        """Objects in which there may be more than is seen here."""
        level = [(root, False) for root in roots]
        for depth in range(DEEPEST):
            level = [item for value, apart in level for item in self._look(value, depth, apart)]

    def objects(self) -> List[Any]:
        """Return all entries, for comparing them with those of another time."""
        chain = itertools.chain.from_iterable
        return [
            *chain(map(dict.values, self._dicts)),
            *chain(self._dicts),
            *chain(self._sequences),
            *map(len, self._large),
        ]

    def _look(self, value: Any, depth: int, apart: bool) -> List[Tuple[Any, bool]]:
        """Take a value, and return what it holds."""
        if isinstance(value, structures.PLAIN) or id(value) in self._alive:
            return []
        self._alive[id(value)] = value
        if isinstance(value, self._torch.Tensor):
            self.tensors.append(value)
            return []
        if sample(value, 0) is not None:
            self.arrays.append(value)
            return []
        tables = _tables(self._torch, value)
        self.others.append(value)
        apart = apart or type(value).__module__.partition(".")[0] in APART
        inner: List[Tuple[Any, bool]] = []
        for table in tables:
            size = len(table) * (1 + isinstance(table, dict))
            beyond = depth >= NEAR and (apart or self._count + size > self._bounds.most)
            if len(table) > self._bounds.largest or beyond:
                if depth < NEAR or self._count < self._bounds.most:
                    self._large.append(table)
                    self._count += 1
                continue
            self._count += size
            (self._dicts if isinstance(table, dict) else self._sequences).append(table)
            inner.extend((item, apart) for item in (table.values() if isinstance(table, dict) else table))
        return inner


def is_open(torch: Any, value: Any) -> bool:
    """Tell whether a value, which is no plain one, can hold something that changes and is seen here."""
    return isinstance(value, torch.Tensor) or bool(_tables(torch, value)) or sample(value, 0) is not None


def same(now: List[Any], before: List[Any]) -> bool:
    """Tell whether two lists hold the same objects, or numbers and texts of the same types and values."""
    if len(now) != len(before):
        return False
    if all(map(operator.is_, now, before)):
        return True
    return all(
        value is other or (type(value) is type(other) and type(value) in structures.PLAIN and value == other)
        for value, other in zip(now, before)
    )


def sample(value: Any, most: int) -> Optional[bytes]:
    """Return the bytes of an array or another buffer; of a large one its first and last, ``most`` in all.

    None where a value has none that can be seen.
    """
    if hasattr(type(value), "flat") and hasattr(
        type(value), "tobytes"
    ):  # NumPy's, in whatever order and of whatever type
        if value.nbytes <= most:
            return bytes(value.tobytes())
        count = most // 2 // max(1, value.itemsize)
        return bytes(value.flat[:count].tobytes() + value.flat[value.size - count :].tobytes())
    try:
        with memoryview(value) as view:
            if view.nbytes <= most:
                return view.tobytes()
            if view.ndim != 1 or view.shape is None:
                return b""
            count = most // 2 // max(1, view.itemsize)
            with view[:count] as first, view[view.shape[0] - count :] as last:
                return first.tobytes() + last.tobytes()
    except (TypeError, ValueError, BufferError, NotImplementedError):
        return None


def is_library(name: Any) -> bool:
    """Tell whether a module of a name is Python's, PyTorch's or NumPy's: programs set nothing there."""
    root = str(name).partition(".")[0]
    return root in ("torch", "numpy", "builtins") or (
        root != "__main__" and root in getattr(sys, "stdlib_module_names", ("functools", "contextlib", "warnings"))
    )


def _tables(torch: Any, value: Any) -> List[Any]:
    """Return an object's containers of what it holds: itself, its attributes, or both."""
    if isinstance(value, (type, types.ModuleType, torch.nn.Module)):
        return []
    tables: List[Any] = [value] if isinstance(value, (dict, *_SEQUENCES)) else []
    if hasattr(value, "__dict__") and (tables or not callable(value)) and not _is_log(type(value)):
        attributes = vars(value)
        if isinstance(attributes, dict) and (attributes or not tables):
            tables.append(attributes)
    return tables


def _is_log(kind: type) -> bool:
    """Tell whether objects write messages: no result depends on what they hold, and each leads to all others."""
    return any(part.__module__ == "logging" for part in kind.__mro__)
