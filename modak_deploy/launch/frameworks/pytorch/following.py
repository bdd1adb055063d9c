"""Whether a module that other software does may lose what is not a number: it is followed through a call's operations.

ONNX Runtime and OpenVINO make numbers of it in many operations, where PyTorch's result is not a number either. As long
as the arguments are finite, such values come from few operations, and only where their own arguments may be such: a
quotient where the divisor may be zero, a root where the number may be below it. What is known to be harmless, as of
softmax, norms with an epsilon, and quotients by what is clamped, is followed by the kinds of numbers (``signs``).
"""

import importlib
import weakref
from types import MappingProxyType
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from .. import signs
from . import compiler, outputs
from .masks import HIDES_ALL, Mask, Ref, Rows, Steps, begin
from .otherwise import EQUALS, POSITIONS, Refusal
from .signs import Given, made
from .values import tensors_in

LIKE = frozenset(
    ("arange", "empty", "empty_like", "empty_strided", "eye", "full", "full_like", "linspace", "new_empty",
     "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "scalar_tensor", "zeros",
     "zeros_like")
)  # fmt: skip
"""Operations whose results depend on sizes alone."""
SHAPING = ("_unsafe_view", "expand", "unsqueeze", "view", "_reshape_alias")
"""Operations after which the rows of a mask are what they were, where these are as long."""
ATTENTION: Dict[str, Optional[int]] = {
    "_scaled_dot_product_flash_attention_for_cpu": None,
    "_scaled_dot_product_flash_attention": None,
    "_scaled_dot_product_efficient_attention": 3,
    "_scaled_dot_product_cudnn_attention": 3,
}
"""Attention on processors and GPUs, and where its mask is given; None where it is by name, if at all."""
COPYING = ("_to_copy", "clone")
ROWS = ("_softmax", "_log_softmax", "_safe_softmax")
EXACT = 1 << 22
"""Elements of a constant up to which it is looked at one by one."""
LARGE = 1e12
"""Finite numbers from which on products and sums in single precision may not be finite, if there are enough of them."""


class Following:
    """Follows a call of a module while it is entered."""

    def __init__(
        self,
        torch: Any,
        tensors: List[Any],
        keeping: AbstractSet[str],
        otherwise: Mapping[str, Refusal] = MappingProxyType({}),
    ) -> None:
        """``tensors`` are the arguments, each with memory of its own; ``keeping`` are the operations that lose nothing,
        and ``otherwise`` tells which are done in another way.
        """
        self._torch = torch
        self._keeping, self._otherwise = keeping, otherwise
        self._is_leaf = outputs.is_tensor(torch)
        self.reason: Optional[str] = None
        """Why other software is not given the module; None where it may be."""
        self._tensors = tensors
        self._kinds: Dict[int, int] = {}
        """The kinds of numbers in memory that depends on the arguments."""
        self._held: List[Any] = []
        """That memory, so that no other is taken for it, though the program may have freed it."""
        self._weak = importlib.import_module("torch.multiprocessing.reductions").StorageWeakRef
        for tensor in tensors:
            self._set(tensor, of_argument(torch, tensor))
        self._steps = Steps(torch, tensors)
        self._hiding: Dict[Any, Tuple[Any, List[Mask], bool]] = {}
        """What hides in tensors with minus infinity, by their references, how long their rows are, and whether the
        dimensions before these were others when it was put there.
        """
        self._rows: Dict[Any, Rows] = {}
        self._positions: Set[int] = set()
        """Memory that holds the places of numbers, of which some may be equal."""
        self._mode = _mode(torch, weakref.proxy(self))  # what is followed is freed at once

    def __enter__(self) -> "Following":
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)

    def checks(self) -> List[Any]:
        """Return what looks at the arguments of each call."""
        ranges = [Range.of(self._torch, number, tensor) for number, tensor in enumerate(self._tensors)]
        return [*(entry for entry in ranges if entry is not None), *self._rows.values()]

    def done(self, function: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Take an operation."""
        given, results = (tensors_in(self._is_leaf, value) for value in ((args, kwargs), result))
        varying = name not in LIKE and any(map(self._varies, given))
        changes = bool(function._schema.is_mutable)
        before = {begin(tensor) for tensor in given}
        if varying or any(isinstance(self._steps.reference(tensor), Ref) for tensor in given):
            written = kwargs.get("out", given[0]) if changes and given else None
            self._steps.add(function, (args, kwargs), result, written, name in LIKE)
        if not varying:
            return
        self.used(given)
        call = Given(args, kwargs, self._of, self._varies)
        self.reason = self.reason or self._refusal(name.rstrip("_"), call, given)
        kinds = self._made(name, call)
        self._hide(name.rstrip("_"), args, kwargs, kinds, result)
        for tensor in results:
            self._take(tensor, kinds, begin(tensor) in before, changes)
        if name in POSITIONS and isinstance(result, (tuple, list)):
            self._positions.add(begin(result[POSITIONS[name]]))

    def used(self, tensors: List[Any]) -> None:
        """Take tensors that an operation uses, or that are the call's results."""
        if self._positions and not self._positions.isdisjoint(map(begin, tensors)):
            self.reason = self.reason or EQUALS

    def _refusal(self, name: str, call: Given, given: List[Any]) -> Optional[str]:
        keeps = name in self._keeping and not (name == "_to_copy" and self._is_whole(call.kwargs.get("dtype")))
        real = [] if keeps else [tensor for tensor in given if tensor.is_floating_point()]
        if any(self._of(tensor) & signs.NONE for tensor in real):
            return "{} may be given what is not a number, and other software makes one of it".format(name)
        asked = self._otherwise.get(name)
        reason = None if asked is None else asked(call)
        return None if reason is None else "{} is done in another way: {}".format(name, reason)

    @staticmethod
    def _is_whole(dtype: Any) -> bool:
        """Tell whether a type has whole numbers alone, of which each software makes another of what is none."""
        return dtype is not None and not (dtype.is_floating_point or dtype.is_complex)

    def _take(self, tensor: Any, kinds: int, shared: bool, changes: bool) -> None:
        address = begin(tensor)
        if not address or (shared and not changes):
            return
        kinds = _fitting(self._torch, tensor, kinds)
        if shared and tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes():
            kinds |= self._kinds.get(address) or of_values(self._torch, _whole(tensor))
        self._set(tensor, kinds)

    def _set(self, tensor: Any, kinds: int) -> None:
        address = begin(tensor)
        if address not in self._kinds:
            self._held.append(self._weak(tensor.untyped_storage()))
        self._kinds[address] = kinds

    def _varies(self, value: Any) -> bool:
        return self._is_leaf(value) and begin(value) in self._kinds

    def _of(self, value: Any) -> int:
        """Return the kinds of numbers of a value."""
        if self._is_leaf(value):
            kinds = self._kinds.get(begin(value))
            return of_values(self._torch, value) if kinds is None else kinds
        if isinstance(value, (bool, int, float)):
            return signs.of_number(float(value))
        if not isinstance(value, (tuple, list)):
            return 0
        tensors = tensors_in(self._is_leaf, value)
        result = 0
        for tensor in tensors:
            result |= self._of(tensor) if tensor.dtype == tensors[0].dtype else 0
        return result

    # masks

    def _made(self, name: str, given: Given) -> int:
        kinds = made(name, given)
        mask = given.args[0] if name in ROWS else None
        if name in ATTENTION:
            position = ATTENTION[name]
            mask = given.kwargs.get("attn_mask") if position is None else given.args[position]
        if mask is None or not self._of(mask) & signs.LOWEST:
            return kinds
        rows = self._steps.rows(self._masks(mask), len(self._tensors)) if self._is_last(name, given) else None
        if rows is None:
            return kinds | signs.NONE
        if rows.key not in self._rows:
            try:
                hides = rows.hides_all(self._tensors)
            except (AttributeError, RuntimeError, TypeError):  # masks that do not fit together as they are
                return kinds | signs.NONE
            if hides:
                self.reason = self.reason or HIDES_ALL
            if rows.fixed:
                return kinds
            self._rows[rows.key] = rows
        return kinds

    def _is_last(self, name: str, given: Given) -> bool:
        """Tell whether rows are along the last dimension."""
        return name in ATTENTION or given.args[1] in (-1, given.args[0].dim() - 1)

    def _masks(self, tensor: Any, together: bool = False) -> List[Mask]:
        """Return what hides in a tensor: what has been put into it, or where it is minus infinity.

        ``together`` is whether others hide in the same rows: then it is to have the dimensions that it had.
        """
        reference = self._steps.reference(tensor)
        noted = self._hiding.get(reference) if isinstance(reference, Ref) else None
        if noted is None or noted[0] != tensor.shape[-1:] or (noted[2] and together):
            return [Mask(reference, "lowest")]
        return list(noted[1])

    def _hide(self, name: str, args: Any, kwargs: Any, kinds: int, result: Any) -> None:
        """Note what hides in the result of an operation."""
        reference = self._steps.reference(result) if self._is_leaf(result) else None
        if not isinstance(reference, Ref):
            return
        self._hiding.pop(reference, None)
        masks = self._put(name, args, result) if kinds & signs.LOWEST else []
        if masks:
            before = self._hiding.get(self._steps.reference(args[0])) if name in COPYING else None
            moved = name in SHAPING or (before is not None and before[2])
            self._hiding[reference] = (result.shape[-1:], masks, moved)

    def _put(self, name: str, args: Any, result: Any) -> List[Mask]:
        """Return what hides by an operation; nothing where that is not known."""
        low = [self._of(value) & signs.LOWEST for value in args]
        if name == "masked_fill" and low[2]:
            return [*(self._masks(args[0], True) if low[0] else []), Mask(self._steps.reference(args[1]), "true")]
        if name == "where":
            for position, how in ((1, "true"), (2, "false")):
                other = args[3 - position]
                if self._of(args[position]) == signs.LOWEST:
                    masks = self._masks(other, True) if low[3 - position] else []
                    return [*masks, Mask(self._steps.reference(args[0]), how)]
        if name in ("add", "baddbmm", "addmm"):
            both = all(low[:2])
            return [mask for value, lowest in zip(args[:2], low) if lowest for mask in self._masks(value, both)]
        if name in (*COPYING, *SHAPING) and low[0] and args[0].shape[-1:] == result.shape[-1:]:
            return self._masks(args[0])
        return []


class Range(NamedTuple):
    """What an argument may hold: finite numbers, and others where it has held them in the call that was followed."""

    argument: int
    kinds: int
    largest: float

    @classmethod
    def of(cls, torch: Any, number: int, tensor: Any) -> Optional["Range"]:
        """Return that of an argument; None where its type has nothing else."""
        if not tensor.is_floating_point() or not tensor.numel():
            return None
        finite = tensor[torch.isfinite(tensor)]
        large = bool(finite.numel()) and float(finite.abs().max()) > LARGE
        return cls(number, of_argument(torch, tensor), float("inf") if large else LARGE)

    def check(self, torch: Any, given: List[Any]) -> None:
        """Raise ArithmeticError for an argument with others."""
        tensor = given[self.argument]
        low, high = limits(torch, tensor)
        if -self.largest <= low and high <= self.largest and max(-low, high) < float("inf"):
            return
        if low != low and self.kinds & signs.NONE == 0:
            raise ArithmeticError("an argument holds values that are not numbers")
        if of_argument(torch, tensor) & ~self.kinds:
            raise ArithmeticError("an argument holds infinite values")
        finite = tensor[torch.isfinite(tensor)]
        if finite.numel() and float(finite.abs().max()) > self.largest:
            raise ArithmeticError("an argument holds numbers so large that others may not be finite")


def limits(torch: Any, tensor: Any) -> Tuple[float, float]:
    """Return the least and the greatest number, neither of them one where any is none.

    On a processor by one thread: PyTorch's would wait for cores on which those of ONNX Runtime still wait for work.
    """
    try:
        array = tensor.detach().numpy()
    except (ImportError, RuntimeError, TypeError):  # on a GPU, or of a type that numpy has not
        low, high = torch.stack(torch.aminmax(tensor)).tolist()
        return low, high
    return float(array.min()), float(array.max())


def of_argument(torch: Any, tensor: Any) -> int:
    """Return the kinds of numbers that an argument may hold: all finite ones, and others that it has."""
    if not tensor.is_floating_point() or not tensor.numel():
        return _fitting(torch, tensor, signs.FINITE)
    kinds = signs.FINITE | (signs.NONE if bool(torch.isnan(tensor).any()) else 0)
    for infinite, kind in ((float("-inf"), signs.LOWEST), (float("inf"), signs.HIGHEST)):
        kinds |= kind if bool((tensor == infinite).any()) else 0
    return kinds


def of_values(torch: Any, tensor: Any) -> int:
    """Return the kinds of the numbers in a tensor."""
    if not tensor.numel() or tensor.is_complex() or tensor.layout != torch.strided:
        return signs.ANY if tensor.numel() else 0
    tensor = tensor.detach()
    kinds = of_argument(torch, tensor)
    if tensor.numel() > EXACT or not kinds & signs.FINITE:
        return kinds
    others = kinds & ~signs.FINITE
    finite = tensor if not tensor.is_floating_point() else tensor[torch.isfinite(tensor)]
    for there, kind in ((finite < 0, signs.NEGATIVE), (finite == 0, signs.ZERO), (finite > 0, signs.POSITIVE)):
        others |= kind if bool(there.any()) else 0
    return others


def _fitting(torch: Any, tensor: Any, kinds: int) -> int:
    """Return those kinds that a tensor's type has."""
    if tensor.dtype in (torch.bool, torch.uint8):
        return signs.ZERO | signs.POSITIVE
    return kinds if tensor.is_floating_point() or tensor.is_complex() else kinds & signs.FINITE


def _whole(tensor: Any) -> Any:
    """Return all of a tensor's memory."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)


def _mode(torch: Any, following: Following) -> Any:
    class Mode(compiler.mode()):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            packet = getattr(function, "_overloadpacket", None)
            if packet is None:  # an operator of higher order
                following.reason = following.reason or "{} is not looked into".format(function)
            else:
                following.done(function, str(packet).rpartition(".")[2], args, kwargs or {}, result)
            return result

    return compiler.without(Mode)()
