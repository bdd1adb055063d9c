"""Laws of scaling: how the time of a run follows from nodes, ranks, threads and the size of the problem.

All but the power law are sums of terms with coefficients that cannot be negative, so that they can be fitted exactly
and neither predict a time below zero nor divide by one less than itself. Errors are relative: a long run counts as much
as a short one. The systems have at most four unknowns, and the module is imported by every decision:
scipy.optimize.nnls would do the same, and takes longer to import than the decision takes.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


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


def _network(point: Point) -> tuple[float, ...]:
    """Amdahl's law with a step where the ranks no longer fit on one node, and messages go over the network."""
    return (point.size / point.workers, 1.0, float(point.nodes > 1))


def _bandwidth(point: Point) -> tuple[float, ...]:
    """A part that the workers of a node do not share out, since its memory is as fast for one as for all."""
    return (point.size / point.workers, point.size / point.nodes, 1.0)


def _power(point: Point) -> tuple[float, ...]:
    """A power of the workers and of the size; its terms are those of the logarithm."""
    return (1.0, math.log(point.workers), math.log(point.size))


POWER = "power law"
LAWS: Mapping[str, Terms] = {
    "Amdahl": _amdahl,
    POWER: _power,
    "Gustafson": _gustafson,
    "USL": _usl,
    "network": _network,
    "bandwidth": _bandwidth,
    "communication": _communication,
    "hybrid": _hybrid,
}
"""Those with fewer terms first."""


def value(law: str, coefficients: Sequence[float], point: Point) -> float:
    """Return the seconds that a law gives."""
    total = dot(coefficients, LAWS[law](point))
    return math.exp(min(total, 700.0)) if law == POWER else total


def unknowns(law: str, points: Sequence[Point]) -> int | None:
    """Return how many coefficients the points can tell; None where they cannot tell two of them apart.

    Where all runs were on one node, say, a part that nodes share out looks like one that nobody does.
    """
    rows = [LAWS[law](point) for point in points]
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    if any(_parallel(column, other) for column, other in itertools.combinations(columns, 2)):
        return None
    return len(columns)


def _parallel(column: Sequence[float], other: Sequence[float]) -> bool:
    product = dot(column, other) ** 2
    return math.isclose(product, dot(column, column) * dot(other, other), rel_tol=1e-12)


def fit(law: str, points: Sequence[Point]) -> tuple[float, ...] | None:
    """Return the coefficients with the least relative error; None where the points do not determine them.

    Of six points or more one that lies far off all others between them, as a disturbed run does, is left out. The first
    and the last are not: where a series bends, they are the ones that tell.
    """
    coefficients = _fit_all(law, points)
    if coefficients is None or len(points) < _ENOUGH_TO_DOUBT:
        return coefficients
    ends = min(p.workers for p in points), max(p.workers for p in points)
    inner = [point for point in points if point.workers not in ends]
    worst = max(inner, key=lambda point: _error(law, coefficients, point), default=None)
    without = None if worst is None else _fit_all(law, [point for point in points if point is not worst])
    if worst is None or without is None:
        return coefficients
    usual = statistics.median(_error(law, without, point) for point in points if point is not worst)
    tight = usual <= _TIGHT
    return without if tight and _error(law, without, worst) > _FAR * usual + _TIGHT else coefficients


_ENOUGH_TO_DOUBT = 6
_FAR, _TIGHT = 5.0, 0.03
"""A point is left out where its error is so many times the usual one, and so much more, and the usual one small."""


def _error(law: str, coefficients: Sequence[float], point: Point) -> float:
    return abs(math.log(max(value(law, coefficients, point), 1e-300) / point.seconds))


def _fit_all(law: str, points: Sequence[Point]) -> tuple[float, ...] | None:
    """Return the coefficients by Huber's weights: what is off by more than twice the usual error counts less."""
    weights = [1.0] * len(points)
    coefficients: tuple[float, ...] | None = None
    for _ in range(3 if len(points) > 4 else 1):
        coefficients = _fit_power(points, weights) if law == POWER else _fit_sum(points, LAWS[law], weights)
        if coefficients is None:
            return None
        errors = [_error(law, coefficients, point) for point in points]
        limit = 2 * 1.4826 * statistics.median(errors) + 0.01
        weights = [min(1.0, limit / error) if error else 1.0 for error in errors]
    return coefficients


def _fit_power(points: Sequence[Point], weights: Sequence[float]) -> tuple[float, ...] | None:
    rows = [[math.sqrt(w) * term for term in _power(p)] for p, w in zip(points, weights, strict=True)]
    right = [math.sqrt(w) * math.log(p.seconds) for p, w in zip(points, weights, strict=True)]
    active = [i for i in range(3) if any(row[i] for row in rows)]
    solved = _solve([[row[i] for i in active] for row in rows], right)
    if solved is None:
        return None
    whole = [0.0, 0.0, 0.0]
    for i, coefficient in zip(active, solved, strict=True):
        whole[i] = coefficient
    whole[1] = max(whole[1], -1.1)  # who halves the time by less than twice the workers has measured something else
    return tuple(whole)


def _fit_sum(points: Sequence[Point], terms: Terms, weights: Sequence[float]) -> tuple[float, ...] | None:
    """Return the coefficients, none negative; with at most four terms every choice of those above zero can be tried."""
    rows = [[math.sqrt(w) * term / p.seconds for term in terms(p)] for p, w in zip(points, weights, strict=True)]
    right = [math.sqrt(w) for w in weights]
    width = len(rows[0])
    best: tuple[float, tuple[float, ...]] | None = None
    for count in range(1, width + 1):
        for active in itertools.combinations(range(width), count):
            solved = _solve([[row[i] for i in active] for row in rows], right)
            if solved is None or min(solved) < 0:
                continue
            whole = [0.0] * width
            for i, coefficient in zip(active, solved, strict=True):
                whole[i] = coefficient
            error = sum((dot(whole, row) - value) ** 2 for row, value in zip(rows, right, strict=True))
            if best is None or error < best[0] * (1 - 1e-9):
                best = (error, tuple(whole))
    return best[1] if best else None


def _solve(rows: Sequence[Sequence[float]], right: Sequence[float]) -> list[float] | None:
    """Return the least-squares solution of rows x = right by the normal equations; None when it is not determined."""
    width = len(rows[0])
    scale = [math.sqrt(sum(row[i] ** 2 for row in rows)) for i in range(width)]
    if min(scale) == 0:
        return None
    scaled = [[term / s for term, s in zip(row, scale, strict=True)] for row in rows]
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(width)] for i in range(width)]
    sums = [sum(row[i] * value for row, value in zip(scaled, right, strict=True)) for i in range(width)]
    for i in range(width):
        pivot = max(range(i, width), key=lambda r: abs(matrix[r][i]))
        if abs(matrix[pivot][i]) < 1e-10:
            return None
        matrix[i], matrix[pivot], sums[i], sums[pivot] = matrix[pivot], matrix[i], sums[pivot], sums[i]
        for r in range(i + 1, width):
            factor = matrix[r][i] / matrix[i][i]
            matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i], strict=True)]
            sums[r] -= factor * sums[i]
    solution = [0.0] * width
    for i in reversed(range(width)):
        rest = sum(matrix[i][j] * solution[j] for j in range(i + 1, width))
        solution[i] = (sums[i] - rest) / matrix[i][i]
    return [term / s for term, s in zip(solution, scale, strict=True)]


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the sum of products."""
    return sum(x * y for x, y in zip(a, b, strict=True))
