"""Which arguments of a graph are numbers of rows of its tables, or of classes, and which numbers these may be.

TensorFlow on processors refuses a number that a table has not; OpenVINO 2026.4 gives zeros for it, XLA some row.
"""

import importlib
from typing import Any, Dict, FrozenSet, List, Optional, Set

from ... import structures
from ..rows import Rows

GATHERS = ("ResourceGather", "GatherV2", "Gather")
"""Operations that take rows of a table by their numbers."""
CLASSES = ("SparseSoftmaxCrossEntropyWithLogits",)
"""Operations that take the numbers of classes."""
UNCERTAIN = ("ResourceGatherNd", "GatherNd")
"""Operations that take parts of a table by numbers of several dimensions."""
POSITIONS = {
    "Bincount": 0, "CropAndResize": 2, "DenseBincount": 0, "DynamicStitch": 0, "InvertPermutation": 0, "LeftShift": 1,
    "Pow": 1, "ReverseSequence": 1, "RightShift": 1, "Slice": 1, "StridedSlice": 1, "Tile": 1,
}  # fmt: skip
"""Operations that TensorFlow refuses, or does in another way, for some positions in a tensor or other whole numbers,
and the input that has these."""
ITEMS = {"TensorListGetItem": 1, "TensorListSetItem": 1}
"""The same for lists, where the numbers are not those of a loop."""
CHANGED = {"ResourceScatter": 1, "ScatterNd": 0, "Segment": 1, "TensorScatter": 1, "UnsortedSegment": 1}
"""Beginnings of the names of operations that change or add up rows, and the input that has their numbers."""
PASSED = ("Identity", "Reshape", "ExpandDims", "Squeeze", "Cast", "StopGradient", "EnsureShape", "Transpose")
"""Operations that leave numbers as they are."""
SHAPES = ("Shape", "ShapeN", "Size", "Rank")
"""Operations whose result says nothing of the numbers that they are given."""
PRODUCTS = ("Mul", "Square", "Pow", "Prod", "Cumprod", "LeftShift", "MatMul", "BatchMatMulV2")
"""Operations whose results are much larger than what they are given."""
SUMS = (*PRODUCTS, "Add", "AddV2", "AddN", "Sub", "Neg", "Sum", "Cumsum")
ARITHMETIC = {PRODUCTS: ("int64", "uint64", "uint32"), SUMS: ("int8", "uint8", "int16", "uint16")}
"""Operations on whole numbers of some types, of whose results OpenVINO makes others where they do not fit."""
CHOICES = ("Select", "SelectV2")
EXACT_IN_FLOAT = 2**24


def numbered(tensorflow: Any, concrete: Any, given: List[Any]) -> Dict[str, Rows]:
    """Return the limits of arguments by their names; Unsupported where numbers of rows are computed."""
    definition = concrete.graph.as_graph_def()
    within = {node.op for function in definition.library.function for node in function.node_def}
    if within.intersection(GATHERS + UNCERTAIN):
        raise structures.Unsupported("rows of a table are taken in a function within the function")
    paths = _Paths({tensor.name for tensor in given})
    for operation in concrete.graph.get_operations():
        if operation.type in UNCERTAIN and paths.depends(operation.inputs[1]):
            raise structures.Unsupported("parts of a table are taken by numbers of several dimensions")
        if operation.type in GATHERS and paths.depends(operation.inputs[1]):
            paths.limit(operation.inputs[1], Rows(0, _rows(tensorflow, operation)))
        if operation.type in CLASSES and paths.depends(operation.inputs[1]):
            paths.limit(operation.inputs[1], Rows(0, _classes(operation)))
    _check_positions(concrete, paths)
    return paths.rows


def check_products(concrete: Any, given: List[Any]) -> None:
    """Raise Unsupported where whole numbers are computed of arguments that need not fit their type, or into 32 bits."""
    paths = _Paths({tensor.name for tensor in given})
    for operation in concrete.graph.get_operations():
        kinds = [
            kind
            for kind, types in ARITHMETIC.items()
            if operation.type in kind and operation.outputs[0].dtype.name in types
        ]
        if kinds and any(paths.depends(tensor) for tensor in operation.inputs):
            raise structures.Unsupported("it computes whole numbers that may not fit their type, or 32 bits")


def given_to(concrete: Any) -> List[Any]:
    """Return the tensors of a graph that stand for arguments, without those for variables and constants."""
    captured = {inner.name for _, inner in concrete.graph.captures}
    return [tensor for tensor in concrete.inputs if tensor.name not in captured]


def _check_positions(concrete: Any, paths: "_Paths") -> None:
    """Raise Unsupported where a tensor may not have a position, or numbers not fit the type of whole ones.

    TensorFlow refuses a position that a tensor has not; others take some other one, or leave it out. Of a number that
    does not fit, others make the nearest one that does, or zero.
    """
    for function in concrete.graph.as_graph_def().library.function:
        constant = {node.name for node in function.node_def if node.op == "Const"}
        for node in function.node_def:
            position = _position(node.op, node.attr) if node.op not in ITEMS else None
            if position is not None and node.input[position].partition(":")[0] not in constant:
                raise structures.Unsupported(
                    "positions are given in a function within the function ({})".format(node.op)
                )
    for operation in concrete.graph.get_operations():
        position = _position(operation.type, _Attributes(operation))
        if position is not None and not paths.limited(operation.inputs[position]):
            raise structures.Unsupported("positions follow from what it is given ({})".format(operation.type))
        if operation.type == "Cast" and not paths.fits(operation):
            raise structures.Unsupported("numbers become whole ones that they may not fit")


def _position(kind: str, attributes: Any) -> Optional[int]:
    """Return which input of an operation tells positions in another one; None where none does."""
    if kind == "StridedSlice" and not attributes["shrink_axis_mask"].i:
        return None  # beyond the end there is nothing, for all
    if kind == "Pow" and not importlib.import_module("tensorflow").dtypes.as_dtype(attributes["T"].type).is_integer:
        return None
    begins = [number for name, number in CHANGED.items() if kind.startswith(name)]
    return POSITIONS.get(kind, ITEMS.get(kind, begins[0] if begins else None))


class _Attributes:
    """An operation's attributes; TensorFlow writes all down where one is asked for."""

    def __init__(self, operation: Any) -> None:
        self._operation = operation

    def __getitem__(self, name: str) -> Any:
        return self._operation.node_def.attr[name]


class _Paths:
    """The ways from the arguments of a graph to numbers of rows."""

    def __init__(self, arguments: Set[str]) -> None:
        self._arguments = arguments
        self._sources: Dict[str, FrozenSet[str]] = {}
        self.rows: Dict[str, Rows] = {}

    def depends(self, tensor: Any) -> bool:
        """Tell whether a tensor's numbers follow from those of an argument."""
        return not self._arguments.isdisjoint(self.sources(tensor))

    def limited(self, tensor: Any) -> bool:
        """Tell whether a tensor's numbers follow from arguments with limits alone, or from none."""
        return self.sources(tensor) <= self.rows.keys()

    def fits(self, cast: Any) -> bool:
        """Tell whether what becomes a whole number is one already, has limits, or follows from nothing given."""
        source = cast.inputs[0]
        if not (source.dtype.is_floating and cast.outputs[0].dtype.is_integer):
            return True
        while source.op.type in PASSED and source.dtype.is_floating:
            source = source.op.inputs[0]
        return not source.dtype.is_floating or self.limited(source)

    def sources(self, tensor: Any) -> FrozenSet[str]:
        """Return the names of the arguments and variables that a tensor's numbers follow from."""
        if tensor.name not in self._sources:
            named: Set[str] = set()
            seen: Set[str] = set()
            pending = [tensor]
            while pending:
                current = pending.pop()
                if current.name in self._arguments or current.op.type == "Placeholder":
                    named.add(current.name)
                elif current.op.type not in SHAPES and current.op.name not in seen:
                    seen.add(current.op.name)
                    pending += current.op.inputs
            self._sources[tensor.name] = frozenset(named)
        return self._sources[tensor.name]

    def limit(self, tensor: Any, rows: Rows) -> None:
        """Note the limits of the arguments whose numbers a tensor has."""
        if tensor.name in self._arguments:
            self.rows[tensor.name] = rows.both(self.rows.get(tensor.name, rows))
        elif not self.depends(tensor):
            return
        elif tensor.op.type in PASSED and _is_exact(tensor.op, rows):
            self.limit(tensor.op.inputs[0], rows)
        elif tensor.op.type in CHOICES and self._counts_from_the_end(tensor.op):
            self.limit(tensor.op.inputs[2], Rows(-rows.end, rows.end))
        else:
            raise structures.Unsupported("rows of a table are taken by numbers that are computed")

    def _counts_from_the_end(self, operation: Any) -> bool:
        """Tell whether it is ``where(i < 0, i + n, i)``, as Keras has it in ``ops.take``."""
        negative, other, numbers = operation.inputs
        less = negative.op.type == "Less" and negative.op.inputs[0].name == numbers.name
        added = other.op.type in ("AddV2", "Add") and other.op.inputs[0].name == numbers.name
        return less and added and not any(self.depends(end.op.inputs[1]) for end in (negative, other))


def _is_exact(operation: Any, rows: Rows) -> bool:
    kinds = (operation.inputs[0].dtype, operation.outputs[0].dtype)
    small = any(kind.is_floating and kind.size < 4 for kind in kinds)
    return all(kind.is_integer for kind in kinds) or (not small and rows.end <= EXACT_IN_FLOAT)


def _classes(operation: Any) -> int:
    shape = operation.inputs[0].shape
    if not shape.rank or shape[-1] is None:
        raise structures.Unsupported("the number of classes is not known")
    return int(shape[-1])


def _rows(tensorflow: Any, operation: Any) -> int:
    """Return the rows of the table that an operation takes rows of; Unsupported where they are not known."""
    source, axis = operation.inputs[0], 0
    if operation.type == "GatherV2":
        value = tensorflow.get_static_value(operation.inputs[2])
        axis = -1 if value is None else int(value)
    shape = source.shape
    if source.dtype.name == "resource":
        captures = {inner.name: outer for outer, inner in operation.graph.captures}
        handle = captures.get(source.name)
        owners = [variable for variable in operation.graph.variables if variable.handle is handle]
        shape = owners[0].shape if owners else tensorflow.TensorShape(None)
    if axis != 0 or not shape.rank or shape[0] is None:
        raise structures.Unsupported("the rows of a table are not known")
    return int(shape[0])
