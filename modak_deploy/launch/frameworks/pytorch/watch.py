"""Whether a module is a function of its arguments and weights, and whether its weights stay as they are."""

import functools
import itertools
import operator
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ... import clock, structures
from . import generators, sharing
from .arrays import array_of
from .contents import Bounds, Contents, is_open, same, sample
from .outside import Outside

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")
OWN = frozenset((*HOOKS, "_parameters", "_buffers", "_modules", "_compiled_call_impl"))
EACH_CALL = Bounds(largest=1000, most=2000)
"""What is compared before each call that a copy does: some 20 nanoseconds for each entry."""
ALL = Bounds(largest=10_000, most=50_000)
"""What is compared before and after the calls that are observed."""
SAMPLE = 4096
"""Bytes of an array that are compared before each call."""
WHOLE = 64 << 20
"""Bytes of an array that are compared otherwise; of a larger one, its first and last."""
TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
_VERSION = operator.attrgetter("_version")
_ADDRESS = operator.methodcaller("data_ptr")
ADDRESSES = 16
"""Calls after which the addresses of weights are compared: memory that moves without any other trace has the same
content at first, and to ask 270 weights takes 25 microseconds."""


def hooked(torch: Any, root: Any) -> Optional[str]:
    """Return a sentence when the module or one below it has hooks, or all have, which may do anything."""
    for module in root.modules():
        for name in HOOKS:
            if getattr(module, name, None):
                return "{} has hooks".format(type(module).__name__)
    return "all modules have hooks" if any(_global_hooks(torch)) else None


def _global_hooks(torch: Any) -> List[Dict[Any, Any]]:
    """Return the tables of hooks that are called with each module."""
    tables = vars(torch.nn.modules.module)
    return [tables[name] for name in GLOBAL_HOOKS if isinstance(tables.get(name), dict)]


class State:
    """All that a call could change beside its result: attributes, weights, what the code names, random numbers."""

    def __init__(self, torch: Any, root: Any) -> None:
        self._torch = torch
        modules = list(root.modules())
        self._outside = Outside(modules).values()
        attributes = [{name: value for name, value in module.__dict__.items() if name not in OWN} for module in modules]
        tables = [dict(table) for module in modules for table in (module._parameters, module._buffers)]
        contents = Contents(torch, [*attributes, *tables, self._outside], ALL)
        self._objects = [*modules, *contents.objects()]
        self.tensors = contents.tensors
        """Those that the module holds beside its weights, or its code names."""
        self._versions = [(id(tensor), tuple(tensor.shape), _version(tensor)) for tensor in self.tensors]
        self._bytes = [digest(array) for array in contents.arrays]
        self._random = generators.comparable(torch, contents.others)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, State)
            and same(self._objects, other._objects)
            and self._versions == other._versions
            and self._bytes == other._bytes
            and self._random == other._random
        )

    __hash__ = None  # type: ignore[assignment]


class Held:
    """What a module's calls may depend on and what can change unseen: see ``Contents`` and ``Outside``.

    Modules of PyTorch's own have numbers only, which nobody changes but by setting an attribute. As long as the same
    objects are held, nothing has changed but tensors, which count it, and arrays, of which a few bytes are compared.
    """

    def __init__(self, torch: Any, modules: List[Any]) -> None:
        usual = torch.nn.Module().__dict__
        roots: Dict[int, Any] = {}
        for module in modules:
            if type(module).__module__.startswith("torch."):
                continue
            for name, value in module.__dict__.items():
                if name not in usual and is_open(torch, value):
                    roots[id(value)] = value
        self._outside = Outside(modules)
        bound = self._outside.values()
        self._contents = Contents(torch, [*roots.values(), *bound], EACH_CALL)
        self._tensors = [tensor for tensor in self._contents.tensors if not tensor.is_inference()]
        self._versions = list(map(_VERSION, self._tensors))
        self._uncounted = Uncounted(torch, self._contents.tensors)
        self._objects = self._now()
        self._samples = self._sampled()

    def unchanged(self) -> bool:
        """Tell whether all is as it was."""
        if list(map(_VERSION, self._tensors)) != self._versions or not self._uncounted.unchanged():
            return False
        now = self._now()
        if not same(now, self._objects):
            return False
        self._objects = now  # may be other objects of the same values
        return self._sampled() == self._samples

    def digests(self) -> List[Any]:
        """Return what a change of any array changes: they are read as a whole."""
        return list(map(digest, self._contents.arrays))

    def _now(self) -> List[Any]:
        return [*self._outside.values(), *self._contents.objects()]

    def _sampled(self) -> List[Any]:
        return [sample(array, SAMPLE) for array in self._contents.arrays]


class Uncounted:
    """Tensors among others that count no changes, as they were made in inference mode: samples of values are compared.

    Nothing of a GPU's is, where each comparison would wait for the device.
    """

    VALUES = 32
    """Of each tensor."""

    def __init__(self, torch: Any, tensors: List[Any]) -> None:
        wholes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        own = [tensor for tensor in tensors if tensor.is_inference() and tensor.layout == torch.strided]
        self.any = bool(own)
        self._parts: List[Tuple[Any, int, Any, bytes]] = []
        """Memory, where it lies, and what of it is compared, with its content."""
        for tensor in own:
            there = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
            size = min(tensor.numel(), there)  # one number may stand for many
            if tensor.device.type == "cpu" and size > 0:
                memory = tensor.as_strided((size,), (1,)).view(wholes.get(tensor.element_size(), torch.uint8))
                part = array_of(memory)[:: max(1, memory.numel() // self.VALUES)]
                self._parts.append((memory, memory.data_ptr(), part, part.tobytes()))

    def unchanged(self) -> bool:
        """Tell whether the samples are as they were."""
        return all(
            memory.data_ptr() == address and part.tobytes() == before for memory, address, part, before in self._parts
        )


def digest(array: Any) -> Any:
    """Return what a change of an array changes."""
    return (getattr(array, "shape", None), hash(sample(array, WHOLE)))


def _version(tensor: Any) -> Any:
    """Return what changes when a tensor is written to; tensors of the inference mode count no versions."""
    if tensor.is_inference():
        return (tensor.data_ptr(), float(tensor.double().sum()) if tensor.numel() else 0.0)
    return (tensor.data_ptr(), tensor._version)


class Weights:
    """Tells whether a module and its weights are still those that a copy was made from.

    The version counter of a tensor shows every change made through it; a replaced tensor or module, or a new hook, is
    another object in one of the module's tables. Setting any other attribute is noticed (see ``guard``), and so are
    reading ``tensor.data``, through which a weight can be written to without a trace, and swapping a weight's content
    for that of another tensor, which has a counter of its own. So have other tensors with memory of weights: they are
    looked for (see ``sharing``). What a module's configuration, lists and plain tensors hold, and what its code names
    outside of it, is compared before each call, and so are some values of each tensor that was made in inference mode,
    which counts no versions. What is written in the midst of a large array or of such a tensor, or through a NumPy
    array that shares a weight's memory, is found when the values are compared, now and then.

    It does not keep the module alive, nor what lies directly in its attributes.
    """

    INTERVAL = 20.0
    SHARE = 0.003
    """Largest part of the time that comparing values takes: large models are compared less often."""

    def __init__(self, torch: Any, root: Any) -> None:
        self._torch = torch
        modules = list(root.modules())
        tables: List[Dict[Any, Any]] = [getattr(module, name) for module in modules for name in TABLES]
        tables += _global_hooks(torch)
        self._tables = list(filter(None, tables))
        self._empty = [table for table in tables if not table]
        self._modules = [(weakref.ref(module), type(module)) for module in modules]
        self._attributes = [
            {name: _reference(torch, value) for name, value in module.__dict__.items()} for module in modules
        ]
        self._objects = self._content()
        self._held = Held(torch, modules)
        tensors = [tensor for tensor in self._objects if isinstance(tensor, torch.Tensor)]
        others = sharing.others(torch, tensors)
        self._tensors = [tensor for tensor in (*tensors, *others) if not tensor.is_inference()]
        self._uncounted = Uncounted(torch, tensors)
        self._all = tensors
        self._versions = list(map(_VERSION, self._tensors))
        self._addresses = list(map(_ADDRESS, tensors))
        self._calls = 0
        self._tensor_ids = frozenset(map(id, (*tensors, *others)))
        self._module_ids = frozenset(map(id, modules))
        start = clock.now()
        self._sums = self._fingerprints()
        self._next = self._after(start)
        self._dirty = False
        self.unseen = False
        """Whether values had changed without a trace: earlier results may come from old weights."""
        self._set = False
        self._swapped = False
        self.touches = 0
        """Calls before which somebody had got hold of a weight's memory."""
        guard(torch)
        _observers.add(self)

    def touched(self, tensor: Any) -> None:
        """Note that somebody got hold of a tensor's memory."""
        if id(tensor) in self._tensor_ids:
            self._dirty = True

    def swapped(self, tensor: Any) -> None:
        """Note that a tensor has the content of another one."""
        if id(tensor) in self._tensor_ids:
            self._swapped = True

    def set(self, module: Any) -> None:
        """Note that an attribute of a module was set."""
        if id(module) in self._module_ids:
            self._set = True

    def loaded(self, module: Any) -> None:
        """Note that values of a module are loaded: some weights do not count that."""
        if self._uncounted.any and id(module) in self._module_ids:
            self._dirty = True

    def unchanged(self) -> bool:
        """Tell whether all is as it was."""
        if self._swapped or any(self._empty):
            return False
        content = self._content()
        if self._set and not self._same_attributes():
            return False
        if len(content) != len(self._objects) or not all(map(operator.is_, content, self._objects)):
            return False
        if list(map(_VERSION, self._tensors)) != self._versions or not self._uncounted.unchanged():
            return False
        self._calls += 1
        if self._calls % ADDRESSES == 0 and list(map(_ADDRESS, self._all)) != self._addresses:
            return False
        if not self._held.unchanged():
            return False
        start = clock.now()
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
        now = clock.now()
        return now + max(self.INTERVAL, (now - start) / self.SHARE)

    def _same_attributes(self) -> bool:
        """Tell whether what was set is what was there before, as when eval() is called again."""
        self._set = False
        for (reference, kind), before in zip(self._modules, self._attributes):
            module = reference()
            if type(module) is not kind:
                return False
            now = module.__dict__
            if len(now) != len(before) or not all(now.get(name) is value() for name, value in before.items()):
                return False
        return True

    def _content(self) -> List[Any]:
        return list(itertools.chain.from_iterable(map(dict.values, self._tables)))

    def _fingerprints(self) -> List[Any]:
        with self._torch.no_grad():
            sums: List[Any] = [(value.data_ptr(), *_sums(self._torch, value)) for value in self._all]
        return [*sums, *self._held.digests()]


def _reference(torch: Any, value: Any) -> Callable[[], Any]:
    """Return what returns a value without keeping it alive, where that is possible: it may lead back to the module.

    PyTorch swaps the content of no tensor that has weak references (``torch.utils.swap_tensors``, 2.3 to 2.13).
    """
    if not issubclass(type(value), (*structures.PLAIN, torch.Tensor)):
        try:
            return weakref.ref(value)
        except TypeError:  # a list, a dict, or an object with slots
            pass
    return lambda: value


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
        _guard(torch.nn.Module, name, Weights.set)
    _guard(torch.nn.Module, "_load_from_state_dict", Weights.loaded)
    if hasattr(torch.utils, "swap_tensors"):  # since 2.3
        torch.utils.swap_tensors = _noticed(torch.utils.swap_tensors)


def _guard(module_class: Any, name: str, tell: Callable[["Weights", Any], None]) -> None:
    original = getattr(module_class, name)

    @functools.wraps(original)
    def changed(module: Any, *arguments: Any, **options: Any) -> None:
        original(module, *arguments, **options)
        for weights in list(_observers):
            tell(weights, module)

    setattr(module_class, name, changed)


def _noticed(swap_tensors: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(swap_tensors)
    def swap(*tensors: Any, **named: Any) -> None:
        swap_tensors(*tensors, **named)
        for weights in list(_observers):
            for tensor in (*tensors, *named.values()):
                weights.swapped(tensor)

    return swap
