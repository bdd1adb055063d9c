"""What a call of a jitted function consists of: the products in its jaxpr, which JAX keeps from the call itself.

A function's arguments do not tell weights from data, so neither parameters nor a batch are known.
"""

import math
from typing import Any, Dict, Iterator, Optional, Tuple

from ..operations import Tally

INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Parameters of an equation that hold the jaxpr of a function which it calls once, or ``length`` times (scan)."""
BRANCHING = ("while", "cond")
"""Primitives whose work depends on values."""


def features(function: Any, args: Any, kwargs: Any) -> Dict[str, Any]:
    """Return what a model of performance may want to know about a call; nothing where its work is not certain.

    ``function`` is what ``jax.jit`` returns; its method ``trace`` is there since JAX 0.4.29.
    """
    tally = Tally()
    for kind, count in _products(function.trace(*args, **kwargs).jaxpr.jaxpr, 1):
        if kind is None:
            return {}
        tally.add(kind, count)
    return tally.features(None)


def _products(jaxpr: Any, times: int) -> Iterator[Tuple[Optional[str], float]]:
    """Yield the kind and the operations of each product; None for the kind of what cannot be counted."""
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "dot_general":
            yield "dense", times * _dot(equation)
        elif name == "conv_general_dilated":
            yield "convolution", times * _convolution(equation)
        elif name in BRANCHING:
            inner = [*parameters.get("branches", ()), parameters.get("body_jaxpr")]
            if any(next(_products(_plain(each), 1), None) for each in inner if each is not None):
                yield None, 0.0
        elif name == "pallas_call":
            yield None, 0.0
        else:
            repeated = times * int(parameters.get("length", 1)) if name == "scan" else times
            for key in INNER:
                if key in parameters:
                    yield from _products(_plain(parameters[key]), repeated)


def _plain(jaxpr: Any) -> Any:
    """Return a jaxpr without the constants that belong to it."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def _dot(equation: Any) -> float:
    (contracted, _), _ = equation.params["dimension_numbers"]
    shape = equation.invars[0].aval.shape
    return float(2 * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[axis] for axis in contracted))


def _convolution(equation: Any) -> float:
    """Two operations for each product of an output with an element of its kernel.

    Both gradients are convolutions: that of the kernel has a kernel as large as the outputs; that of the input has an
    input with zeros between its elements, which are not counted.
    """
    numbers, kernel = equation.params["dimension_numbers"], equation.invars[1].aval.shape
    outputs = math.prod(equation.outvars[0].aval.shape)
    each = math.prod(kernel) / kernel[numbers.rhs_spec[0]]
    zeros = math.prod(equation.params["lhs_dilation"])
    return float(2 * outputs * each / zeros)
