"""How far results differ, whatever the framework: they are compared as NumPy arrays."""

import math
from typing import Any, List, Optional, Tuple

TOLERANCE = {"": 1e-4, "fp16": 0.03, "bf16": 0.2}
"""Largest relative difference of outputs, by number format."""


def limit(levers: Any, stated: Optional[float]) -> float:
    """Return the largest difference that is acceptable with some levers on."""
    return max(TOLERANCE[getattr(lever, "format", "")] for lever in levers) if stated is None else stated


def difference(
    numpy: Any, first: List[Any], second: List[Any], largest_allowed: float
) -> Tuple[Optional[float], Optional[str]]:
    """Return the largest relative difference of two lists of arrays, and why it is not acceptable."""
    if not first or len(first) != len(second):
        return None, "the results cannot be compared"
    largest = 0.0
    for left, other in zip(first, second):
        if left.shape != other.shape or left.dtype != other.dtype:
            return None, "a result has another shape or type"
        if left.dtype.kind not in "fc":
            largest = max(largest, float((left != other).mean()) if left.size else 0.0)
            continue
        exact = left.astype(numpy.complex128 if left.dtype.kind == "c" else numpy.float64)
        norm = float(numpy.linalg.norm(exact.ravel()))
        distance = float(numpy.linalg.norm((exact - other).ravel()))
        if not math.isfinite(norm) or not math.isfinite(distance):
            return None, "the result holds values that are not finite"
        largest = max(largest, distance / norm if norm else math.inf if distance else 0.0)
    if largest > largest_allowed:
        return largest, "the result differs by {:.3g}, more than {:.3g}".format(largest, largest_allowed)
    return largest, None
