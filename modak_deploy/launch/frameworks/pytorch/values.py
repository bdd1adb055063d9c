"""Whether a call is a guide to all calls of its form: nothing but the sizes of tensors decides what is done.

It is none where Python learns values, and where a tensor comes from elsewhere than the arguments, the weights and what
operations have made of these: a trace would take what is in it for a constant.
"""

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from . import compiler, outputs
from .tables import Lookup, lookups

BY_VALUE = frozenset(
    ("_local_scalar_dense", "equal", "is_nonzero", "item", "masked_select", "nonzero", "unique_consecutive",
     "_unique", "_unique2", "unique_dim", "bincount", "repeat_interleave", "_pack_padded_sequence")
)  # fmt: skip
"""Operations whose results, or their sizes, depend on values: on a GPU the processor has to wait for them."""
UNSEEN = frozenset(
    ("__array__", "__deepcopy__", "__dlpack__", "__reduce_ex__", "data", "data_ptr", "numpy", "storage", "tolist",
     "to_dlpack", "untyped_storage")
)  # fmt: skip
"""Methods by which values leave a tensor without an operation."""
FOREIGN = "a tensor that no operation has made"
REPLACING = "set_"
"""The operation that puts other memory under a tensor, of which a trace knows nothing."""


def tensors_in(is_leaf: Callable[[Any], bool], value: Any) -> List[Any]:
    """Return the tensors among an operation's arguments and results, which hold numbers, types and lists besides."""
    if is_leaf(value):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [tensor for item in value for tensor in tensors_in(is_leaf, item)]


def by_value(torch: Any, name: str, is_leaf: Callable[[Any], bool], args: Any) -> bool:
    """Tell whether the result of an operation, or its size, depends on values; a mask picks as many as it has."""
    if name in BY_VALUE:
        return True
    masks = tensors_in(is_leaf, args[1:2]) if name.startswith("index") else []
    return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in masks)


class Reading:
    """Notes, while it is entered, why a call is no guide to others."""

    def __init__(self, torch: Any, tensors: Iterable[Any], methods: bool = True) -> None:
        """``tensors`` are the arguments and the weights.

        Where ``methods`` are looked at as well, PyTorch goes without some kernels of its own, such as those of whole
        layers of transformers (2.13): results may differ in their last digits.
        """
        self.what: Optional[str] = None
        self.numbers: Set[float] = set()
        """Numbers that operations were given."""
        self.operations: Set[str] = set()
        """Names of the operations, as they are dispatched to a device."""
        self.lookups: List[Lookup] = []
        """What operations looked up by numbers."""
        self._origins: Dict[int, Any] = {}
        # Gone at once, not with the collector: PyTorch swaps no tensors that have weak references (2.3 to 2.13).
        own = weakref.proxy(self)
        self._modes = [_operations(torch, own), *([_methods(torch, own)] if methods else [])]
        self.made(tensors)

    def made(self, tensors: Iterable[Any]) -> None:
        """Take tensors whose origin is known."""
        self._origins.update((id(tensor), weakref.ref(tensor)) for tensor in tensors)

    def used(self, tensors: Iterable[Any]) -> None:
        """Take tensors that an operation uses, or that are the call's results."""
        for tensor in tensors:
            reference = self._origins.get(id(tensor))
            if reference is None or reference() is not tensor:
                self.note(FOREIGN)

    def note(self, name: str) -> None:
        """Take note of an operation or a method."""
        self.what = self.what or name

    def __enter__(self) -> "Reading":
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _operations(torch: Any, reading: Reading) -> Any:
    is_leaf = outputs.is_tensor(torch)

    class Mode(compiler.mode()):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            packet = getattr(function, "_overloadpacket", None)
            name = str(packet).rpartition(".")[2]
            reading.operations.add(name)
            with contextlib.suppress(Exception):  # what cannot be described is not
                reading.lookups.extend(lookups(torch, name, args))
            if reading.what is not None:  # it is known
                return function(*args, **(kwargs or {}))
            if packet is None or name == REPLACING or by_value(torch, name, is_leaf, args):
                reading.note(name if packet is not None else str(function))
            reading.used(tensors_in(is_leaf, (args, kwargs or {})))
            reading.numbers.update(tensors_in(_is_number, (args, kwargs or {})))
            result = function(*args, **(kwargs or {}))
            reading.made(tensors_in(is_leaf, result))
            return result

    return compiler.without(Mode)()


def _methods(torch: Any, reading: Reading) -> Any:
    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(function, "__name__", "")
            if name == "__get__":  # of an attribute such as Tensor.data, which may have been replaced since
                owner = getattr(function, "__self__", None)
                name = next((unseen for unseen in UNSEEN if getattr(torch.Tensor, unseen, None) is owner), "")
            if name in UNSEEN:
                reading.note(name)
            return function(*args, **(kwargs or {}))

    return Mode()
