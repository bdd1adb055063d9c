"""Whether a module is a function of its arguments and weights, and whether its weights stay as they are."""

import collections
import functools
import itertools
import operator
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
OWN = frozenset((*HOOKS, "_parameters", "_buffers", "_modules", "_compiled_call_impl"))
DEEPEST = 2
LARGEST = 1000
"""Entries of a container that are looked at: a vocabulary or a data set may hang on a module."""
TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
_VERSION = operator.attrgetter("_version")


def hooked(root: Any) -> Optional[str]:
    """Return a sentence when the module or one below it has hooks, which may do anything."""
    for module in root.modules():
        for name in HOOKS:
            if getattr(module, name, None):
                return "{} has hooks".format(type(module).__name__)
    return None


class State:
    """All that a call could change in a module: attributes, weights, random numbers."""

    def __init__(self, torch: Any, root: Any) -> None:
        self._torch = torch
        self._kept: List[Any] = []
        """The objects described: as long as they live, no other gets the id of one."""
        self._parts: List[Any] = []
        for module in root.modules():
            for name, value in module.__dict__.items():
                if name not in OWN:
                    self._parts.append((id(module), name, self._describe(value)))
            for table in (module._parameters, module._buffers):
                self._parts.extend((id(module), name, self._describe(value)) for name, value in table.items())
        self._parts.append(bytes(torch.get_rng_state().numpy().tobytes()))
        if torch.cuda.is_initialized():  # is_available would keep processes that are forked later from the GPU
            self._parts.append(bytes(torch.cuda.get_rng_state().numpy().tobytes()))

    def _describe(self, value: Any) -> Any:
        return _described(self._torch, value, 0, self._kept, _version)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]


def _described(torch: Any, value: Any, depth: int, kept: List[Any], version: Callable[[Any], Any]) -> Any:
    """Return what a change of a value, or of what it holds, changes; the objects concerned are added to ``kept``."""
    kept.append(value)
    if isinstance(value, torch.Tensor):
        return (id(value), tuple(value.shape), version(value))
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return value
    items = _items(torch, value) if depth < DEEPEST else None
    if items is None:
        return id(value)
    if len(items) > LARGEST:
        return (id(value), len(items))
    return (id(value), tuple((key, _described(torch, item, depth + 1, kept, version)) for key, item in items))


def _items(torch: Any, value: Any) -> Optional[List[Tuple[Any, Any]]]:
    """Return what an object holds, where that can be seen."""
    if isinstance(value, dict):
        return [(key if isinstance(key, (str, int)) else id(key), item) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return list(enumerate(value))
    if hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module)) and not callable(value):
        return list(vars(value).items())
    return None


class Held:
    """What hangs on the program's own modules and can change unseen: containers, objects and plain tensors.

    Modules of PyTorch's own have numbers only, which nobody changes but by setting an attribute. What is held is looked
    into two levels deep; as long as it holds the same objects, nothing has changed.
    """

    def __init__(self, torch: Any, modules: List[Any]) -> None:
        self._torch = torch
        usual = torch.nn.Module().__dict__
        objects: Dict[int, Any] = {}
        for module in modules:
            if type(module).__module__.startswith("torch."):
                continue
            for name, value in module.__dict__.items():
                if name not in usual and (isinstance(value, torch.Tensor) or _items(torch, value) is not None):
                    objects[id(value)] = value
        self._roots = list(objects.values())
        self._take()

    def unchanged(self) -> bool:
        """Tell whether all is as it was."""
        if not self._roots:
            return True
        if list(map(_VERSION, self._tensors)) != self._versions:
            return False
        now = self._content()
        if len(now) == len(self._objects) and all(map(operator.is_, now, self._objects)):
            return True
        if self._states != self._describe([]):
            return False
        self._take()  # other objects of the same values
        return True

    def _take(self) -> None:
        self._kept: List[Any] = []
        self._states = self._describe(self._kept)
        torch = self._torch
        looked = [value for value in self._kept if _items(torch, value) is not None]
        self._dicts = [value if isinstance(value, dict) else vars(value) for value in looked if _has_keys(value)]
        self._sequences = [value for value in looked if not _has_keys(value)]
        tensors = [value for value in self._kept if isinstance(value, torch.Tensor)]
        self._tensors = [tensor for tensor in tensors if not tensor.is_inference()]  # those count no versions
        self._versions = list(map(_VERSION, self._tensors))
        self._objects = self._content()

    def _describe(self, kept: List[Any]) -> List[Any]:
        return [_described(self._torch, value, 0, kept, _cheap_version) for value in self._roots]

    def _content(self) -> List[Any]:
        chain = itertools.chain.from_iterable
        return [*chain(map(dict.values, self._dicts)), *chain(self._dicts), *chain(self._sequences)]


def _has_keys(value: Any) -> bool:
    return not isinstance(value, (list, tuple, set, frozenset, collections.deque))


def _cheap_version(tensor: Any) -> Any:
    """Return what changes when a tensor is written to, as far as it can be seen without reading the tensor."""
    return (tensor.data_ptr(), None if tensor.is_inference() else tensor._version)


def _version(tensor: Any) -> Any:
    """Return what changes when a tensor is written to; tensors of the inference mode count no versions."""
    if tensor.is_inference():
        return (tensor.data_ptr(), float(tensor.double().sum()) if tensor.numel() else 0.0)
    return (tensor.data_ptr(), tensor._version)


class Weights:
    """Tells whether a module and its weights are still those that a copy was made from.

    The version counter of a tensor shows every change made through it; a replaced tensor or module, or a new hook, is
    another object in one of the module's tables. Setting any other attribute is noticed (see ``guard``), and so is
    reading ``tensor.data``, through which a weight can be written to without a trace. What a module's configuration,
    lists and plain tensors hold is compared before each call; what is written through a NumPy array that shares a
    weight's memory is found when the values are compared, now and then.
    """

    INTERVAL = 20.0
    SHARE = 0.003
    """Largest part of the time that comparing values takes: large models are compared less often."""

    def __init__(self, torch: Any, root: Any) -> None:
        start = time.monotonic()
        self._torch = torch
        modules = list(root.modules())
        self._tables: List[Dict[str, Any]] = [getattr(module, name) for module in modules for name in TABLES]
        self._modules = modules
        self._attributes = [dict(module.__dict__) for module in modules]
        self._objects = self._content()
        self._held = Held(torch, modules)
        tensors = [tensor for tensor in self._objects if isinstance(tensor, torch.Tensor)]
        self._tensors = [tensor for tensor in tensors if not tensor.is_inference()]  # those count no versions
        self._all = tensors
        self._versions = list(map(_VERSION, self._tensors))
        self._tensor_ids = frozenset(map(id, tensors))
        self._module_ids = frozenset(map(id, modules))
        self._sums = self._fingerprints()
        self._next = self._after(start)
        self._dirty = False
        self.unseen = False
        """Whether values had changed without a trace: earlier results may come from old weights."""
        self._set = False
        self.touches = 0
        """Calls before which somebody had got hold of a weight's memory."""
        guard(torch)
        _observers.add(self)

    def touched(self, tensor: Any) -> None:
        """Note that somebody got hold of a tensor's memory."""
        if id(tensor) in self._tensor_ids:
            self._dirty = True

    def set(self, module: Any) -> None:
        """Note that an attribute of a module was set."""
        if id(module) in self._module_ids:
            self._set = True

    def unchanged(self) -> bool:
        """Tell whether all is as it was."""
        content = self._content()
        if self._set and not self._same_attributes():
            return False
        if len(content) != len(self._objects) or not all(map(operator.is_, content, self._objects)):
            return False
        if list(map(_VERSION, self._tensors)) != self._versions:
            return False
        if not self._held.unchanged():
            return False
        start = time.monotonic()
        if self._dirty or start >= self._next:
            same = self._fingerprints() == self._sums
            self.unseen = not same and not self._dirty
            self.touches += self._dirty
            self._dirty = False
            self._next = self._after(start)
            return same
        return True

    def _after(self, start: float) -> float:
        """Return when values are compared again, after a comparison that began at ``start``."""
        now = time.monotonic()
        return now + max(self.INTERVAL, (now - start) / self.SHARE)

    def _same_attributes(self) -> bool:
        """Tell whether what was set is what was there before, as when eval() is called again."""
        self._set = False
        for module, before in zip(self._modules, self._attributes):
            now = module.__dict__
            if len(now) != len(before) or not all(now.get(name) is value for name, value in before.items()):
                return False
        return True

    def _content(self) -> List[Any]:
        return list(itertools.chain.from_iterable(map(dict.values, self._tables)))

    def _fingerprints(self) -> List[Any]:
        with self._torch.no_grad():
            return [(value.data_ptr(), *_sums(self._torch, value)) for value in self._all]


def _sums(torch: Any, tensor: Any) -> Tuple[Any, ...]:
    """Return two numbers that a change of values changes, up to a rounding error's chance."""
    if not tensor.numel():
        return (0,)
    if tensor.dtype == torch.bool or tensor.is_complex():
        return (str(tensor.sum().item()),)
    norm = torch.linalg.vector_norm(tensor if tensor.is_floating_point() else tensor.double())
    return (tensor.sum(dtype=torch.float64).item(), norm.item())


_observers: "weakref.WeakSet[Weights]" = weakref.WeakSet()


def guard(torch: Any) -> None:
    """Tell all observers from now on of what a program does to modules and tensors from Python."""
    original = torch.Tensor.data
    if isinstance(original, property):
        return

    def get(tensor: Any) -> Any:
        for weights in list(_observers):
            weights.touched(tensor)
        return original.__get__(tensor)

    def put(tensor: Any, value: Any) -> None:
        original.__set__(tensor, value)
        for weights in list(_observers):
            weights.touched(tensor)

    torch.Tensor.data = property(get, put)
    for name in ("__setattr__", "__delattr__"):
        _guard_attributes(torch.nn.Module, name)


def _guard_attributes(module_class: Any, name: str) -> None:
    original = getattr(module_class, name)

    @functools.wraps(original)
    def changed(module: Any, *arguments: Any) -> None:
        original(module, *arguments)
        for weights in list(_observers):
            weights.set(module)

    setattr(module_class, name, changed)
