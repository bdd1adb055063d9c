"""Stochastic models: whether two of them draw from the same distributions.

Each of up to 64 elements of an output is drawn 200 times from both models for the same input, and compared by the
two-sample Kolmogorov-Smirnov test at a level of 0.01 over all elements together (Bonferroni). The power is that of one
such test against a shift by half a standard deviation of a normal distribution, found by simulation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from modak_deploy.onnx.arrays import Array, Arrays
from modak_deploy.onnx.compare import compare
from modak_deploy.onnx.packages import require

TEST = "two-sample Kolmogorov-Smirnov, Bonferroni over elements"
DRAWS = 200
ELEMENTS = 64
LEVEL = 0.01
SHIFT = 0.5
Run = Callable[[Arrays], Arrays]


def compare_distributions(original: Run, converted: Run, inputs: Arrays) -> list[dict[str, Any]]:
    """Return an entry of the manifest for each output."""
    first = [original(inputs) for _ in range(DRAWS)]
    second = [converted(inputs) for _ in range(DRAWS)]
    entries = []
    for name in first[0]:
        if name not in second[0] or first[0][name].size != second[0][name].size:
            entries.append({"name": name, "passed": False})
            continue
        a = np.stack([draw[name].reshape(-1) for draw in first]).astype(np.float64)
        b = np.stack([draw[name].reshape(-1) for draw in second]).astype(np.float64)
        entries.append(_entry(name, a, b, first[0][name].shape))
    return entries


def _entry(name: str, a: Array, b: Array, shape: tuple[int, ...]) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    columns = np.arange(a.shape[1])
    if len(columns) > ELEMENTS:
        columns = np.sort(generator.choice(columns, ELEMENTS, replace=False))
    moving = [column for column in columns if np.ptp(a[:, column]) > 0 or np.ptp(b[:, column]) > 0]
    if not moving:
        # Neither varies: what is the same in every draw is compared as it is for any model.
        left, right = ({name: draws[0].reshape(shape).astype(np.float32)} for draws in (a, b))
        return compare(left, right)[0].entry()
    stats = require("scipy.stats", "scipy", purpose="the comparison of distributions")
    results = [stats.ks_2samp(a[:, column], b[:, column]) for column in moving]
    worst = min(results, key=lambda result: float(result.pvalue))
    corrected = min(1.0, float(worst.pvalue) * len(moving))
    return {
        "name": name,
        "statistic": float(worst.statistic),
        "p_value": corrected,
        "power": power(len(moving)),
        "nan_original": int(np.isnan(a).sum()),
        "nan_converted": int(np.isnan(b).sum()),
        "passed": corrected >= LEVEL,
    }


def power(elements: int, *, rounds: int = 200) -> float:
    """Return the probability that a shift of one element by ``SHIFT`` standard deviations is seen."""
    stats = require("scipy.stats", "scipy", purpose="the comparison of distributions")
    generator = np.random.default_rng(0)
    seen = 0
    for _ in range(rounds):
        a, b = generator.standard_normal(DRAWS), generator.standard_normal(DRAWS) + SHIFT
        seen += float(stats.ks_2samp(a, b, method="asymp").pvalue) * elements < LEVEL
    return seen / rounds
