"""What a call of a tf.function consists of: the products in its graph, by the shapes that TensorFlow found for them.

The graph of a training step holds its gradients too, so nothing is multiplied for them; they are no layers.
"""

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..operations import Tally

UNKNOWN = (
    "Case",
    "Conv",
    "CudnnRNN",
    "Dot",
    "Einsum",
    "GRU",
    "LSTM",
    "MatMul",
    "NextIteration",
    "PyFunc",
    "RemoteCall",
    "XlaLaunch",
)
"""Parts of the names of operations that hold products of their own: what has one and no formula is not looked into."""


def features(concrete: Any) -> Dict[str, Any]:
    """Return what a model of performance may want to know about a call of a concrete function.

    The batch is the first axis of the first argument that has axes and is no variable. Operations are left out where
    some are not certain.
    """
    described: Dict[str, Any] = {}
    batch = _batch(concrete)
    if batch is not None:
        described["batch"] = batch
    trained = [variable for variable in concrete.variables if variable.trainable]
    parameters = sum(int(variable.shape.num_elements() or 0) for variable in trained)
    if parameters:
        described["parameters"] = parameters
    tally = Tally()
    for operation in _done(concrete.graph):
        counted = _COUNTED.get(operation.type)
        if counted is None:
            if _calls(operation) or any(part in operation.type for part in UNKNOWN):
                return described
            continue
        kind, formula = counted
        count = formula(operation)
        if count is None:
            return described
        tally.add(kind, count, 0 if _of_gradient(operation) else 1)
    return {**described, **tally.features(batch)}


def _calls(operation: Any) -> bool:
    """Return whether an operation calls functions: a branch, a loop, a call, the map of a data set."""
    return any(value.HasField("func") or value.list.func for value in operation.node_def.attr.values())


def _of_gradient(operation: Any) -> bool:
    """Tell whether an operation belongs to a gradient, which TensorFlow makes in a scope of its own.

    A tape's is ``gradient_tape`` (tensorflow/python/eager/backprop.py, 2.3 to 2.21), those of ``tf.gradients`` have the
    names of the operations whose gradient it is.
    """
    *scopes, _ = operation.name.split("/")
    return any(scope == "gradient_tape" or scope.endswith("_grad") for scope in scopes)


def _done(graph: Any) -> List[Any]:
    """Return the operations that a call does: TensorFlow leaves out those that nothing depends on."""
    pending = [*(tensor.op for tensor in graph.outputs), *graph.control_outputs]
    done: Dict[str, Any] = {}
    while pending:
        operation = pending.pop()
        if operation.name not in done:
            done[operation.name] = operation
            pending += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return list(done.values())


def _batch(concrete: Any) -> Optional[int]:
    captured = len(concrete.captured_inputs)
    given = concrete.inputs[: len(concrete.inputs) - captured] if captured else concrete.inputs
    for tensor in given:
        if tensor.dtype.name != "resource" and tensor.shape.rank:
            first = tensor.shape[0]
            return int(first) if first else None
    return None


def _shapes(*tensors: Any) -> Optional[List[Tuple[int, ...]]]:
    shapes = [tensor.shape for tensor in tensors]
    return [tuple(shape.as_list()) for shape in shapes] if all(s.is_fully_defined() for s in shapes) else None


def _product(operation: Any) -> Optional[float]:
    shapes = _shapes(operation.inputs[0], operation.outputs[0])
    if shapes is None:
        return None
    names = ("transpose_a", "adj_x")
    turned = any(operation.get_attr(name) for name in names if name in operation.node_def.attr)
    return 2.0 * math.prod(shapes[1]) * shapes[0][-2 if turned else -1]


def _einsum(operation: Any) -> Optional[float]:
    """Two operations for each combination of indices, as if the operands were multiplied in one go."""
    equation = operation.get_attr("equation").decode()
    shapes = _shapes(*operation.inputs)
    if shapes is None or "." in equation:
        return None
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    sizes = {letter: size for term, shape in zip(terms, shapes) for letter, size in zip(term, shape)}
    return 2.0 * math.prod(sizes.values()) if len(terms) == 2 else None


def _convolution(kernel: Callable[[Any], Any], result: Callable[[Any], Any], depthwise: bool = False) -> Any:
    """Return the formula of a convolution, or of a gradient of one: ``result`` is what the forward one has put out."""

    def formula(operation: Any) -> Optional[float]:
        shapes = _shapes(kernel(operation), result(operation))
        if shapes is None:
            return None
        weights, outputs = shapes
        each = math.prod(weights[:2]) if depthwise else math.prod(weights[:-1])
        return 2.0 * math.prod(outputs) * each

    return formula


def _forward(depthwise: bool = False) -> Any:
    return _convolution(lambda operation: operation.inputs[1], lambda operation: operation.outputs[0], depthwise)


def _of_input(depthwise: bool = False) -> Any:
    return _convolution(lambda operation: operation.inputs[1], lambda operation: operation.inputs[2], depthwise)


def _of_kernel(depthwise: bool = False) -> Any:
    return _convolution(lambda operation: operation.outputs[0], lambda operation: operation.inputs[2], depthwise)


_COUNTED: Dict[str, Tuple[str, Callable[[Any], Optional[float]]]] = {
    "Einsum": ("dense", _einsum),
    "MatMul": ("dense", _product),
    "BatchMatMul": ("dense", _product),
    "BatchMatMulV2": ("dense", _product),
    "BatchMatMulV3": ("dense", _product),
    "Conv2D": ("convolution", _forward()),
    "Conv2DBackpropFilter": ("convolution", _of_kernel()),
    "Conv2DBackpropInput": ("convolution", _of_input()),
    "Conv3D": ("convolution", _forward()),
    "Conv3DBackpropFilterV2": ("convolution", _of_kernel()),
    "Conv3DBackpropInputV2": ("convolution", _of_input()),
    "DepthwiseConv2dNative": ("convolution", _forward(depthwise=True)),
    "DepthwiseConv2dNativeBackpropFilter": ("convolution", _of_kernel(depthwise=True)),
    "DepthwiseConv2dNativeBackpropInput": ("convolution", _of_input(depthwise=True)),
}
