"""What a module is called with: which calls have trials in common, and which part of a call can be tried alone."""

from typing import Any, List, Optional

from ... import parts, structures
from . import outputs


def signature_of(torch: Any, args: Any, kwargs: Any) -> Any:
    """Return what calls with the same trials have in common; Unsupported where an argument cannot be looked into."""

    def describe(tensor: Any) -> Any:
        return (tuple(tensor.shape), tensor.dtype, tensor.device.type, tensor.requires_grad)

    return (structures.shape((args, kwargs), describe, outputs.is_tensor(torch)), torch.is_inference_mode_enabled())


def alike(signature: Any, other: Any) -> bool:
    """Tell whether two signatures differ in sizes only: as many dimensions, of the same types."""
    return bool(without_sizes(signature) == without_sizes(other))


def without_sizes(given: Any) -> Any:
    """Return what is left of a signature when tensors' numbers of dimensions stand for their sizes."""
    if isinstance(given, tuple):
        if len(given) == 4 and isinstance(given[0], tuple) and hasattr(given[1], "is_floating_point"):
            return (len(given[0]), *given[1:])
        return tuple(without_sizes(item) for item in given)
    return given


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
