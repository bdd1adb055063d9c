"""What OpenVINO does in another way than ONNX Runtime where numbers are what they seldom are.

A number of a row that a table has not is refused by ONNX Runtime, and gives zeros in OpenVINO 2026.4: which inputs are
such numbers, and which they may be, is told here. Whole numbers that do not fit their type wrap around in ONNX Runtime;
OpenVINO computes them in 32 bits or in single precision, and takes the nearest one that fits.
"""

from typing import Any, Dict, FrozenSet, List, Optional

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
COMPUTED: FrozenSet[str] = frozenset(("",))
"""Stands for numbers that are computed from those of inputs; others have the names of the inputs that hold them."""
NONE: FrozenSet[str] = frozenset()


def limits(model: Any) -> Dict[str, Rows]:
    """Return the limits of inputs by their names; ValueError where numbers of rows are computed."""
    rows: Dict[str, Rows] = {}
    sources: Dict[str, FrozenSet[str]] = {}
    for operation in model.get_ordered_ops():
        kind = operation.get_type_name()
        given = [sources.get(_node(operation, number), NONE) for number in range(operation.get_input_size())]
        if kind == "Parameter":
            sources[operation.get_name()] = frozenset(operation.output(0).get_names())
            continue
        if kind == GATHER and given[1]:
            _limit(rows, given[1], _count(operation))
        elif any(given) and wraps(operation, kind):
            raise ValueError("the model computes whole numbers that may not fit their type")
        elif (kind in UNCERTAIN and given[1]) or (kind in WITHIN and any(given)):
            raise ValueError("the model takes parts of tables by numbers of its inputs")
        sources[operation.get_name()] = _result(kind, given)
    return rows


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


def _limit(rows: Dict[str, Rows], names: FrozenSet[str], count: Optional[int]) -> None:
    if names == COMPUTED or count is None:
        raise ValueError("the model takes rows of a table by numbers that are computed")
    limit = Rows(-count, count)
    for name in names:
        rows[name] = limit.both(rows.get(name, limit))


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
