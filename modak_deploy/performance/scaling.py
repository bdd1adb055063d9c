"""How time changes with nodes, ranks and threads: the laws that foretell held-out layouts are averaged."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from modak_deploy.performance.laws import LAWS, Point, fit, unknowns, value
from modak_deploy.performance.statistics import Interval, t95, t975

__all__ = ["LAWS", "Fitted", "Point", "ScaleModel", "amdahl", "fit_scale"]
SPARE = 2
"""Layouts that must be there beyond the coefficients of a law."""
_WORST = 0.3
"""Relative error at held-out layouts from which on a law says nothing of a series."""
_BESIDE = 1.5
"""How many times the error of the best law another one may have, to be averaged with it."""
_LEAST = 0.01
"""Relative error that no prediction is without, so that of two laws that fit exactly neither gets all the weight."""


_SHORTEST = 1e-100
"""Seconds whose reciprocal can still be squared."""


@dataclass(frozen=True)
class Fitted:
    """One law with its coefficients."""

    law: str
    coefficients: tuple[float, ...]
    error: float
    """Root mean square of the relative error at layouts that were held out; NaN for a law that was given."""
    weight: float = 1.0

    def seconds(self, point: Point) -> float:
        """Return the predicted seconds."""
        return value(self.law, self.coefficients, point)


@dataclass(frozen=True)
class ScaleModel:
    """Laws that were fitted to one series of runs, the one with the greatest weight first."""

    laws: tuple[Fitted, ...]
    points: int
    """Runs that they were fitted to."""
    layouts: int
    most: int
    """Workers at the largest measured point."""
    least: int = 1
    """Workers at the smallest one."""
    several_nodes: bool = True
    """Whether runs on more than one node are among them."""
    measured: Mapping[tuple[int, int, int, float], float] = field(default_factory=dict)
    """Median seconds of each measured layout: nodes, ranks, threads and size."""

    @property
    def law(self) -> str:
        """Names of the laws."""
        return " and ".join(fitted.law for fitted in self.laws)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Those of the first law."""
        return self.laws[0].coefficients

    @property
    def error(self) -> float:
        """Relative error at layouts that were held out; NaN for a law that was given."""
        return math.sqrt(sum(fitted.weight * fitted.error**2 for fitted in self.laws))

    def seconds(self, point: Point) -> float:
        """Return the predicted seconds: the mean of the laws."""
        return sum(fitted.weight * fitted.seconds(point) for fitted in self.laws)

    def expected(self, point: Point) -> float:
        """Return the median seconds of a measured layout, the predicted ones of another."""
        return self.measured.get(_layout(point), self.seconds(point))

    def interval(self, point: Point, *, level: float = 0.95) -> Interval:
        """Return the predicted seconds; the interval grows with each doubling or halving beyond what was measured.

        That counts for the workers and for the size of the problem. It also grows by twice as much as the laws differ
        there, and where several nodes are asked about and one was measured. ``level`` is 0.95 or 0.9.
        """
        mean = self.seconds(point)
        if math.isnan(self.error) or mean <= 0:
            return Interval(mean, mean / 2, mean * 2)
        spread = sum(f.weight * math.log(max(f.seconds(point), 1e-300) / mean) ** 2 for f in self.laws)
        beyond = max(0.0, math.log2(point.workers / self.most), math.log2(self.least / point.workers))
        beyond += float(point.nodes > 1 and not self.several_nodes)
        sizes = [size for _, _, _, size in self.measured] or [point.size]
        beyond += max(0.0, math.log2(point.size / max(sizes)), math.log2(min(sizes) / point.size))
        degrees = self.layouts - max(unknown_count(fitted) for fitted in self.laws)
        factor = t975(degrees) if level > 0.9 else t95(degrees)
        apart = _APART * math.sqrt(spread)
        error = self.error + _BEYOND * max(self.error, _LEAST) * beyond
        half = min(factor * math.hypot(error, apart), _MOST_WIDTH)
        return Interval(mean, mean * math.exp(-half), mean * math.exp(half))

    def efficiency(self, point: Point) -> float:
        """Return the parallel efficiency: time of one worker over workers times time of the point.

        Where both were measured, it is the measured one.
        """
        serial = Point(nodes=1, ranks=1, threads=1, size=point.size)
        times = [self.measured.get(_layout(p)) for p in (serial, point)]
        if times[0] is not None and times[1] is not None:
            return times[0] / (point.workers * times[1])
        return self.seconds(serial) / (point.workers * self.seconds(point))


_BEYOND, _APART = 2.0, 2.0
"""How many times the held-out error each doubling beyond adds, and how many times the difference of the laws counts.

Each beginning of the series of the design, of four layouts or more, foretold up to twice its largest number of workers.
With 1 and 1, 81% of that lay in the 90% interval, each series counting alike, and 85% in the 95% one; with these, 90
and 92%.
"""
_MOST_WIDTH = 20.0
"""Of the logarithm, so that no end of an interval is infinite."""


def unknown_count(fitted: Fitted) -> int:
    """Return how many coefficients of a law are at work."""
    return max(1, sum(1 for coefficient in fitted.coefficients if coefficient))


def amdahl(parallel: float, size: float = 1.0) -> ScaleModel:
    """Return Amdahl's law for a share of the work that can be spread, from 0 to 1; its seconds are relative.

    The share is that of a problem of ``size``: how a larger one is divided nobody says.
    """
    return ScaleModel((Fitted("Amdahl", (parallel / size, 1 - parallel), math.nan),), points=0, layouts=0, most=1)


def fit_scale(points: Sequence[Point]) -> ScaleModel | None:
    """Return the laws that foretell held-out layouts, averaged; None where none does.

    A law needs two layouts more than it has coefficients, which are at least four. Runs of one layout count as one, by
    their median, so that one that was disturbed does not bend the laws. A law is left out where its error is large, or
    much larger than that of the best; where one with fewer coefficients predicts the same; and where it leaves nothing
    for one worker to do, as one of messages alone does, with which efficiencies are compared.
    """
    middle = _medians(points)
    if len(middle) < 4:
        return None
    fitted: list[Fitted] = []
    for law in LAWS:
        count = unknowns(law, middle)
        if count is None or count + SPARE > len(middle):
            continue
        error, coefficients = _held_out(law, middle), fit(law, middle)
        if error is None or coefficients is None or error > _WORST:
            continue
        if all(value(law, coefficients, Point(1, 1, size=p.size)) > 0 for p in middle):
            fitted.append(Fitted(law, coefficients, error))
    if not fitted:
        return None
    best = min(item.error for item in fitted)
    kept: list[Fitted] = []
    for item in fitted:
        near = item.error <= max(_BESIDE * best, _LEAST)
        if near and not any(_is_same(item, other, middle) for other in kept):
            kept.append(item)
    shares = [1 / (item.error**2 + _LEAST**2) for item in kept]
    weighted = [replace(item, weight=share / sum(shares)) for item, share in zip(kept, shares, strict=True)]
    return ScaleModel(
        laws=tuple(sorted(weighted, key=lambda item: -item.weight)),
        points=len(points),
        layouts=len(middle),
        most=max(p.workers for p in middle),
        least=min(p.workers for p in middle),
        several_nodes=any(p.nodes > 1 for p in middle),
        measured={_layout(p): p.seconds for p in middle},
    )


def _layout(point: Point) -> tuple[int, int, int, float]:
    return (point.nodes, point.ranks, point.threads, point.size)


def _medians(points: Sequence[Point]) -> list[Point]:
    """Return one point for each layout, in a stable order."""
    groups: dict[tuple[int, int, int, float], list[float]] = {}
    for point in points:
        groups.setdefault(_layout(point), []).append(point.seconds)
    return [
        Point(nodes, ranks, threads, max(statistics.median(groups[nodes, ranks, threads, size]), _SHORTEST), size)
        for nodes, ranks, threads, size in sorted(groups)
    ]


def _is_same(item: Fitted, other: Fitted, points: Sequence[Point]) -> bool:
    """Tell whether two laws predict the same, at what was measured and four times beyond."""
    most = max(points, key=lambda point: point.workers)
    far = Point(4 * most.nodes, 4 * most.ranks, most.threads, 0.0, most.size)
    return all(math.isclose(item.seconds(p), other.seconds(p), rel_tol=1e-6) for p in [*points, far])


def _held_out(law: str, points: Sequence[Point]) -> float | None:
    """Return the error at each layout in turn, predicted from all others, and from those with fewer workers.

    The second is what a law is asked for most: how the series goes on. One layout that no law foretells, as a disturbed
    run is, does not decide which law is best: an error counts for no more than three times the median one.
    """
    errors: list[float] = []
    fewer = [([other for other in points if other.workers < point.workers], point) for point in points]
    others = [([other for other in points if other is not point], point) for point in points]
    for training, point in [*others, *(pair for pair in fewer if len(pair[0]) >= len(points) - SPARE)]:
        coefficients = fit(law, training)
        if coefficients is None:
            return None
        errors.append(abs(value(law, coefficients, point) / point.seconds - 1))
    most = 3 * statistics.median(errors) + _LEAST
    return math.sqrt(statistics.fmean(min(error, most) ** 2 for error in errors))
