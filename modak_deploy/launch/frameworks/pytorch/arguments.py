"""What a module is called with: which calls have trials in common, and which part of a call can be tried alone."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ... import parts, structures
from . import outputs


class Described(NamedTuple):
    """What calls with the same trials have in common of a tensor."""

    shape: Any
    """Its sizes; their number where sizes do not matter."""
    dtype: Any
    device: str
    requires_grad: bool
    kind: type
    order: Optional[Tuple[int, ...]]
    """Its dimensions in memory: those of the result may follow them."""
    number: int
    """Which of the call's tensors it is: a module may ask whether two are one."""


def signature_of(torch: Any, args: Any, kwargs: Any) -> Any:
    """Return what calls with the same trials have in common; Unsupported where an argument cannot be looked into."""
    numbers: Dict[int, int] = {}

    def describe(tensor: Any) -> Described:
        number = numbers.setdefault(id(tensor), len(numbers))
        order, device = outputs.order_of(torch, tensor), tensor.device.type
        return Described(tuple(tensor.shape), tensor.dtype, device, tensor.requires_grad, type(tensor), order, number)

    return (structures.shape((args, kwargs), describe, outputs.is_tensor(torch)), torch.is_inference_mode_enabled())


def alike(signature: Any, other: Any) -> bool:
    """Tell whether two signatures differ in sizes only: as many dimensions, of the same types."""
    return bool(without_sizes(signature) == without_sizes(other))


def without_sizes(given: Any) -> Any:
    """Return what is left of a signature when tensors' numbers of dimensions stand for their sizes."""
    if isinstance(given, Described):
        return Described(len(given.shape), *given[1:])
    return tuple(map(without_sizes, given)) if isinstance(given, tuple) else given


def size_of(given: Any) -> int:
    """Return how many numbers a call with a signature is given."""
    if isinstance(given, Described):
        return math.prod(given.shape)
    return sum(map(size_of, given)) if isinstance(given, tuple) else 0


def part_of(torch: Any, args: Any, kwargs: Any, cuda: bool) -> Optional[parts.Part]:
    """Return the part of a call with such arguments; None where it has none; ``cuda`` is whether it is a GPU's."""
    tensors = structures.leaves((args, kwargs), outputs.is_tensor(torch))
    if any(tensor.layout != torch.strided or tensor.is_nested for tensor in tensors):
        return None
    part = parts.first(tuple(tensor.shape) for tensor in tensors)
    return None if part is not None and cuda and _indexes(torch, tensors, part) else part


def _indexes(torch: Any, tensors: List[Any], part: parts.Part) -> bool:
    """Tell whether rows may be numbers of other rows, as of a point's neighbours.

    Such a number is beyond the last row of a part, and a GPU that finds an index out of range takes no further work of
    the process. Where all is whole numbers, they are most likely those of words.
    """
    batched = [tensor for tensor in tensors if parts.batched(tensor.shape, part)]
    whole = [
        not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool) for tensor in batched
    ]
    return any(whole) and not all(whole)


def cut(torch: Any, call: Any, part: parts.Part) -> Any:
    """Return a call with the first rows of its arguments, copied."""

    def change(tensor: Any) -> Any:
        return tensor[: part.rows].clone() if parts.batched(tensor.shape, part) else tensor

    return structures.replace(call, change, outputs.is_tensor(torch))
