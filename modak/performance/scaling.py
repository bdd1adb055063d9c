"""How time changes with nodes, ranks and threads: several laws are fitted, and the one that foretells best is kept.

Every law is a sum of terms with coefficients that cannot be negative, so that it can be fitted exactly and neither
predicts a time below zero nor divides by one less than itself. Errors are relative: a long run counts as much as a
short one.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modak.performance.statistics import Interval, t975


@dataclass(frozen=True)
class Point:
    """One measured time, or a layout whose time is wanted."""

    nodes: int
    ranks: int
    threads: int = 1
    seconds: float = 0.0
    size: float = 1.0
    """Of the problem, in any unit that is the same for all points."""

    @property
    def workers(self) -> int:
        """Ranks times threads."""
        return self.ranks * self.threads


Terms = Callable[[Point], tuple[float, ...]]


def _amdahl(point: Point) -> tuple[float, ...]:
    """A serial part and one that is shared out; the size does not matter to the serial one."""
    return (point.size / point.workers, 1.0)


def _gustafson(point: Point) -> tuple[float, ...]:
    """The serial part grows with the size too, as it does when each worker brings its own share of the problem."""
    return (point.size / point.workers, 1.0, point.size)


def _usl(point: Point) -> tuple[float, ...]:
    """The universal scalability law: contention, and coherence that makes many workers slower than few."""
    n = point.workers
    return (point.size / n, (n - 1) / n, float(n - 1))


def _communication(point: Point) -> tuple[float, ...]:
    """Messages in a tree of ranks, and between neighbouring nodes."""
    surface = (point.size / point.ranks) ** (2 / 3) if point.ranks > 1 else 0.0
    return (point.size / point.workers, 1.0, math.log2(point.ranks), surface)


def _hybrid(point: Point) -> tuple[float, ...]:
    """A part that only ranks share out, one that threads share out too, and messages in a tree of ranks."""
    return (point.size / point.workers, point.size / point.ranks, 1.0, math.log2(point.ranks))


LAWS: Mapping[str, Terms] = {
    "Amdahl": _amdahl,
    "Gustafson": _gustafson,
    "USL": _usl,
    "communication": _communication,
    "hybrid": _hybrid,
}


@dataclass(frozen=True)
class ScaleModel:
    """A fitted law."""

    law: str
    coefficients: tuple[float, ...]
    error: float
    """Root mean square of the relative error at points that were held out; NaN for a law that was given."""
    points: int
    most: int
    """Workers at the largest measured point."""

    def seconds(self, point: Point) -> float:
        """Return the predicted seconds."""
        return _dot(self.coefficients, LAWS[self.law](point))

    def interval(self, point: Point) -> Interval:
        """Return the predicted seconds; the interval grows with each doubling beyond what was measured."""
        value = self.seconds(point)
        if math.isnan(self.error):
            return Interval(value, value / 2, value * 2)
        beyond = max(0.0, math.log2(point.workers / self.most))
        half = t975(self.points - len(self.coefficients)) * self.error * (1 + beyond)
        return Interval(value, value * math.exp(-half), value * math.exp(half))

    def efficiency(self, point: Point) -> float:
        """Return the parallel efficiency: time of one worker over workers times time of the point."""
        one = Point(nodes=1, ranks=1, threads=1, size=point.size)
        return self.seconds(one) / (point.workers * self.seconds(point))


def amdahl(parallel: float) -> ScaleModel:
    """Return Amdahl's law for a share of the work that can be spread, from 0 to 1; its seconds are relative."""
    return ScaleModel("Amdahl", (parallel, 1 - parallel), math.nan, 0, 1)


def fit_scale(points: Sequence[Point]) -> ScaleModel | None:
    """Return the law that foretells held-out points best; None with fewer than four points or three layouts.

    Of laws whose errors hardly differ the one with fewer terms is taken.
    """
    layouts = {(p.nodes, p.ranks, p.threads, p.size) for p in points}
    if len(points) < 4 or len(layouts) < 3:
        return None
    best: ScaleModel | None = None
    for law, terms in LAWS.items():
        width = len(terms(points[0]))
        if width >= len(layouts):
            continue
        error = _held_out(points, terms)
        coefficients = _fit(points, terms)
        if coefficients is None or error is None:
            continue
        found = ScaleModel(law, coefficients, error, len(points), max(p.workers for p in points))
        if best is None or error < 0.9 * best.error - 1e-9:
            best = found
    return best


def _held_out(points: Sequence[Point], terms: Terms) -> float | None:
    """Return the error at each layout in turn, predicted from all others."""
    squares: list[float] = []
    layouts = {(p.nodes, p.ranks, p.threads, p.size) for p in points}
    for layout in sorted(layouts):
        training = [p for p in points if (p.nodes, p.ranks, p.threads, p.size) != layout]
        coefficients = _fit(training, terms)
        if coefficients is None:
            return None
        for point in points:
            if (point.nodes, point.ranks, point.threads, point.size) == layout:
                squares.append((_dot(coefficients, terms(point)) / point.seconds - 1) ** 2)
    return math.sqrt(sum(squares) / len(squares))


def _fit(points: Sequence[Point], terms: Terms) -> tuple[float, ...] | None:
    """Return the coefficients, none negative, with the least relative error.

    With at most four terms every choice of those that are above zero can be tried.
    """
    rows = [tuple(value / p.seconds for value in terms(p)) for p in points]
    width = len(rows[0])
    best: tuple[float, tuple[float, ...]] | None = None
    for count in range(1, width + 1):
        for active in itertools.combinations(range(width), count):
            solved = _solve([[row[i] for i in active] for row in rows])
            if solved is None or min(solved) < 0:
                continue
            whole = [0.0] * width
            for i, value in zip(active, solved, strict=True):
                whole[i] = value
            error = sum((_dot(whole, row) - 1) ** 2 for row in rows)
            if best is None or error < best[0] * (1 - 1e-9):
                best = (error, tuple(whole))
    return best[1] if best else None


def _solve(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the least-squares solution of rows x = 1 by the normal equations; None when it is not determined."""
    width = len(rows[0])
    scale = [math.sqrt(sum(row[i] ** 2 for row in rows)) for i in range(width)]
    if min(scale) == 0:
        return None
    scaled = [[value / s for value, s in zip(row, scale, strict=True)] for row in rows]
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(width)] for i in range(width)]
    right = [sum(row[i] for row in scaled) for i in range(width)]
    for i in range(width):
        pivot = max(range(i, width), key=lambda r: abs(matrix[r][i]))
        if abs(matrix[pivot][i]) < 1e-10:
            return None
        matrix[i], matrix[pivot], right[i], right[pivot] = matrix[pivot], matrix[i], right[pivot], right[i]
        for r in range(i + 1, width):
            factor = matrix[r][i] / matrix[i][i]
            matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i], strict=True)]
            right[r] -= factor * right[i]
    solution = [0.0] * width
    for i in reversed(range(width)):
        rest = sum(matrix[i][j] * solution[j] for j in range(i + 1, width))
        solution[i] = (right[i] - rest) / matrix[i][i]
    return [value / s for value, s in zip(solution, scale, strict=True)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))
