"""Compare what two variants of a module return, and give a variant's result the default's form."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ... import structures
from ...parts import Part, batched

TOLERANCE = {"": 1e-4, "tf32": 0.02, "fp16": 0.03, "bf16": 0.2}
"""Largest relative difference (Euclidean norm of the difference to that of the default), by number format.

Kernels in single precision agree to 3e-5. bf16, of 8 bits precision, differs by 0.4 to 2 % in trained networks and by
up to 15 % in deep ones with random weights: what is wrong differs by more.
"""


def own_format(torch: Any, root: Any) -> str:
    """Return the number format that is the module's own beside single precision: ``tf32``, or none.

    On NVIDIA's GPUs cuDNN's convolutions and recurrent layers are in TF32 unless the program wants it otherwise, matrix
    products where it wants it so: kernels that add in another order then differ by more.
    """
    devices = {weight.device for weight in root.parameters() if weight.is_cuda and weight.dtype == torch.float32}
    if torch.version.hip or not any(torch.cuda.get_device_capability(device) >= (8, 0) for device in devices):
        return ""
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    convolutional, recurrent = torch.nn.modules.conv._ConvNd, torch.nn.RNNBase
    if hasattr(cudnn, "conv"):  # since 2.9, where reading allow_tf32 warns, and fails where both were set
        kinds = ((cudnn.conv, convolutional), (cudnn.rnn, recurrent), (products, torch.nn.Module))
        wanted = [kind for setting, kind in kinds if setting.fp32_precision == "tf32"]
    else:
        wanted = [convolutional, recurrent] if cudnn.allow_tf32 else []
        wanted += [torch.nn.Module] if products.allow_tf32 else []
    return "tf32" if any(isinstance(module, tuple(wanted)) for module in root.modules()) else ""


MASK = 1e4
"""From this size on, numbers that are the same in two results are not compared: they would outweigh all others."""
GAPS = 64 << 20
"""Bytes with gaps, up to which a result lies in memory as the default's; one word of each text may be far apart."""
DENSE = ()
"""The order of dimensions in memory of what is contiguous."""


class Leaf(NamedTuple):
    """A tensor of a result."""

    dtype: Any
    order: Optional[Tuple[int, ...]]
    """Its dimensions from the outermost in memory to the innermost; None where memory has no such order."""
    strides: Optional[Tuple[Tuple[int, ...], Tuple[int, ...]]] = None
    """Its sizes and their strides where memory has gaps, or the same numbers are in several places."""


class Form(NamedTuple):
    """Form of the default's result, leaf by leaf."""

    shape: Any
    leaves: List[Leaf]


def is_tensor(torch: Any) -> Any:
    """Return the test for leaves."""
    return lambda value: isinstance(value, torch.Tensor)


def form(torch: Any, result: Any) -> Form:
    """Return the form of a result; structures.Unsupported where it cannot be looked into."""
    is_leaf = is_tensor(torch)
    tensors = structures.leaves(result, is_leaf)

    def describe(tensor: Any) -> Any:
        return (type(tensor), tensor.requires_grad, tensor.dim(), str(tensor.device))

    kind = structures.shape(result, describe, is_leaf)
    return Form(kind, [_leaf(torch, tensor) for tensor in tensors])


def _leaf(torch: Any, tensor: Any) -> Leaf:
    order = order_of(torch, tensor)
    if order is not None or tensor.layout != torch.strided or tensor.is_nested:
        return Leaf(tensor.dtype, order)
    return Leaf(tensor.dtype, order, (tuple(tensor.shape), tensor.stride()))


def order_of(torch: Any, tensor: Any) -> Optional[Tuple[int, ...]]:
    """Return the order of a tensor's dimensions in memory: which of them ``view`` can make one depends on it."""
    if tensor.layout != torch.strided or tensor.is_nested:
        return None
    if tensor.is_contiguous():
        return DENSE
    strides = tensor.stride()
    order = tuple(sorted(range(len(strides)), key=lambda number: -int(strides[number])))
    return order if tensor.permute(order).is_contiguous() else None  # a part of another tensor has gaps


def _lies_so(tensor: Any, leaf: Leaf) -> bool:
    """Tell whether a tensor lies in memory as it is to; how one of other sizes is to is not known."""
    if leaf.strides is None or leaf.strides[0] != tuple(tensor.shape):
        return _has_order(tensor, leaf.order)
    return bool(tensor.stride() == leaf.strides[1]) or extent(leaf.strides) * tensor.element_size() > GAPS


def _laid(torch: Any, tensor: Any, leaf: Leaf) -> Any:
    """Return a tensor that lies in memory as it is to."""
    if _lies_so(tensor, leaf):
        return tensor
    if leaf.strides is None:
        return _ordered(tensor, leaf.order)
    sizes, strides = leaf.strides
    lasting = [slice(1) if not stride else slice(None) for stride in strides]  # what is the same is written once
    memory = torch.empty(extent(leaf.strides), dtype=tensor.dtype, device=tensor.device)
    result = memory.as_strided(sizes, strides)
    result[tuple(lasting)].copy_(tensor[tuple(lasting)])
    return result


def extent(strides: Any) -> int:
    """Return how many elements lie from the first one of a tensor to its last one."""
    return 1 + int(sum((size - 1) * stride for size, stride in zip(*strides)))


def _has_order(tensor: Any, order: Optional[Tuple[int, ...]]) -> bool:
    if not order:
        return order is None or bool(tensor.is_contiguous())
    return len(order) != tensor.dim() or bool(tensor.permute(order).is_contiguous())


def _ordered(tensor: Any, order: Optional[Tuple[int, ...]]) -> Any:
    """Return a tensor with its dimensions in an order in memory."""
    if _has_order(tensor, order):
        return tensor
    if not order:
        return tensor.contiguous()
    return tensor.permute(order).contiguous().permute([order.index(number) for number in range(len(order))])


def merged(torch: Any, earlier: Optional[Form], default: Any, form: Form) -> Form:
    """Return the form of a default's result for calls of all sizes, of which an earlier one may have told more.

    Where a size is 1 there are several orders in memory, and the plainest does not say what the others have.
    """
    if earlier is None or earlier.shape != form.shape:
        return form
    tensors = structures.leaves(default, is_tensor(torch))
    return Form(form.shape, [
        new._replace(order=old.order if old.order and _has_order(tensor, old.order) else new.order)
        for old, new, tensor in zip(earlier.leaves, form.leaves, tensors)
    ])  # fmt: skip


def restore(torch: Any, result: Any, wanted: Form, given: Any = ()) -> Any:
    """Return a variant's result with the number formats and the memory layout that the default's has."""
    is_leaf = is_tensor(torch)
    tensors = structures.leaves(result, is_leaf)
    if len(tensors) != len(wanted.leaves):
        raise structures.Unsupported("the result has {} tensors instead of {}".format(len(tensors), len(wanted.leaves)))
    if all(left.dtype == leaf.dtype and _lies_so(left, leaf) for left, leaf in zip(tensors, wanted.leaves)):
        return result
    forms = iter(wanted.leaves)
    changed: Dict[int, Any] = {id(tensor): tensor for tensor in structures.leaves(given, is_leaf)}
    """What is in a result twice stays one tensor, and an argument that is returned stays that."""

    def change(tensor: Any) -> Any:
        leaf = next(forms)
        if id(tensor) not in changed:
            changed[id(tensor)] = _laid(torch, tensor if tensor.dtype == leaf.dtype else tensor.to(leaf.dtype), leaf)
        return changed[id(tensor)]

    return structures.replace(result, change, is_leaf)


def returned(torch: Any, result: Any, given: Any) -> List[Optional[int]]:
    """Return for each tensor of a result which of a call's arguments it is; None for what it is not."""
    is_leaf = is_tensor(torch)
    numbers = {id(tensor): number for number, tensor in enumerate(structures.leaves(given, is_leaf))}
    return [numbers.get(id(tensor)) for tensor in structures.leaves(result, is_leaf)]


def borrowed(torch: Any, result: Any, given: List[Any], held: List[Any]) -> bool:
    """Tell whether a part of a result is memory of the arguments or the weights, and not an argument itself.

    A program that writes into it changes these. What comes from another module, or from other software, is not there.
    """
    memory = {_address(tensor) for tensor in (*given, *held)} - {None}
    arguments = set(map(id, given))
    leaves = structures.leaves(result, is_tensor(torch))
    return any(id(tensor) not in arguments and _address(tensor) in memory for tensor in leaves)


def overlapping(torch: Any, result: Any) -> bool:
    """Tell whether two tensors of a result have numbers in common: what a program writes to one is in the other."""
    together: Dict[Optional[int], List[Any]] = {}
    for tensor in {id(tensor): tensor for tensor in structures.leaves(result, is_tensor(torch))}.values():
        together.setdefault(_address(tensor), []).append(tensor)
    return any(len(tensors) > 1 and address and _overlap(torch, tensors) for address, tensors in together.items())


def _overlap(torch: Any, tensors: List[Any]) -> bool:
    first = tensors[0]
    taken = torch.zeros(first.untyped_storage().nbytes() // first.element_size(), dtype=torch.bool)
    for tensor in tensors:
        if tensor.element_size() != first.element_size() or 0 in tensor.stride():
            return True
        part = taken.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        if bool(part.any()):
            return True
        part.fill_(True)
    return False


def _address(tensor: Any) -> Optional[int]:
    """Return where the memory of a tensor begins; None where it has none of its own."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except (NotImplementedError, RuntimeError):  # a sparse one has several
        return None


def difference(torch: Any, default: Any, variant: Any) -> Tuple[Optional[float], Optional[str]]:
    """Return the largest relative difference of two results, and why they cannot be compared."""
    is_leaf = is_tensor(torch)
    try:
        first, second = structures.leaves(default, is_leaf), structures.leaves(variant, is_leaf)
        if form(torch, default).shape != form(torch, variant).shape or len(first) != len(second):
            return None, "the result has another structure"
    except structures.Unsupported as error:
        return None, str(error)
    if not first:
        return None, "the result holds no tensors to compare"
    largest = 0.0
    for left, other in zip(first, second):
        if left.shape != other.shape:
            return None, "a tensor of the result has another shape"
        value = _relative(torch, left, other)
        if not math.isfinite(value):
            return None, "the result holds values that are not finite"
        largest = max(largest, value)
    return largest, None


def _relative(torch: Any, left: Any, other: Any) -> float:
    if not left.numel():
        return 0.0
    with torch.no_grad():
        if left.is_complex() and other.is_complex():
            left, other = (torch.view_as_real(tensor.detach().resolve_conj()) for tensor in (left, other))
        if not left.is_floating_point() and not left.is_complex():
            return float((left != other).double().mean())
        # A mask of minus infinity, or of large numbers, is at the same elements in both, or the results differ.
        both = (left == other) & (left.abs() >= MASK)
        zero = torch.zeros((), dtype=torch.float32, device=left.device)
        a, b = (torch.where(both, zero, tensor.detach().float()) for tensor in (left, other))
        largest = float(torch.maximum(a.abs().max(), b.abs().max()))  # squares of others may be none, or infinite
        if not largest or not math.isfinite(largest):
            return largest and math.nan
        a, b = a / largest, b / largest
        norm = float(torch.linalg.vector_norm(a))
        distance = float(torch.linalg.vector_norm(a - b))
    if not math.isfinite(norm) or not math.isfinite(distance):
        return math.nan
    return distance / norm if norm else (0.0 if not distance else math.inf)


def rows(torch: Any, result: Any, part: Part) -> Any:
    """Return the first rows of a result; structures.Unsupported where its rows are not those of the arguments."""

    def change(tensor: Any) -> Any:
        if not batched(tensor.shape, part):
            raise structures.Unsupported("a tensor of the result has no row for each row of the arguments")
        return tensor[: part.rows]

    return structures.replace(result, change, is_tensor(torch))


class Whole(NamedTuple):
    """What the result of a whole call looks like."""

    form: Form
    sizes: List[Any]
    infinite: bool
    """Whether it may hold infinite values, as a mask does."""
    returned: List[Optional[int]]
    """Which arguments are in it."""


def whole(torch: Any, result: Any, given: Any = ()) -> Whole:
    """Return what a result of the default's looks like, of a call with the arguments ``given``."""
    tensors = structures.leaves(result, is_tensor(torch))
    infinite = any(bool(torch.isinf(tensor).any()) for tensor in tensors)
    sizes = [tuple(tensor.shape) for tensor in tensors]
    return Whole(form(torch, result), sizes, infinite, returned(torch, result, given))


def unsound(torch: Any, result: Any, wanted: Whole, given: Any = ()) -> Optional[str]:
    """Return why a result cannot be one, whatever its values should be; None where nothing speaks against it."""
    actual = form(torch, result)
    tensors = structures.leaves(result, is_tensor(torch))
    if actual.shape != wanted.form.shape or returned(torch, result, given) != wanted.returned:
        return "the result has another structure"
    if [tuple(tensor.shape) for tensor in tensors] != wanted.sizes:
        return "a tensor of the result has another shape"
    if [leaf.dtype for leaf in actual.leaves] != [leaf.dtype for leaf in wanted.form.leaves]:
        return "a tensor of the result has another number format"
    for tensor in tensors:
        finite = ~torch.isnan(tensor) if wanted.infinite else torch.isfinite(tensor)
        if not bool(finite.all()):
            return "the result holds values that are not finite"
    return None


def problem(value: Optional[float], reason: Optional[str], limit: float) -> Optional[str]:
    """Return why a variant's result is not acceptable; None when it is."""
    if reason is not None:
        return reason
    if value is None or not value <= limit:
        return "the result differs by {:.3g}, more than {:.3g}".format(math.nan if value is None else value, limit)
    return None


def equal(torch: Any, tensor: Any, other: Any) -> bool:
    """Tell whether two tensors hold the same values, those that are no numbers included."""
    if tensor.shape != other.shape:
        return False
    return bool(torch.equal(tensor, other)) or bool(((tensor == other) | ((tensor != tensor) & (other != other))).all())
