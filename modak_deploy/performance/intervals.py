"""Intervals of the time model, from how far it erred on workloads that it was not fitted with."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from modak_deploy.performance.estimators import Row
from modak_deploy.performance.features import change, difference
from modak_deploy.performance.statistics import t95
from modak_deploy.performance.timemodel import ANY

LEVEL = 0.9
"""Share of the times, and of the ratios, that an interval is meant to hold."""
LONG = 100
"""Units of the long run that is judged beside the measured one, where the phases were told apart."""
ENDLESS = 1_000_000
"""Units at which a row is judged of which units alone are known: no start counts in so many."""
_FEWEST = 3
"""Workloads that an interval of its own takes."""
UNTESTED = math.log(1000)
"""Half width of what was never told of a workload held out: how far that errs nobody knows."""


@dataclass(frozen=True)
class HeldOut:
    """One row at one length, and the seconds that a model told which did not know the workload; None if it refused."""

    row: Row
    units: int
    seconds: float | None

    @property
    def measured(self) -> float:
        """The seconds that it took."""
        return self.row.at(self.units)


def lengths(row: Row) -> tuple[int, ...]:
    """Return the lengths at which a row is judged."""
    if row.units_alone:
        return (ENDLESS,)
    return (row.units, LONG) if "start" in row.seconds and row.units != LONG else (row.units,)


def quantile(errors: Collection[Sequence[float]], level: float) -> float:
    """Return the half width of the split-conformal interval for the errors of each of K workloads; 0 without any.

    It is the least one for which the shares of each workload's errors within it sum up to (K + 1) x level, or the
    largest error where none does: a workload counts once, however many configurations were measured of it (pooling of
    the distributions of groups, after Dunn, Wasserman and Ramdas, "Distribution-free prediction sets for two-layer
    hierarchical models", Journal of the American Statistical Association 118, 2023).
    """
    ordered = sorted((abs(error), 1 / len(group)) for group in errors for error in group)
    wanted, share = (len(errors) + 1) * level - 1e-9, 0.0
    for width, weight in ordered:
        share += weight
        if share >= wanted:
            return width
    return ordered[-1][0] if ordered else 0.0


def width_of_times(errors: Mapping[str, Sequence[float]], level: float = LEVEL) -> float:
    """Return the half width of times in the logarithm, by the errors of each workload.

    It is split-conformal. Of K workloads that reaches no level above K / (K + 1): with fewer the width is that of
    ratios, which grows as they get fewer, where that is larger.
    """
    width = quantile(errors.values(), level)
    few = level * (len(errors) + 1) > len(errors)
    return max(width, _width(errors)) if few else width


def errors_of(held_out: Sequence[HeldOut]) -> dict[str, list[float]]:
    """Return the errors of the logarithm, by workload."""
    errors: dict[str, list[float]] = {}
    for item in held_out:
        if item.seconds is not None:
            errors.setdefault(item.row.workload, []).append(math.log(item.seconds / item.measured))
    return errors


def widths_of(held_out: Sequence[HeldOut]) -> dict[str, float]:
    """Return the half widths of ratios in the logarithm, by what differs, and by what kind of thing does.

    What few workloads were measured with has none of its own: its kind's holds for it, or that of all.

    The errors of one workload hang together, so that each workload counts once: with the mean over K workloads of
    their mean squares of errors for a variance around zero, it is its root times Student's t of K degrees of freedom.
    """
    errors: dict[str, dict[str, list[float]]] = {ANY: {}}
    for group in _settings(held_out):
        base = next((item for item in group if item.row.default), None)
        for item in group:
            if base is not None and item is not base and base.seconds is not None and item.seconds is not None:
                error = math.log(base.seconds / item.seconds) - math.log(base.measured / item.measured)
                two = base.row.inputs, item.row.inputs
                for name in {ANY, change(*two), difference(*two)} - {""}:  # what has no name of its own
                    errors.setdefault(name, {}).setdefault(item.row.workload, []).append(error)
    return {name: _width(values) for name, values in sorted(errors.items()) if name == ANY or len(values) >= _FEWEST}


def _width(errors: Mapping[str, Sequence[float]]) -> float:
    """Return the half width that the errors of each workload give."""
    if not errors:
        return UNTESTED
    squares = [statistics.fmean(error * error for error in values) for values in errors.values()]
    return t95(len(errors)) * math.sqrt(statistics.fmean(squares))


def _settings(held_out: Sequence[HeldOut]) -> list[list[HeldOut]]:
    """Return what was compared: the rows of a setting at one length."""
    groups: dict[tuple[str, int], list[HeldOut]] = {}
    for item in held_out:
        groups.setdefault((item.row.setting, item.units), []).append(item)
    return [groups[key] for key in sorted(groups)]
