"""Small-sample statistics in log time, without a numerical library: a decision needs no more and starts at once."""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

_Block = TypeVar("_Block", bound=Hashable)

_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5% for 1 to 30 degrees of freedom."""
_T95 = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
    1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
)  # fmt: skip
"""The same at 95%."""


_NARROWEST = 1e-6
"""Half width in logs that estimates have at least where they are weighted."""
WIDEST = 150.0
"""Half width in logs that no interval exceeds, so that none of its ends is infinite."""
_LEAST_VARIANCE = 1e-5
"""Variance in logs that no sample is taken to be without: a standard deviation of 0.3 %. Job scripts read
/proc/uptime, which counts hundredths of a second."""
_WILDEST = 1e6
"""Standard deviation over mean beyond which nothing is known of a sample anyway."""
_FARTHEST = 500.0
"""Logarithm that no value exceeds, for the same reason."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    def widened(self, factor: float) -> "Interval":
        """Return the interval with both ends moved out by ``factor`` (1 or more)."""
        return Interval(self.value, self.low / factor, self.high * factor)


def t975(degrees: float) -> float:
    """Return Student's t at 97.5%; ``degrees`` below 1 count as 1, and a fraction is rounded down."""
    whole = max(1, math.floor(degrees))
    return _T975[whole - 1] if whole <= len(_T975) else 1.96 + 2.5 / whole


def t95(degrees: int) -> float:
    """Return Student's t at 95% for one or more degrees of freedom."""
    return _T95[degrees - 1] if degrees <= len(_T95) else 1.645 + 1.55 / degrees


def variance(values: Sequence[float]) -> float:
    """Return the variance of a sample of two or more; exact fractions, as in ``statistics``, are ten times slower."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


@dataclass(frozen=True)
class Moments:
    """A sample of seconds by what the intervals need of it: size, mean and variance of the logarithms."""

    count: int
    mean: float
    variance: float | None
    """None for a single value."""

    @classmethod
    def of_values(cls, seconds: Sequence[float]) -> "Moments":
        """Return the moments of ``seconds``, at least one value and all above zero."""
        logs = [math.log(s) for s in seconds]
        return cls(len(logs), statistics.fmean(logs), variance(logs) if len(logs) > 1 else None)

    @classmethod
    def of_parts(cls, parts: Sequence["Moments"]) -> "Moments":
        """Return the moments of several samples as one."""
        count = sum(part.count for part in parts)
        mean = math.fsum(part.mean * part.count for part in parts) / count
        squares = math.fsum(
            (part.variance or 0.0) * (part.count - 1) + part.count * (part.mean - mean) ** 2 for part in parts
        )
        return cls(count, mean, squares / (count - 1) if count > 1 else None)

    @classmethod
    def of_summary(cls, mean: float, deviation: float | None, count: int | None) -> "Moments":
        """Return the moments of a log-normal sample with this mean and standard deviation in seconds.

        A mean alone, which somebody thought good enough to publish, is taken to be good to 5%.
        """
        if deviation is None or count is None or count < 2:
            return cls(_MANY, math.log(mean), _MANY * (math.log(1.05) / 2) ** 2)
        variance = math.log1p(min(deviation / mean, _WILDEST) ** 2)
        return cls(count, math.log(mean) - variance / 2, variance)


_MANY = 30
_UNKNOWN_SPREAD = 2.0
"""Factor either way for a single value, whose spread nobody knows."""


def prediction_interval(sample: Moments) -> Interval:
    """Return the geometric mean of a sample and the interval in which one more run will lie."""
    if sample.variance is None:
        value = math.exp(sample.mean)
        return Interval(value, value / _UNKNOWN_SPREAD, value * _UNKNOWN_SPREAD)
    # As in ``ratio_interval``: the run after some that agree exactly does not.
    spread = max(sample.variance, _LEAST_VARIANCE) * (1 + 1 / sample.count)
    return _interval(sample.mean, t975(sample.count - 1) * math.sqrt(spread))


def ratio_interval(baseline: Moments, other: Moments) -> Interval:
    """Return the ratio baseline / other of two independent samples and the interval of its mean, by Welch in logs."""
    centre = baseline.mean - other.mean
    if baseline.variance is None or other.variance is None:
        return _interval(centre, math.log(_UNKNOWN_SPREAD))
    # Times that agree exactly were told in steps of a clock, or are few: the next one differs.
    va, vb = (
        max(part, _LEAST_VARIANCE) / count
        for part, count in ((baseline.variance, baseline.count), (other.variance, other.count))
    )
    degrees = (va + vb) ** 2 / (va**2 / (baseline.count - 1) + vb**2 / (other.count - 1))
    return _interval(centre, t975(degrees) * math.sqrt(va + vb))


def paired_ratio_interval(baseline: Mapping[_Block, float], other: Mapping[_Block, float]) -> Interval | None:
    """Return the ratio of two samples that were taken in common blocks; None with fewer than three blocks in common.

    What slows a whole block down, such as a neighbour on the machine, falls out of the ratio.
    """
    common = [block for block in baseline if block in other]
    if len(common) < 3:
        return None
    logs = [math.log(baseline[block]) - math.log(other[block]) for block in common]
    spread = max(variance(logs), 2 * _LEAST_VARIANCE)  # of a difference of two times
    return _interval(statistics.fmean(logs), t975(len(logs) - 1) * math.sqrt(spread / len(logs)))


def grouped_ratio_interval(
    baseline: Mapping[_Block, Sequence[float]], other: Mapping[_Block, Sequence[float]]
) -> Interval | None:
    """Return the ratio of two samples of which groups were taken side by side; None where that leaves no spread.

    What slows a whole group down falls out of the ratio, as by ``paired_ratio_interval``: logarithms are taken as the
    sum of what the group and what the sample makes of them, and what is left is the spread.
    """
    pairs = [
        (Moments.of_values(values), Moments.of_values(other[group]))
        for group, values in baseline.items()
        if values and other.get(group)
    ]
    degrees = sum(a.count + b.count - 1 for a, b in pairs) - 1
    if not pairs or degrees < 1:
        return None
    weights = [a.count * b.count / (a.count + b.count) for a, b in pairs]
    whole = math.fsum(weights)
    centre = math.fsum(w * (a.mean - b.mean) for w, (a, b) in zip(weights, pairs, strict=True)) / whole
    squares = math.fsum(w * (a.mean - b.mean - centre) ** 2 for w, (a, b) in zip(weights, pairs, strict=True))
    squares += math.fsum((part.variance or 0.0) * (part.count - 1) for pair in pairs for part in pair)
    return _interval(centre, t975(degrees) * math.sqrt(max(squares / degrees, _LEAST_VARIANCE) / whole))


def weighted(intervals: Sequence[Interval]) -> Interval:
    """Return the mean of independent estimates of one value, each weighted by the inverse square of its width in logs.

    Where they contradict each other, the interval is as wide as their disagreement asks for (Birge, "The Calculation of
    Errors by the Method of Least Squares", Phys. Rev. 40, 1932).
    """
    centres = [math.log(interval.value) for interval in intervals]
    halves = [max(math.log(interval.high / interval.low) / 2, _NARROWEST) for interval in intervals]
    weights = [half**-2 for half in halves]
    centre = math.fsum(w * c for w, c in zip(weights, centres, strict=True)) / math.fsum(weights)
    half = math.fsum(weights) ** -0.5
    if len(intervals) > 1:
        squares = math.fsum(w * (c - centre) ** 2 for w, c in zip(weights, centres, strict=True))
        half *= max(1.0, math.sqrt(squares / (len(intervals) - 1)))
    return _interval(centre, half)


def _interval(centre: float, half: float) -> Interval:
    centre, half = max(-_FARTHEST, min(centre, _FARTHEST)), min(half, WIDEST)
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half))
