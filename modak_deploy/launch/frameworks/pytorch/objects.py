"""The program's objects by their identity, whatever their classes say of equality.

A data class compares its fields and has no hash, other classes call all of their objects equal, or return a tensor.
``Module.modules`` hashes what it returns (PyTorch 2.2 to 2.13), and leaves out a module that is equal to another one.
"""

import weakref
from typing import Any, Dict, Generic, Iterable, List, Optional, Tuple, TypeVar

Value = TypeVar("Value")


class Table(Generic[Value]):
    """Values by objects, which it does not keep alive: an entry goes with its object."""

    def __init__(self) -> None:
        self._entries: Dict[int, Tuple[weakref.ref[Any], Value]] = {}

    def get(self, key: Any) -> Optional[Value]:
        """Return the value of an object; None where it has none."""
        entry = self._entries.get(id(key))
        return None if entry is None else entry[1]

    def values(self) -> List[Value]:
        """Return all values, in the order in which they were set."""
        return [value for _, value in list(self._entries.values())]

    def __setitem__(self, key: Any, value: Value) -> None:
        number, entries = id(key), self._entries
        entries[number] = (weakref.ref(key, lambda _: entries.pop(number, None)), value)

    def __contains__(self, key: Any) -> bool:
        return id(key) in self._entries

    def __len__(self) -> int:
        return len(self._entries)


def modules_of(root: Any) -> List[Any]:
    """Return a module and those below it, each once, in PyTorch's order."""
    held: Dict[int, Any] = {}
    left = [root]
    while left:  # a function that calls itself would keep them alive until the collector comes
        module = left.pop()
        if module is not None and id(module) not in held:
            held[id(module)] = module
            left.extend(reversed(list(module._modules.values())))
    return list(held.values())


def held_by(modules: Iterable[Any], table: str) -> List[Any]:
    """Return what modules have in ``_parameters`` or ``_buffers``, each once.

    A program may have its own ``parameters``, with other arguments, or for a part of them.
    """
    groups = (getattr(module, table).values() for module in modules)
    return list({id(tensor): tensor for group in groups for tensor in group if tensor is not None}.values())


def compares_itself(kind: type) -> bool:
    """Tell whether a class says itself when its objects are equal, or what their hash is."""
    return any("__eq__" in vars(part) or "__hash__" in vars(part) for part in kind.__mro__ if part is not object)
