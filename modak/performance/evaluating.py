"""What a time model is worth: each workload is predicted by one that was fitted without it.

Regret is how much slower than the fastest measured configuration the chosen one is. Three ways of choosing are told
apart: modak's decision, which leaves the default only where the whole interval of the gain lies above 1; the model's
bare word, its least prediction; and the default.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from modak.performance.estimators import Row
from modak.performance.features import change
from modak.performance.timemodel import ANY, Held

LEVEL = 0.9
LONG = 100
"""Units of the long run that is judged beside the measured one, where the phases were told apart."""
_FEWEST = math.ceil(LEVEL / (1 - LEVEL))
"""Errors that an interval of this level takes."""


@dataclass(frozen=True)
class Told:
    """One row at one length, and the seconds that a model told which did not know the workload; None if it refused."""

    row: Row
    units: int
    seconds: float | None

    @property
    def measured(self) -> float:
        """The seconds that it took."""
        return self.row.at(self.units)


Widths = Mapping[str, tuple[float, float]]
"""How far the interval of a ratio reaches down and up in the logarithm, by what the two configurations differ in."""


def lengths(row: Row) -> tuple[int, ...]:
    """Return the lengths at which a row is judged."""
    return (row.units, LONG) if "start" in row.seconds and row.units != LONG else (row.units,)


def quantile(errors: Sequence[float], level: float) -> float:
    """Return the half width of the split-conformal interval: of n errors the ceil((n + 1) x level)-th smallest.

    With too few errors for the level it is the largest one.
    """
    if not errors:
        return 0.0
    ordered = sorted(abs(error) for error in errors)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * level)) - 1]


def errors_of(told: Sequence[Told]) -> list[float]:
    """Return the errors of the logarithm."""
    return [math.log(one.seconds / one.measured) for one in told if one.seconds is not None]


def _reach(errors: Sequence[float]) -> tuple[float, float]:
    """Return how far what was measured may lie below and above what is told: half of what is left to chance each."""
    down = sorted(max(0.0, error) for error in errors)
    up = sorted(max(0.0, -error) for error in errors)
    place = min(len(errors), math.ceil((len(errors) + 1) * (1 + LEVEL) / 2)) - 1
    return (down[place], up[place]) if errors else (0.0, 0.0)


def widths_of(told: Sequence[Told]) -> dict[str, tuple[float, float]]:
    """Return the widths of ratios, by what differs; where too few were measured, those of all stand in."""
    errors: dict[str, list[float]] = {}
    for group in _choices(told):
        base = next((one for one in group if one.row.default), None)
        for one in group:
            if base is not None and one is not base and base.seconds is not None and one.seconds is not None:
                error = math.log(base.seconds / one.seconds) - math.log(base.measured / one.measured)
                errors.setdefault(change(base.row.found, one.row.found), []).append(error)
    pooled = [error for some in errors.values() for error in some]
    found = {name: _reach(some) for name, some in sorted(errors.items()) if len(some) >= _FEWEST}
    return {ANY: _reach(pooled), **found}


def judge(told: Sequence[Told]) -> list[Held]:
    """Return how each workload was predicted at each length; its intervals are those that the others give."""
    held = []
    for workload, units in sorted({(one.row.workload, one.units) for one in told}):
        mine = [one for one in told if (one.row.workload, one.units) == (workload, units)]
        others = [one for one in told if one.row.workload != workload]
        known = [one for one in mine if one.seconds is not None]
        errors = errors_of(others)
        width = quantile(errors, LEVEL) if len(errors) >= _FEWEST else None
        inside = [abs(error) <= width for error in errors_of(mine)] if width is not None else []
        widths = widths_of(others)
        held.append(
            Held(
                workload=workload,
                units=units,
                records=len(mine),
                told=len(known),
                error=_mean([abs((one.seconds or 0.0) / one.measured - 1) for one in known]),
                coverage=_mean([float(one) for one in inside]),
                regret=_regret(mine, partial(decided, widths=widths)),
                regret_model=_regret(mine, fastest),
                regret_default=_regret(mine, _default),
            )
        )
    return held


def decided(group: Sequence[Told], widths: Widths) -> Told:
    """Return what modak would take: the greatest gain whose whole interval lies above 1, else the default."""
    base = _default(group)
    gains = [(_low(base, one, widths), one) for one in group if one is not base and one.seconds is not None]
    better = [one for low, one in gains if low > 0]
    return min(better, key=lambda one: one.seconds or math.inf) if better else base


def _low(base: Told, one: Told, widths: Widths) -> float:
    if base.seconds is None or one.seconds is None:
        return -math.inf
    down, _ = widths.get(change(base.row.found, one.row.found), widths[ANY])
    return math.log(base.seconds / one.seconds) - down


def _default(group: Sequence[Told]) -> Told:
    return next(one for one in group if one.row.default)


def fastest(group: Sequence[Told]) -> Told:
    """Return what the model's bare word would take."""
    known = [one for one in group if one.seconds is not None]
    return min(known, key=lambda one: one.seconds or math.inf) if known else _default(group)


def _choices(told: Sequence[Told]) -> list[list[Told]]:
    """Return what could be chosen among: the rows of a setting at one length."""
    groups: dict[tuple[str, int], list[Told]] = {}
    for one in told:
        groups.setdefault((one.row.setting, one.units), []).append(one)
    return [groups[key] for key in sorted(groups)]


def _regret(told: Sequence[Told], choose: Callable[[Sequence[Told]], Told]) -> float | None:
    """Return the mean over settings; None where there was nothing to choose."""
    groups = [group for group in _choices(told) if len(group) > 1 and any(one.row.default for one in group)]
    return _mean([choose(group).measured / min(one.measured for one in group) - 1 for group in groups])


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
