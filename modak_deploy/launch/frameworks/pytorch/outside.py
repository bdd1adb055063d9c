"""What the code of a module reads beyond the module: global names, cells of closures, attributes of classes."""

import dis
import functools
import types
from itertools import chain
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, Tuple

from .contents import is_library

MOST = 500
"""Functions whose code is read."""
STARTS = ("forward", "__call__", "__getattr__")
"""What a call begins with, whether code names it or not; each of the program's classes may get its own later."""
_GLOBAL = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME")
_EMPTY = object()


class Outside:
    """Bindings that the calls of modules may read, as far as the code of their classes names them.

    Code is followed from ``forward`` into the methods and the program's own functions that it names, not into those of
    libraries, nor into the methods of other classes.
    """

    def __init__(self, modules: List[Any]) -> None:
        kinds = dict.fromkeys(part for kind in dict.fromkeys(map(type, modules)) for part in kind.__mro__)
        self._proxies: Dict[int, Tuple[Any, Mapping[str, Any]]] = {}
        self._classes = [self._space(kind) for kind in kinds if not is_library(kind.__module__)]
        lines = [[part for part in kind.__mro__ if not is_library(part.__module__)] for kind in set(map(type, modules))]
        self._lines = [[self._space(part) for part in line] for line in lines if len(line) > 1]
        """Classes along which an attribute is looked for, where there are several of the program's own."""
        self._spaces: Dict[int, Tuple[Mapping[str, Any], Dict[str, None]]] = {
            id(space): (space, dict.fromkeys(STARTS)) for space in self._classes
        }
        self._cells: Dict[int, Any] = {}
        self._functions: Dict[int, Any] = {}
        self._pending = [space[name] for space in self._classes for name in STARTS if name in space]
        while self._pending and len(self._functions) < MOST:
            for function in _functions(self._pending.pop()):
                self._follow(function)
        self._read = [(space.get, list(names)) for space, names in self._spaces.values()]

    def values(self) -> List[Any]:
        """Return what is bound now."""
        values: List[Any] = []
        for get, names in self._read:
            values.extend(map(get, names))
        values.extend(map(_content, self._cells.values()))
        return values

    def _follow(self, function: Any) -> None:
        """Take what a function reads, and what it calls."""
        if id(function) in self._functions:
            return
        self._functions[id(function)] = function
        for cell in function.__closure__ or ():
            self._cells[id(cell)] = cell
            self._pending.append(_content(cell))
        names, attributes = _names(function.__code__)
        self._bind(function.__globals__, names, attributes)
        for space in self._classes:
            self._bind(space, attributes, frozenset())
        for line in self._lines:  # what a base has may be set on the class from now on
            for name in attributes.intersection(chain(*line)):
                for space in line:
                    self._spaces.setdefault(id(space), (space, {}))[1][name] = None

    def _space(self, value: Any) -> Mapping[str, Any]:
        """Return the namespace of a module or class, the same object each time: a class makes a view anew."""
        return self._proxies.setdefault(id(value), (value, vars(value)))[1]

    def _bind(self, space: Mapping[str, Any], names: FrozenSet[str], attributes: FrozenSet[str]) -> None:
        """Take names of a namespace, and ``attributes`` of the modules and classes that they stand for."""
        for name in sorted(names):
            value = space.get(name, _EMPTY)
            if value is _EMPTY or (isinstance(value, types.ModuleType) and is_library(value.__name__)):
                continue
            bound = self._spaces.setdefault(id(space), (space, {}))[1]
            new = name not in bound
            bound[name] = None
            if isinstance(value, types.ModuleType) or (isinstance(value, type) and not is_library(value.__module__)):
                inner = self._space(value)
                others = attributes - frozenset(self._spaces.get(id(inner), (inner, {}))[1])
                self._bind(inner, frozenset(other for other in others if other in inner), attributes)
            elif new:
                self._pending.append(value)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return _EMPTY


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Yield the functions of the program's own that a value is, or that it stands for."""
    for _ in range(10):
        if isinstance(value, types.FunctionType) and not is_library(value.__globals__.get("__name__")):
            yield value
            return
        for name in ("__func__", "fget", "func", "__wrapped__"):
            inner = getattr(value, name, None) if _wraps(value) else None
            if inner is not None:
                value = inner
                break
        else:
            return


def _wraps(value: Any) -> bool:
    """Tell whether a value is something around a function, not an object of the program's with such attributes."""
    kinds = (types.FunctionType, types.MethodType, staticmethod, classmethod, property)
    return isinstance(value, kinds) or type(value).__module__ == "functools"


@functools.lru_cache(maxsize=2000)
def _names(code: types.CodeType) -> Tuple[FrozenSet[str], FrozenSet[str]]:
    """Return the global names in a function's code, and all names, among which are those of attributes."""
    names = {item.argval for item in dis.get_instructions(code) if item.opname in _GLOBAL}
    every = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner, others = _names(constant)
            names |= inner
            every |= others
    return frozenset(names), frozenset(every)
