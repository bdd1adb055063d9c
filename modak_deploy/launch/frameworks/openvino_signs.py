"""Whether a model of OpenVINO may lose what is not a number, where all that it is given is finite.

Many of the processor's kernels make a number of it (2026.4); with AVX-512, it is greater than all for Greater and
GreaterEqual. It comes of few operations, and only where these are given numbers that are zero, below it, or infinite,
as ``signs`` follows them.
"""

from typing import Any, Callable, Dict, List, Optional

from . import signs
from .signs import ANY, FINITE, HIGHEST, INFINITE, LOWEST, NEGATIVE, NONE, POSITIVE, ZERO

KEEPING = frozenset(
    ("Abs", "Add", "AvgPool", "Broadcast", "Ceiling", "Concat", "Constant", "Convert", "Convolution", "Cos", "CumSum",
     "Divide", "Elu", "Equal", "Erf", "Floor", "Gather", "GatherElements", "Gelu", "GroupConvolution", "HSwish",
     "Identity", "IsNaN", "Less", "LessEqual", "Log", "MVN", "MatMul", "Mish", "Multiply", "Negative", "NotEqual",
     "PRelu", "Power", "ReduceMean", "ReduceProd", "ReduceSum", "Reshape", "Result", "Reverse", "Round", "Select",
     "ShapeOf", "Sigmoid", "Sin", "Slice", "SoftPlus", "Split", "Sqrt", "Squeeze", "StridedSlice", "Subtract", "Swish",
     "Tanh", "Tile", "Transpose", "Unsqueeze", "VariadicSplit")
)  # fmt: skip
"""Operations whose results are no number where what they are given is none."""
BODIES = ("Loop", "TensorIterator")
Rule = Callable[[Any, List[int]], int]


def _finite(operation: Any, given: List[int]) -> int:
    others = any(kinds & ~FINITE for kinds in given)
    return FINITE | (INFINITE | NONE if others else 0)


def _inputs(*positions: int) -> Rule:
    """Numbers of some inputs and no others."""

    def rule(operation: Any, given: List[int]) -> int:
        result = 0
        for position in positions:
            result |= given[position] if position < len(given) else 0
        return result

    return rule


def _all(operation: Any, given: List[int]) -> int:
    result = 0
    for kinds in given:
        result |= kinds
    return result


def _of_first(function: Callable[[int], int]) -> Rule:
    return lambda operation, given: function(given[0])


def _of_two(function: Callable[[int, int], int]) -> Rule:
    return lambda operation, given: function(given[0], given[1])


def _bounded(kinds: int) -> Rule:
    return lambda operation, given: kinds | given[0] & NONE


def _subtracted(operation: Any, given: List[int]) -> int:
    return signs.added(given[0], signs.negated(given[1]))


def _multiplied(operation: Any, given: List[int]) -> int:
    values = [operation.input_value(number) for number in (0, 1)]
    nodes = [value.get_node() for value in values]
    if nodes[0].get_name() == nodes[1].get_name() and values[0].get_index() == values[1].get_index():
        return signs.powered(given[0], 2.0)
    products = signs.multiplied(given[0], given[1])
    constant = any(node.get_type_name() == "Constant" for node in nodes)
    return products & ~ZERO if constant and not (given[0] | given[1]) & ZERO else products


def _powered(operation: Any, given: List[int]) -> int:
    exponent = operation.input_value(1).get_node()
    if exponent.get_type_name() == "Constant" and exponent.data.size == 1:
        return signs.powered(given[0], float(exponent.data.ravel()[0]))
    above = not given[0] & ~(ZERO | POSITIVE) and not given[1] & ~FINITE
    return ZERO | POSITIVE | HIGHEST if above else ANY


def _clamped(operation: Any, given: List[int]) -> int:
    limits = operation.get_attributes()
    low, high = (signs.of_number(float(limits[name])) for name in ("min", "max"))
    return signs.smaller(signs.larger(given[0], low), high)


def _normed(operation: Any, given: List[int]) -> int:
    added = float(operation.get_attributes().get("eps", operation.get_attributes().get("epsilon", 0.0)))
    return _finite(operation, given) | (0 if added > 0 else NONE)


def _softmax(operation: Any, given: List[int]) -> int:
    return ZERO | POSITIVE | (NONE if given[0] & ~FINITE else 0)


def _remainder(operation: Any, given: List[int]) -> int:
    return FINITE if not given[0] & ~FINITE and given[1] in (NEGATIVE, POSITIVE) else FINITE | NONE


def _squared_difference(operation: Any, given: List[int]) -> int:
    return signs.powered(_subtracted(operation, given), 2.0)


def _not_negative(operation: Any, given: List[int]) -> int:
    return _finite(operation, given) & ~(LOWEST | NEGATIVE)


RULES: Dict[str, Rule] = {
    **dict.fromkeys(
        ("AdaptiveAvgPool", "AvgPool", "BatchNormInference", "Convolution", "ConvolutionBackpropData", "Cos",
         "CumSum", "DeformableConvolution", "Einsum", "EmbeddingBagOffsets", "EmbeddingBagOffsetsSum",
         "EmbeddingBagPacked", "EmbeddingBagPackedSum", "EmbeddingSegmentsSum", "GRUCell", "GRUSequence", "Gelu",
         "GridSample", "GroupConvolution", "GroupConvolutionBackpropData", "HSwish", "Interpolate", "LRN", "LSTMCell",
         "LSTMSequence", "MatMul", "Mish", "RNNCell", "RNNSequence", "ReduceProd", "ScaledDotProductAttention",
         "Sin", "Swish", "Tan"),
        _finite),
    **dict.fromkeys(
        ("AdaptiveMaxPool", "BatchToSpace", "Broadcast", "Convert", "ConvertLike", "DepthToSpace", "Gather",
         "GatherElements", "GatherND", "Identity", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Result", "Reverse",
         "ReverseSequence", "Roll", "ShuffleChannels", "Slice", "SpaceToBatch", "SpaceToDepth", "Split", "Squeeze",
         "StridedSlice", "Tile", "TopK", "Transpose", "Unsqueeze", "VariadicSplit"),
        _inputs(0)),
    **dict.fromkeys(
        ("ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "SliceScatter"), _inputs(0, 1, 2)),
    **dict.fromkeys(("Ceiling", "Floor", "Round"), lambda operation, given: given[0] | ZERO),
    **dict.fromkeys(("Elu", "PRelu", "Selu"), lambda operation, given: FINITE | given[0] & (INFINITE | NONE)),
    **dict.fromkeys(("Erf", "Sign", "Tanh", "Atan"), _bounded(FINITE)),
    **dict.fromkeys(("HSigmoid", "HardSigmoid", "Sigmoid"), _bounded(ZERO | POSITIVE)),
    **dict.fromkeys(("MVN", "GroupNormalization", "NormalizeL2", "RMS", "RMSNorm"), _normed),
    **dict.fromkeys(("ReduceL1", "ReduceL2"), _not_negative),
    **dict.fromkeys(("ReduceMean", "ReduceSum"), _of_first(signs.summed)),
    **dict.fromkeys(("FloorMod", "Mod"), _remainder),
    "Abs": _of_first(signs.absolute),
    "Add": _of_two(signs.added),
    "Clamp": _clamped,
    "Concat": _all,
    "Divide": _of_two(signs.divided),
    "Exp": _of_first(signs.exponentials),
    "Log": _of_first(signs.logarithms),
    "LogSoftmax": lambda operation, given: NEGATIVE | ZERO | (NONE if given[0] & ~FINITE else 0),
    "Maximum": _of_two(signs.larger),
    "Minimum": _of_two(signs.smaller),
    "Multiply": _multiplied,
    "Negative": _of_first(signs.negated),
    "OneHot": _inputs(2, 3),
    "Pad": _inputs(0, 3),
    "Power": _powered,
    "Relu": lambda operation, given: signs.larger(given[0], ZERO),
    "Select": _inputs(1, 2),
    "SoftPlus": lambda operation, given: ZERO | POSITIVE | given[0] & (HIGHEST | NONE),
    "Softmax": _softmax,
    "Sqrt": _of_first(signs.roots),
    "SquaredDifference": _squared_difference,
    "Subtract": _subtracted,
}  # fmt: skip
"""What each operation may make; of one that is not here, anything."""


def loses(model: Any) -> Optional[str]:
    """Return which operation may be given what is not a number, and make one of it; None where none is."""
    return _Followed(model).reason


class _Followed:
    """The kinds of numbers in a model whose parameters are finite."""

    def __init__(self, model: Any) -> None:
        self.reason: Optional[str] = None
        self._kinds: Dict[str, int] = {}
        self.results = 0
        for operation in model.get_ordered_ops():
            self._take(operation)

    def _take(self, operation: Any) -> None:
        kind = operation.get_type_name()
        given = [self._of(operation, number) for number in range(operation.get_input_size())]
        if kind == "If":
            self.reason = self.reason or "{} is not looked into".format(kind)
        whole = kind == "Convert" and not operation.output(0).get_element_type().is_real()
        if (whole or kind not in KEEPING) and any(kinds & NONE for kinds in given):
            self.reason = self.reason or "{} may be given what is not a number, and makes one of it".format(kind)
        made = 0
        if kind == "Parameter":
            made = FINITE
        elif kind == "Constant":
            made = of_constant(operation)
        elif operation.get_output_size():
            finite = kind in BODIES and not any(kinds & ~FINITE for kinds in given)
            if kind in BODIES and not finite:
                self.reason = self.reason or "{} is given numbers that are not finite".format(kind)
            made = self._within(operation) if finite else self._made(kind, operation, given)
        if kind == "Result":
            self.results |= given[0]
        self._kinds[operation.get_name()] = made

    def _made(self, kind: str, operation: Any, given: List[int]) -> int:
        rule = RULES.get(kind)
        made = ANY if rule is None else rule(operation, given)
        element = operation.output(0).get_element_type()
        if element.get_type_name() == "boolean":
            return ZERO | POSITIVE
        return made if element.is_real() else made & FINITE

    def _within(self, operation: Any) -> int:
        """Return the kinds of what the model within an operation makes, where it is given finite numbers."""
        body = _Followed(operation.get_function())
        self.reason = self.reason or body.reason
        return FINITE if not body.results & ~FINITE else ANY

    def _of(self, operation: Any, number: int) -> int:
        source = operation.input_value(number)
        kinds = self._kinds.get(source.get_node().get_name(), ANY)
        return kinds if source.get_element_type().is_real() else kinds & FINITE


def of_constant(operation: Any) -> int:
    """Return the kinds of a constant's numbers."""
    array = operation.data
    if array.dtype.kind not in "fiub" or operation.output(0).get_element_type().get_type_name() == "string":
        return ANY
    kinds = (ZERO if bool((array == 0).any()) else 0) | (POSITIVE if bool((array > 0).any()) else 0)
    kinds |= NEGATIVE if bool((array < 0).any()) else 0
    if array.dtype.kind != "f" or not array.size:
        return kinds
    kinds |= NONE if bool((array != array).any()) else 0
    if float("inf") in (-array.min(), array.max()):
        kinds |= (HIGHEST if array.max() == float("inf") else 0) | (LOWEST if array.min() == -float("inf") else 0)
    return kinds
