"""What a call of a jitted function consists of: the products in its jaxpr, which JAX keeps from the call itself.

A function's arguments do not tell weights from data, so neither parameters nor a batch are known.
"""

import math
from typing import Any, Dict, Iterator, Optional, Tuple

from ..operations import Tally

INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Parameters of an equation that hold the jaxpr of a function which it calls once, or ``length`` times (scan)."""
OPAQUE = ("attention", "callback", "custom_partitioning", "dot", "ffi_call", "pallas_call", "scaled_matmul")
"""Parts of the names of primitives that hold products which no jaxpr shows."""
UNCERTAIN = frozenset(("shard_map", "while", "cond"))
"""Primitives whose jaxpr is done as often as there are devices, or as values decide."""
Counted = Optional[Dict[str, Tuple[float, int]]]
"""Operations and products by kind; None where they are not certain."""


def features(function: Any, args: Any, kwargs: Any) -> Dict[str, Any]:
    """Return what a model of performance may want to know about a call; nothing where its work is not certain.

    ``function`` is what ``jax.jit`` returns; its method ``trace`` is there since JAX 0.4.29.
    """
    tally = Tally()
    for kind, (count, products) in (_counted(function.trace(*args, **kwargs).jaxpr.jaxpr, {}) or {}).items():
        tally.add(kind, count, products)
    return tally.features(None)


def _counted(jaxpr: Any, kept: Dict[int, Counted]) -> Counted:
    """Return the operations of a jaxpr; ``kept`` has those of its parts, which may be called many times."""
    if id(jaxpr) not in kept:
        kept[id(jaxpr)] = _sum(jaxpr, kept)
    return kept[id(jaxpr)]


def _sum(jaxpr: Any, kept: Dict[int, Counted]) -> Counted:
    total: Dict[str, Tuple[float, int]] = {}
    for equation in jaxpr.eqns:
        counts = _of(equation, kept)
        if counts is None:
            return None
        _add(total, counts, 1.0)
    return total


def _of(equation: Any, kept: Dict[int, Counted]) -> Counted:
    """Return the operations of an equation; those of gradients are done by no layers of their own."""
    counts = _products(equation, kept)
    if counts and "transpose(" in str(equation.source_info.name_stack):  # so JAX names them (0.4 to 0.10)
        return {kind: (count, 0) for kind, (count, _) in counts.items()}
    return counts


def _products(equation: Any, kept: Dict[int, Counted]) -> Counted:
    """Return the operations of an equation, and the products."""
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        return {"dense": (_dot(equation), 1)}
    if name == "conv_general_dilated":
        return {"convolution": (_convolution(equation), 1)}
    if any(part in name for part in OPAQUE):
        return None
    times = float(parameters.get("length", 1)) if name == "scan" else 1.0
    total: Dict[str, Tuple[float, int]] = {}
    for key, value in parameters.items():
        for inner in _jaxprs(value):
            counts = _counted(inner, kept)
            if counts is None or (counts and (name in UNCERTAIN or key not in INNER)):
                return None
            _add(total, counts, times)
    return total


def _add(total: Dict[str, Tuple[float, int]], counts: Dict[str, Tuple[float, int]], times: float) -> None:
    for kind, (count, products) in counts.items():
        before, layers = total.get(kind, (0.0, 0))
        total[kind] = (before + times * count, layers + products)


def _jaxprs(value: Any) -> Iterator[Any]:
    """Yield the jaxprs in a parameter."""
    for each in value if isinstance(value, (tuple, list)) else (value,):
        plain = _plain(each)
        if hasattr(plain, "eqns"):
            yield plain


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
