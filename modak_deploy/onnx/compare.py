"""Outputs of the original model against those of the converted one, element by element."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from modak_deploy.onnx.arrays import Array, Arrays

# |a - b| <= absolute + relative * |b|, and a little more where |b| is small: see _floor. float32: 2**-23 is 1.2e-7, and
# sums of 10**4 terms in another order differ in the last 3 digits of 7; float16 has 11 bits, bfloat16 has 8.
TOLERANCE: Mapping[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-7),
    "float32": (1e-5, 1e-4),
    "float16": (1e-3, 1e-2),
    "bfloat16": (1e-2, 8e-2),
}
_ROUNDING = 64
"""Rounding errors that a value may have gathered, in units of its last place."""
_TYPICAL = 0.1
"""Part of an output's positions that may usually be smaller than the value whose tolerance no small one exceeds."""


@dataclass
class Difference:
    """One output; the fields are those of the manifest's ``OutputComparison``."""

    name: str
    passed: bool
    max_absolute: float | None = None
    max_relative: float | None = None
    top1_agreement: float | None = None
    nan_original: int = 0
    nan_converted: int = 0
    tolerance: dict[str, float] | None = None
    problem: str | None = field(default=None, repr=False)
    """What is wrong, in a sentence; not part of the manifest."""
    warning: str | None = field(default=None, repr=False)
    """What the comparison cannot say; not part of the manifest's entry."""

    def entry(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        return {key: value for key, value in asdict(self).items() if key not in ("problem", "warning")}


def tolerance_of(
    dtype: str, given: Mapping[str, list[float]] | None = None, *, other: str | None = None
) -> tuple[float, float]:
    """Return absolute and relative tolerance of a type, of the coarser where the two models' types differ."""
    candidates = [name for name in (dtype, other) if name is not None]
    results = []
    for name in candidates:
        if given and name in given:
            results.append((given[name][0], given[name][1]))
        else:
            results.append(TOLERANCE.get(name, (0.0, 0.0)))
    return max(results)


def compare(
    original: Arrays, converted: Arrays, tolerances: Mapping[str, list[float]] | None = None
) -> list[Difference]:
    """Return the difference of each output; an output that one of them lacks did not pass."""
    results = []
    for name, expected in original.items():
        if name not in converted:
            results.append(Difference(name, passed=False, problem="output not found in the converted model"))
        else:
            results.append(_difference(name, expected, converted[name], tolerances or {}))
    return results


def _difference(name: str, expected: Array, actual: Array, tolerances: Mapping[str, list[float]]) -> Difference:
    if expected.shape != actual.shape and same_shape(expected, actual):
        actual = actual.reshape(expected.shape)  # skl2onnx gives a regressor's output an axis more
    if expected.shape != actual.shape:
        problem = f"its shape is {list(actual.shape)} in place of {list(expected.shape)}"
        return Difference(name, passed=False, problem=problem)
    if not expected.size:
        return Difference(name, passed=True, warning=f"output '{name}' is empty: nothing was compared")
    if expected.dtype.kind not in "fV" or actual.dtype.kind not in "fV":
        return _exact(name, expected, actual)
    absolute, relative = tolerance_of(expected.dtype.name, tolerances, other=actual.dtype.name)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    permitted = np.zeros(b.shape)
    if expected.dtype.name not in tolerances and actual.dtype.name not in tolerances:
        coarser = min(expected.dtype, actual.dtype, key=lambda t: t.itemsize)
        absolute, relative = _narrowed(absolute, relative, b, coarser)
        permitted = _floor(b, relative, _ROUNDING * float(np.finfo(coarser).eps) if coarser.kind == "f" else relative)
    permitted = absolute + np.maximum(relative * np.where(np.isfinite(b), np.abs(b), 0.0), permitted)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(a == b, 0.0, np.abs(a - b))
        gap = np.where(nan_a & nan_b, 0.0, gap)
        scaled = np.where(gap == 0, 0.0, gap / np.abs(b))
    wrong = ~(gap <= permitted) | (nan_a != nan_b)
    result = Difference(
        name,
        passed=not wrong.any(),
        max_absolute=_largest(gap),
        max_relative=_largest(scaled),
        top1_agreement=_top1(a, b),
        nan_original=int(nan_b.sum()),
        nan_converted=int(nan_a.sum()),
        tolerance={"absolute": absolute, "relative": relative},
    )
    spread = float(b.std(axis=0).max()) if b.ndim and len(b) > 1 and np.isfinite(b).all() else None
    if spread is not None and spread / 10 < absolute + relative * float(np.abs(b).max()):
        result.warning = f"output '{name}' differs by only {spread:.2g} between the samples: the comparison says little"
    if wrong.any():
        result.problem = _problem(wrong, nan_a, nan_b, gap, result)
    return result


def _floor(values: Array, relative: float, rounding: float) -> Array:
    """Return what every value of a sample may differ by, however small it is; an array that fits ``values``.

    A value near 0 is what is left of terms as large as those of the others, and has their rounding errors: of AlexNet's
    outputs, of 6 in the mean square, those near 0 differ by 3e-5 between two processors' ways to sum. So a sample's
    values may differ by the rounding errors of its median. Positions may have units of their own, coordinates beside
    a score: no value may differ by more than one that nine tenths of the positions usually exceed.
    """
    if values.ndim < 2 or not values.size:
        return np.zeros(values.shape)
    sizes = np.ma.masked_array(np.abs(values), ~np.isfinite(values) | _fills(values))
    median: Any = np.ma.median  # which has no type
    of_positions = median(sizes, axis=0).compressed()
    if not of_positions.size:
        return np.zeros(values.shape)
    usual = np.quantile(of_positions, _TYPICAL, method="lower")
    of_samples = median(sizes.reshape(len(values), -1), axis=1).filled(0.0)
    floor = np.minimum(relative * usual, min(rounding, relative) * of_samples)
    return np.asarray(floor).reshape(-1, *[1] * (values.ndim - 1))


def _fills(values: Array) -> Array:
    """Return where the least or the largest value is, if there are several of it: masked or clipped, not computed."""
    fills = np.zeros(values.shape, bool)
    finite = values[np.isfinite(values)]
    for extreme in (finite.min(), finite.max()) if finite.size else ():
        same = values == extreme
        fills |= same & (same.sum() > 1)
    return fills


def _narrowed(absolute: float, relative: float, values: Array, dtype: Any) -> tuple[float, float]:
    """Return the tolerance, no wider than a hundredth of what samples differ by, nor narrower than rounding.

    The outputs of a network whose signals have faded are nearly constant, and a tolerance of their size passes any.
    """
    if dtype.kind != "f" or values.ndim == 0 or len(values) < 2:
        return absolute, relative
    finite = np.ma.masked_invalid(values)
    largest = float(np.ma.filled(np.abs(finite).max(), 0.0))
    spread = float(np.ma.filled(finite.std(axis=0).max(), 0.0))
    limit = max(spread / 100, _ROUNDING * float(np.finfo(dtype).eps) * largest)
    return (min(absolute, limit), min(relative, limit / largest)) if largest else (absolute, relative)


def _problem(wrong: Array, nan_a: Array, nan_b: Array, gap: Array, result: Difference) -> str:
    if (nan_a != nan_b).any():
        return f"{int(nan_a.sum())} values are NaN, and {int(nan_b.sum())} of the original"
    assert result.tolerance is not None  # noqa: S101
    return (
        f"{int(wrong.sum())} of {wrong.size} values differ by more than {result.tolerance['absolute']:g} + "
        f"{result.tolerance['relative']:g} x value, by {np.nanmax(gap):.3g} at most"
    )


def _exact(name: str, expected: Array, actual: Array) -> Difference:
    if expected.dtype.kind in "OUS" or actual.dtype.kind in "OUS":
        wrong = expected.astype(str) != actual.astype(str)
        result = Difference(name, passed=not wrong.any())
    else:
        wrong = expected != actual
        gap = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
        result = Difference(name, passed=not wrong.any(), max_absolute=_largest(gap))
    if expected.ndim <= 2 and expected.size:
        result.top1_agreement = float(1 - wrong.mean())
    if wrong.any():
        result.problem = f"{int(wrong.sum())} of {wrong.size} values are not equal"
    return result


def same_shape(expected: Array, actual: Array) -> bool:
    """Return whether two arrays have one shape but for axes of one element."""
    left, right = ([size for size in array.shape if size != 1] for array in (expected, actual))
    return left == right


def close(expected: Array, actual: Array, tolerance: float) -> bool:
    """Return whether two results are equal up to ``tolerance`` of each value, and of the largest or 1 if that is less.

    A number alone would let through any result of a model whose outputs are all small, such as probabilities of a
    thousand classes.
    """
    if expected.shape != actual.shape or expected.dtype.kind not in "fc":
        return bool(np.array_equal(expected, actual))
    largest = np.abs(expected, where=np.isfinite(expected), out=np.zeros(expected.shape)).max(initial=0.0)
    return bool(np.allclose(actual, expected, rtol=tolerance, atol=tolerance * min(1.0, largest), equal_nan=True))


def _largest(values: Array) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else None


def _top1(a: Array, b: Array) -> float | None:
    """Return the share of rows with the largest value at the same place; None where a row has one value."""
    if a.ndim < 2 or a.shape[-1] < 2:
        return None
    safe = [np.where(np.isnan(x), -np.inf, x).argmax(axis=-1) for x in (a, b)]
    return float((safe[0] == safe[1]).mean())
