"""Intervals of the time model, from how far it erred on workloads that it was not fitted with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from modak.performance.estimators import Row
from modak.performance.features import change
from modak.performance.timemodel import ANY

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
    """Return the widths of ratios, by what differs; where too few were measured, those of all stand in.

    Each is how far the interval reaches down and up in the logarithm.
    """
    errors: dict[str, list[float]] = {}
    for group in _settings(told):
        base = next((one for one in group if one.row.default), None)
        for one in group:
            if base is not None and one is not base and base.seconds is not None and one.seconds is not None:
                error = math.log(base.seconds / one.seconds) - math.log(base.measured / one.measured)
                errors.setdefault(change(base.row.found, one.row.found), []).append(error)
    pooled = [error for some in errors.values() for error in some]
    found = {name: _reach(some) for name, some in sorted(errors.items()) if len(some) >= _FEWEST}
    return {ANY: _reach(pooled), **found}


def _settings(told: Sequence[Told]) -> list[list[Told]]:
    """Return what was compared: the rows of a setting at one length."""
    groups: dict[tuple[str, int], list[Told]] = {}
    for one in told:
        groups.setdefault((one.row.setting, one.units), []).append(one)
    return [groups[key] for key in sorted(groups)]
