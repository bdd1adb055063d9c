"""What OpenVINO does in another way than ONNX Runtime where numbers are what they seldom are.

A number of a row that a table has not is refused by ONNX Runtime, and gives zeros in OpenVINO 2026.4: which inputs are
such numbers, and which they may be, is told here. Whole numbers that do not fit their type wrap around in ONNX Runtime;
OpenVINO computes them in 32 bits or in single precision, and takes the nearest one that fits. So it does with
constants, and it compares whole numbers in single precision. Lengths that a sequence has not are refused by ONNX
Runtime as well.
"""

from typing import Any, Dict, FrozenSet, List, Optional

from .openvino_cpu import LARGEST
from .rows import Rows

GATHER = "Gather"
"""Takes rows of its first input by the numbers in its second one; its third one is the axis."""
UNCERTAIN = ("GatherElements", "GatherND", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate")
"""Operations that take or change parts of their first input by the numbers in their second one, in other ways."""
PASSED = ("Convert", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "StridedSlice", "Slice", "Broadcast", "Split")
"""Operations whose result holds numbers of their first input and no others."""
SHAPES = "ShapeOf"
WITHIN = ("If", "Loop", "TensorIterator")
"""Operations that hold models of their own."""
ARITHMETIC = {
    "8u 8i 16u 16i": ("Add", "Subtract", "Multiply", "Power", "BitwiseLeftShift"),
    "32u 32i 64u 64i": ("Multiply", "Divide", "Mod", "FloorMod", "Power", "BitwiseLeftShift"),
}
"""Operations on whole numbers of some bits, unsigned and signed, whose results may be others."""
COMPARING = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
TAKING = ("Add", "Concat", "Gather", "GatherElements", "GatherND", "Maximum", "Minimum", "Select", "Subtract")
"""Operations whose results hold constants, or sums of these, where those of inputs say so."""
CONSTANTS = "the model has constants of whole numbers that OpenVINO makes others of"
LENGTHS = {"GRUSequence": 2, "LSTMSequence": 3, "RNNSequence": 2, "ReverseSequence": 1}
"""Operations on sequences, and the input that has their lengths."""
COMPUTED: FrozenSet[str] = frozenset(("",))
"""Stands for numbers that are computed from those of inputs; others have the names of the inputs that hold them."""
NONE: FrozenSet[str] = frozenset()


def limits(model: Any) -> Dict[str, Rows]:
    """Return the limits of inputs by their names; ValueError where numbers of rows are computed."""
    check_constants(model)
    rows: Dict[str, Rows] = {}
    sources: Dict[str, FrozenSet[str]] = {}
    for operation in model.get_ordered_ops():
        kind = operation.get_type_name()
        given = [sources.get(_node(operation, number), NONE) for number in range(operation.get_input_size())]
        if kind == "Parameter":
            sources[operation.get_name()] = frozenset(operation.output(0).get_names())
            continue
        if kind == GATHER and given[1]:
            count = _count(operation)
            _limit(rows, given[1], count, -(count or 0))
        elif kind in LENGTHS and given[LENGTHS[kind]]:
            _limit(rows, given[LENGTHS[kind]], _longest(operation, kind), 0)
        elif any(given) and wraps(operation, kind):
            raise ValueError("the model computes whole numbers that may not fit their type")
        elif (kind in UNCERTAIN and given[1]) or (kind in WITHIN and any(given)):
            raise ValueError("the model takes parts of tables by numbers of its inputs")
        sources[operation.get_name()] = _result(kind, given)
    return rows


def check_constants(model: Any) -> None:
    """Raise ValueError for a model with constants of whole numbers, among those of inputs, of which others are made."""
    sources: Dict[str, FrozenSet[str]] = {}
    for operation in model.get_ordered_ops():
        kind = operation.get_type_name()
        given = [sources.get(_node(operation, number), NONE) for number in range(operation.get_input_size())]
        if any(given) and inexact(operation, kind):
            raise ValueError(CONSTANTS)
        sources[operation.get_name()] = COMPUTED if kind == "Parameter" else _result(kind, given)


def wraps(operation: Any, kind: str) -> bool:
    """Tell whether the result of an operation may be too large for its type."""
    bits = _bits(operation.output(0))
    if kind == "Convert" and "f" in _bits(operation.input(0)):
        return bits in ("64i", "64u", "32u")  # computed in 32 bits
    return any(bits in types.split() and kind in kinds for types, kinds in ARITHMETIC.items())


def _bits(end: Any) -> str:
    """Return the type of an input or output: its bits, and whether it is signed, unsigned or floating point."""
    element = str(end.get_element_type().get_type_name())
    return element[1:] + element[:1]


def _result(kind: str, given: List[FrozenSet[str]]) -> FrozenSet[str]:
    """Return whose numbers the result of an operation has."""
    if kind == SHAPES or not any(given):
        return NONE
    if kind in PASSED or (kind == GATHER and not given[1]):
        return given[0]
    if kind == "Concat" and COMPUTED not in given:
        return NONE.union(*given)
    return COMPUTED


def _limit(rows: Dict[str, Rows], names: FrozenSet[str], end: Optional[int], first: int) -> None:
    if names == COMPUTED or end is None:
        raise ValueError("the model takes rows of a table, or of a sequence, by numbers that are computed")
    limit = Rows(first, end)
    for name in names:
        rows[name] = limit.both(rows.get(name, limit))


def _longest(operation: Any, kind: str) -> Optional[int]:
    """Return the end of the lengths that the sequences of an operation may have; None where that is not known."""
    axis = int(operation.get_attributes()["seq_axis"]) if kind == "ReverseSequence" else 1
    size = operation.input_value(0).get_partial_shape()[axis]
    return None if size.is_dynamic else int(size.get_length()) + 1


def inexact(operation: Any, kind: str) -> bool:
    """Tell whether an operation is given a constant of whole numbers of which OpenVINO makes others."""
    largest = LARGEST if kind in COMPARING else 2**31 - 1 if kind in TAKING else None
    if largest is None:
        return False
    return any(
        _bits(operation.input(number)) in ("32i", "32u", "64i", "64u")
        and _exceeds(operation.input_value(number), largest)
        for number in range(operation.get_input_size())
    )


def _exceeds(value: Any, largest: int) -> bool:
    node = value.get_node()
    while node.get_type_name() in PASSED:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant" or not node.data.size or node.data.dtype.kind not in "iu":
        return False
    return bool(node.data.max() > largest or node.data.min() < -largest)


def _count(gather: Any) -> Optional[int]:
    """Return how many rows a table has; None where that is not known."""
    axis = gather.input_value(2).get_node()
    shape = gather.input_value(0).get_partial_shape()
    if axis.get_type_name() != "Constant" or shape.rank.is_dynamic:
        return None
    size = shape[int(axis.data.ravel()[0])]
    return None if size.is_dynamic else int(size.get_length())


def _node(operation: Any, number: int) -> str:
    return str(operation.input_value(number).get_node().get_name())
