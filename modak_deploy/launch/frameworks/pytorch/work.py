"""What a call of a module consists of: its operations, what they read and write, its batch; read from one real call.

PyTorch's dispatcher shows each operation of the call to a mode (torch.utils._python_dispatch, since 1.13), and
torch.utils.flop_counter (since 2.1) has the formulas. Nothing is computed twice, and no result changes.
"""

import contextlib
import functools
import importlib
import math
import threading
from typing import AbstractSet, Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from ... import structures
from ...handlers import suppressed
from ..operations import BACKWARD, attention, shares
from . import compiler, outputs
from .values import Reading

RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")
OBSERVED = 2
"""The call that is looked at: the first one often holds what is done once."""


class Work:
    """Looks at one of the calls of a module, and tells all who ask what it consisted of."""

    def __init__(
        self,
        torch: Any,
        training: bool,
        plain: Callable[[], bool] = lambda: True,
        weights: Callable[[], Iterable[Any]] = lambda: (),
    ) -> None:
        """``plain`` tells whether the module's calls may be looked at: not where the program compiles any of it.

        ``weights`` returns the module's own tensors.
        """
        self._torch = torch
        self._plain = plain
        self._weights = weights
        self.guide: Optional[bool] = None
        """Whether a call in evaluation went by no value, as far as operations tell; None where none was looked at."""
        self.operations: AbstractSet[str] = frozenset()
        """Names of that call's operations, as they are dispatched to a device."""
        self._training = training
        self._calls = 0
        self._features: Optional[Dict[str, Any]] = None
        self._sinks: List[Dict[str, Any]] = []

    def into(self, features: Dict[str, Any]) -> None:
        """Have what is seen added to ``features``, now or once it is."""
        if self._features is not None:
            features.update(self._features)
        elif all(sink is not features for sink in self._sinks):
            self._sinks.append(features)

    def observing(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Return the module's own call, or one in its place that is looked at while it is done."""
        self._calls += 1
        return self._observed(impl) if self._calls == OBSERVED else impl

    def _observed(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            mode, reading = None, None
            try:
                if self._plain() and self._ordinary(args, kwargs):
                    reading = None if self._training else self._reading(args, kwargs)
                    mode = _mode(self._torch)
            except Exception:  # a version of PyTorch without it: nothing is seen, and the program goes on
                mode = None
            if mode is None:
                return impl(*args, **kwargs)
            with reading or contextlib.nullcontext(), mode, _recurrent_layers(self._torch, mode):
                result = impl(*args, **kwargs)
            with suppressed():  # what cannot be described is not
                self._seen(mode, args, kwargs)
                if reading is not None:
                    reading.used(structures.leaves(result, outputs.is_tensor(self._torch)))
                    self.guide, self.operations = reading.what is None, reading.operations
            return result

        return call

    def _reading(self, args: Any, kwargs: Any) -> Reading:
        tensors = structures.leaves((args, kwargs), outputs.is_tensor(self._torch))
        return Reading(self._torch, [*tensors, *self._weights()], methods=False)

    def _ordinary(self, args: Any, kwargs: Any) -> bool:
        """Tell whether all tensors are PyTorch's own: those of other classes have a dispatch of their own."""
        plain = (self._torch.Tensor, self._torch.nn.Parameter)
        tensors = structures.leaves((args, kwargs), outputs.is_tensor(self._torch))
        return all(
            type(tensor) in plain and tensor.layout == self._torch.strided and not tensor.is_nested
            for tensor in tensors
        )

    def _seen(self, mode: Any, args: Any, kwargs: Any) -> None:
        factor = BACKWARD if self._training else 1
        total = 0 if mode.incomplete else sum(mode.operations.values())
        described: Dict[str, Any] = sizes(self._torch, args, kwargs)
        if total:
            samples = described.get("batch") or 1
            described.update(flops=float(total * factor), layers=mode.layers)
            described.update(flops_per_sample=total * factor / samples, bytes_per_sample=mode.moved * factor / samples)
            described.update(shares(mode.operations))
        self._features = described
        for sink in self._sinks:
            sink.update(described)
        self._sinks = []


def sizes(torch: Any, args: Any, kwargs: Any) -> Dict[str, Any]:
    """Return the batch of a call, and the length of its sequences where its arguments look like such."""
    tensors = structures.leaves((args, kwargs), outputs.is_tensor(torch))
    first = next((tensor for tensor in tensors if tensor.dim()), None)
    if first is None:
        return {}
    described: Dict[str, Any] = {"batch": int(first.shape[0])}
    whole = not (first.is_floating_point() or first.is_complex() or first.dtype == torch.bool)
    if (whole and first.dim() == 2) or (not whole and first.dim() == 3):
        described["sequence"] = int(first.shape[1])
    return described


def kind_of(name: str) -> str:
    """Return the kind of an operation by its name in PyTorch's dispatcher."""
    if "attention" in name:
        return "attention"
    if "rnn" in name or "lstm" in name or "gru" in name:
        return "recurrent"
    if "conv" in name:
        return "convolution"
    return "dense"


class _Sums:
    """What was counted of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Dict[str, int] = {}
        self.moved = 0
        self.layers = 0
        self.incomplete = False
        """Whether an operation took a matrix of weights for which there is no formula."""
        self.within = False
        """Whether operations belong to what is counted as a whole."""

    def add(self, kind: str, count: int, layers: int = 1) -> None:
        """Count operations of a kind, and the layers that do them."""
        self.operations[kind] = self.operations.get(kind, 0) + count
        self.layers += layers


def _mode(torch: Any) -> Any:
    registry = importlib.import_module("torch.utils.flop_counter").flop_registry
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    parameter = torch.nn.Parameter

    def whole(func: Any, args: Any) -> bool:
        """Tell whether an operation consists of others; those of nested tensors come back to where they were (2.13)."""
        if any(getattr(value, "is_nested", False) for value in args):
            return False
        try:
            return bool(has_kernel(func.name(), composite))
        except RuntimeError:  # of masked tensors, operations have names that the dispatcher does not know
            return False

    class Mode(_Sums, compiler.mode()):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            packet = getattr(func, "_overloadpacket", None)
            if packet is None:  # an operator of higher order, which calls others itself
                self.incomplete = True
                return func(*args, **kwargs)
            name = str(packet).rpartition(".")[2]
            special = _SPECIAL.get(name)
            if packet not in registry and special is None:
                if whole(func, args):  # in inference mode, operations arrive so: the same kernel
                    with self:
                        return func._op_dk(composite, *args, **kwargs)
                with contextlib.suppress(Exception):
                    self.incomplete |= (
                        not self.within and name not in _FREE and not func.is_view and _has_matrix(args, parameter)
                    )
                return func(*args, **kwargs)
            result = func(*args, **kwargs)
            if self.within:
                return result
            try:
                count = special(args) if special is not None else registry[packet](*args, **kwargs, out_val=result)
                for kind, part in count if isinstance(count, list) else [(kind_of(name), int(count))]:
                    self.add(kind, part)
                self.moved += _bytes((args, kwargs, result))
            except Exception:  # a formula that does not fit
                self.incomplete = True
            return result

    return compiler.without(Mode)()


_REPLACING = threading.Lock()
"""Of PyTorch's recurrent functions."""


@contextlib.contextmanager
def _recurrent_layers(torch: Any, mode: Any) -> Iterator[None]:
    """Have recurrent layers counted as such: those without a kernel, as of a GRU on a processor, are many products.

    PyTorch's modules have all steps and layers of theirs done by a function of ``torch._VF``.
    """
    table, thread = getattr(torch, "_VF", None), threading.get_ident()
    if table is None or not _REPLACING.acquire(blocking=False):  # another thread's module is observed
        mode.incomplete = True
        yield
        return
    own: Dict[str, Any] = {}
    made: Dict[str, Any] = {}

    def whole(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread or mode.within:
                return function(*args, **kwargs)
            mode.within = True
            try:
                result = function(*args, **kwargs)
            finally:
                mode.within = False
            try:
                mode.add("recurrent", *_cells(args))
                mode.moved += _bytes((args, result))
            except Exception:  # arguments of another release
                mode.incomplete = True
            return result

        return call

    try:
        own.update((name, vars(table).get(name)) for name in RECURRENT if hasattr(table, name))
        made.update((name, whole(getattr(table, name))) for name in own)
        vars(table).update(made)
        yield
    finally:
        for name, before in own.items():
            if vars(table).get(name, table) is not made.get(name):  # the program has put another there
                continue
            if before is None:  # it is looked up where PyTorch has it
                delattr(table, name)
            else:
                setattr(table, name, before)
        _REPLACING.release()


def _cells(args: Tuple[Any, ...]) -> Tuple[int, int]:
    """Return the operations and layers of a recurrent function: all matrices for each sample and step.

    Sequences that were packed come with their numbers of samples at each step (torch/nn/modules/rnn.py, 1.0 to 2.13).
    """
    packed = hasattr(args[1], "is_floating_point") and not args[1].is_floating_point()
    weights, _, layers, _, _, both = args[3:9] if packed else args[2:8]
    rows = args[0].numel() // args[0].shape[-1]
    return 2 * rows * sum(int(weight.numel()) for weight in weights if weight.dim() > 1), layers * (2 if both else 1)


_FREE = frozenset(
    {"embedding", "_to_copy", "clone", "copy_", "_embedding_bag", "linalg_vector_norm", "sum", "isfinite"}
)
"""What takes weights and multiplies no matrix."""


def _has_matrix(values: Any, parameter: Any) -> bool:
    return any(isinstance(value, parameter) and value.dim() > 1 for value in values)


def _bytes(values: Any) -> int:
    """Return the bytes of all tensors in an operation's arguments and results."""
    if isinstance(values, (tuple, list)):
        return sum(_bytes(value) for value in values)
    if isinstance(values, dict):
        return sum(_bytes(value) for value in values.values())
    return int(values.numel() * values.element_size()) if hasattr(values, "element_size") else 0


def _attention(args: Tuple[Any, ...]) -> int:
    query, key, value = args[:3]
    *rows, width = map(int, query.shape)
    return attention(math.prod(rows), int(key.shape[-2]), width, int(value.shape[-1]))


def _recurrent(args: Tuple[Any, ...]) -> int:
    """``mkldnn_rnn_layer``: both matrices of the cell for each sample and step; its input is steps x batch x width."""
    source, first, second = args[:3]
    return int(2 * source.shape[0] * source.shape[1] * (first.numel() + second.numel()))


def _inner(rows: Any, keys: Any, weights: Sequence[Any]) -> List[Tuple[str, int]]:
    """What a kernel does that has several layers in one: products of the rows, and their attention to the keys."""
    count, width, length = rows.numel() // rows.shape[-1], int(rows.shape[-1]), int(keys.shape[1])
    return [
        *(("dense", 2 * count * int(weight.numel())) for weight in weights),
        ("attention", attention(count, length, width, width)),
    ]


_SPECIAL: Dict[str, Callable[[Tuple[Any, ...]], Union[int, List[Tuple[str, int]]]]] = {
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "mkldnn_rnn_layer": _recurrent,
    "_native_multi_head_attention": lambda args: _inner(args[0], args[1], (args[5], args[7])),
    "_transformer_encoder_layer_fwd": lambda args: _inner(args[0], args[0], (args[3], args[5], args[14], args[16])),
}
"""What the processor's kernels are called that have no formula in PyTorch 2.13."""
