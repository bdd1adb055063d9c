"""What a Keras model consists of: weights, layers, and operations for one sample, by the shapes of its layers.

The shapes are those that Keras itself gives for a built model; a layer whose output has none of its own, as in a model
whose ``call`` is Python, counts with its weights only.
"""

import math
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..operations import BACKWARD, attention, shares

RECURRENT = ("LSTM", "GRU", "SimpleRNN")


def features(model: Any, training: bool) -> Dict[str, Any]:
    """Return what a model of performance may want to know about a built model."""
    operations: Dict[str, float] = {}
    layers = 0
    complete = True
    for layer in _layers(model):
        counted = _operations(layer)
        for kind, count, products in counted:
            operations[kind] = operations.get(kind, 0.0) + count
            layers += products
        if counted:
            continue
        if type(layer).__name__ != "Embedding" and any(len(weight.shape) > 1 for weight in layer.weights):
            complete = False  # as of Bidirectional, SeparableConv2D, or a layer that is called several times
    described: Dict[str, Any] = {"model": type(model).__name__, "parameters": int(model.count_params())}
    total = sum(operations.values())
    if total and complete:
        described.update(layers=layers, flops_per_sample=total * (BACKWARD if training else 1))
        described.update(shares(operations))
    return described


def _layers(model: Any) -> Iterator[Any]:
    """Yield the layers of a model, those of the models in it included."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from _layers(layer)
        else:
            yield layer


def _operations(layer: Any) -> List[Tuple[str, float, int]]:
    """Return the kinds of a layer, its operations for one sample and its products; none where its shape is not known.

    The four dense layers around an attention count as such, as those of other frameworks do; its keys are taken to be
    as many as its queries, for the order of a layer's inputs does not tell which are which.
    """
    name = type(layer).__name__
    given, result = _shape(layer, "input"), _shape(layer, "output")
    if name in RECURRENT and given is not None:
        cell = layer.cell
        return [("recurrent", 2.0 * given[0] * (_size(cell.kernel) + _size(cell.recurrent_kernel)), 1)]
    if name == "MultiHeadAttention" and result is not None:
        length = result[0]
        inner = attention(layer.num_heads * length, length, layer.key_dim, layer.value_dim)
        return [("dense", 2.0 * length * layer.count_params(), 4), ("attention", inner, 1)]
    kernel = getattr(layer, "kernel", None)
    if kernel is None or result is None:
        return []
    if "Conv" in name:
        first = getattr(layer, "data_format", None) == "channels_first"
        positions = (given or result) if "Transpose" in name else result
        return [("convolution", 2.0 * _size(kernel) * math.prod(positions[1:] if first else positions[:-1]), 1)]
    return [("dense", 2.0 * _size(kernel) * math.prod(result[:-1]), 1)]


def _size(weight: Any) -> int:
    return math.prod(int(number) for number in weight.shape)


def _shape(layer: Any, end: str) -> Optional[Tuple[int, ...]]:
    """Return the shape of one sample at a layer's input or output; None where it has none or it is not fixed."""
    try:
        shape = tuple(getattr(layer, end).shape)[1:]
    except (AttributeError, TypeError, ValueError):  # called several times, never, or with several tensors
        return None
    return tuple(int(number) for number in shape) if shape and None not in shape else None
