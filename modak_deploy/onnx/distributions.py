"""Stochastic models: whether two of them draw from the same distributions.

Each of up to 64 elements of an output is drawn 200 times from both models for the same input, and compared by the
two-sample Kolmogorov-Smirnov test at a level of 0.01 over all elements together (Bonferroni). The power is that of one
such test against a shift by half a standard deviation of a normal distribution, found by simulation. Elements that vary
in neither model are compared as those of any other model are.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from modak_deploy.onnx.arrays import Array, Arrays
from modak_deploy.onnx.compare import compare, same_shape
from modak_deploy.onnx.packages import require

TEST = "two-sample Kolmogorov-Smirnov, Bonferroni over elements"
DRAWS = 200
ELEMENTS = 64
LEVEL = 0.01
SHIFT = 0.5
Run = Callable[[Arrays], Arrays]


def compare_distributions(
    original: Run, converted: Run, inputs: Arrays, tolerances: Mapping[str, list[float]] | None = None
) -> list[dict[str, Any]]:
    """Return an entry of the manifest for each output."""
    first = [original(inputs) for _ in range(DRAWS)]
    second = [converted(inputs) for _ in range(DRAWS)]
    entries = []
    for name, array in first[0].items():
        if name not in second[0] or not same_shape(array, second[0][name]):
            entries.append({"name": name, "passed": False})
            continue
        a = np.stack([draw[name].reshape(-1) for draw in first]).astype(np.float64)
        b = np.stack([draw[name].reshape(-1) for draw in second]).astype(np.float64)
        varies = _varies(a) | _varies(b)
        constant = _constant(name, array, second[0][name].reshape(array.shape), ~varies)
        (difference,) = compare(*constant, tolerances)
        entry = difference.entry()
        entries.append(_tested(entry, a, b, np.flatnonzero(varies)) if varies.any() else entry)
    return entries


def _varies(draws: Array) -> Array:
    """Return which elements are not the same in all draws; one that is NaN in all of them is."""
    same = (draws == draws[0]) | (np.isnan(draws) & np.isnan(draws[0]))
    return np.asarray(~same.all(axis=0))


def _constant(name: str, expected: Array, actual: Array, constant: Array) -> tuple[Arrays, Arrays]:
    """Return both models' elements that vary in neither, of which there may be none; as one sample unless all are."""
    if constant.all():
        return {name: expected}, {name: actual}
    left, right = (values.reshape(-1)[constant].reshape(1, -1) for values in (expected, actual))
    return {name: left}, {name: right}


def _tested(entry: dict[str, Any], a: Array, b: Array, columns: Array) -> dict[str, Any]:
    """Return the entry of the constant elements with what the test says of those that vary, given by ``columns``."""
    if len(columns) > ELEMENTS:
        columns = np.sort(np.random.default_rng(0).choice(columns, ELEMENTS, replace=False))
    stats = require("scipy.stats", "scipy", purpose="the comparison of distributions")
    results = [stats.ks_2samp(*_ranks(a[:, column], b[:, column])) for column in columns]
    worst = min(results, key=lambda result: float(result.pvalue))
    corrected = min(1.0, float(worst.pvalue) * len(columns))
    return {
        **entry,
        "top1_agreement": None,  # of rows, which the constant elements alone are not
        "statistic": float(worst.statistic),
        "p_value": corrected,
        "power": power(len(columns)),
        "nan_original": int(np.isnan(a).sum()),
        "nan_converted": int(np.isnan(b).sum()),
        "passed": entry["passed"] and corrected >= LEVEL,
    }


def _ranks(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the values' places in the order of all, NaN behind the others: SciPy's p-value is NaN where a value is.

    The test looks at the order alone, so that ranks say the same as values.
    """
    ranks = np.unique(np.concatenate([a, b]), return_inverse=True)[1]
    return ranks[: len(a)], ranks[len(a) :]


def power(elements: int, *, rounds: int = 200) -> float:
    """Return the probability that a shift of one element by ``SHIFT`` standard deviations is seen."""
    stats = require("scipy.stats", "scipy", purpose="the comparison of distributions")
    generator = np.random.default_rng(0)
    seen = 0
    for _ in range(rounds):
        a, b = generator.standard_normal(DRAWS), generator.standard_normal(DRAWS) + SHIFT
        seen += float(stats.ks_2samp(a, b, method="asymp").pvalue) * elements < LEVEL
    return seen / rounds
