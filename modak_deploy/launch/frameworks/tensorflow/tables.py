"""Which arguments of a graph are numbers of rows of its tables, or of classes, and which numbers these may be.

TensorFlow on processors refuses a number that a table has not; OpenVINO 2026.4 gives zeros for it, XLA some row.
"""

from typing import Any, Dict, List, Set

from ... import structures
from ..rows import Rows

GATHERS = ("ResourceGather", "GatherV2", "Gather")
"""Operations that take rows of a table by their numbers."""
CLASSES = ("SparseSoftmaxCrossEntropyWithLogits",)
"""Operations that take the numbers of classes."""
UNCERTAIN = ("ResourceGatherNd", "GatherNd")
"""Operations that take parts of a table by numbers of several dimensions."""
PASSED = ("Identity", "Reshape", "ExpandDims", "Squeeze", "Cast", "StopGradient", "EnsureShape", "Transpose")
"""Operations that leave numbers as they are."""
SHAPES = ("Shape", "ShapeN", "Size", "Rank")
"""Operations whose result says nothing of the numbers that they are given."""
PRODUCTS = ("Mul", "Square", "Pow", "Prod", "Cumprod", "LeftShift", "MatMul", "BatchMatMulV2")
"""Operations whose results are much larger than what they are given."""
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
    return paths.rows


def check_products(concrete: Any, given: List[Any]) -> None:
    """Raise Unsupported where arguments are multiplied as whole numbers of 64 bits, which need not fit into 32."""
    paths = _Paths({tensor.name for tensor in given})
    for operation in concrete.graph.get_operations():
        wide = operation.type in PRODUCTS and operation.outputs[0].dtype.name in ("int64", "uint64", "uint32")
        if wide and any(paths.depends(tensor) for tensor in operation.inputs):
            raise structures.Unsupported("it multiplies whole numbers, and OpenVINO does so in 32 bits")


def given_to(concrete: Any) -> List[Any]:
    """Return the tensors of a graph that stand for arguments, without those for variables and constants."""
    captured = {inner.name for _, inner in concrete.graph.captures}
    return [tensor for tensor in concrete.inputs if tensor.name not in captured]


class _Paths:
    """The ways from the arguments of a graph to numbers of rows."""

    def __init__(self, arguments: Set[str]) -> None:
        self._arguments = arguments
        self._depending: Dict[str, bool] = {}
        self.rows: Dict[str, Rows] = {}

    def depends(self, tensor: Any) -> bool:
        """Tell whether a tensor's numbers follow from those of an argument."""
        if tensor.name in self._arguments:
            return True
        if tensor.op.type in SHAPES:
            return False
        name = tensor.op.name
        if name not in self._depending:
            self._depending[name] = False  # of a loop of operations, which a traced function has none of
            self._depending[name] = any(self.depends(other) for other in tensor.op.inputs)
        return self._depending[name]

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
