"""What levers may be expected to bring before they are tried, by what they brought other workloads.

A conversion takes seconds before it can be tried, and what it brings depends on the network. That it usually pays is
known all the same: three of four networks became at least so many times as fast. By that the launcher tries, from the
second job on, what a small part of the job's time would not pay for.
"""

import statistics
from collections.abc import Collection, Sequence
from functools import cached_property

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.performance.estimators import Row
from modak_deploy.performance.fitting import rows_of
from modak_deploy.performance.matching import Work
from modak_deploy.performance.records import Measurements, load_measurements

FEWEST = 4
"""Other workloads with which a lever must have been measured: with fewer, a quarter of them is none."""
MOST_RECORDS = 2000
"""Measurements above which those that ship are taken alone: a Plan is made in a second, and each of a user's counts."""


class Usual:
    """How many times as fast other workloads of a kind were with each lever; looked up when it is first asked for."""

    def __init__(self, measurements: Measurements, catalogue: Catalogue, work: Work) -> None:
        self._measurements, self._catalogue, self._work = measurements, catalogue, work

    @cached_property
    def _rows(self) -> Sequence[Row]:
        """Records of other workloads of the same kind, framework and kind of device."""
        work, measurements = self._work, self._measurements
        if measurements.count > MOST_RECORDS:
            measurements = load_measurements()
        return [
            row
            for row in rows_of(measurements.all_records(), self._catalogue)
            if row.workload != work.workload.model
            and (row.case.type, row.case.framework) == (work.type, work.framework)
            and bool(row.inputs["gpu"]) == bool(work.accelerators)
        ]

    @cached_property
    def _gains(self) -> dict[str, dict[str, list[float]]]:
        """Ratios of steady times by lever and workload: with it, and with all else that was on alone."""
        settings: dict[tuple[str, ...], dict[frozenset[str], Row]] = {}
        for row in self._rows:
            settings.setdefault(row.engine, {})[frozenset(row.case.configuration.levers)] = row
        gains: dict[str, dict[str, list[float]]] = {}
        for by_levers in settings.values():
            for levers, row in by_levers.items():
                for lever in levers:
                    base = by_levers.get(levers - {lever})
                    if base is not None and row.seconds["steady"] > 0:
                        ratio = base.seconds["steady"] / row.seconds["steady"]
                        gains.setdefault(lever, {}).setdefault(row.workload, []).append(ratio)
        return gains

    def at_least(self, levers: Collection[str]) -> dict[str, float]:
        """Return, of those levers that usually gain, how many times as fast three of four workloads were at the least.

        A workload counts once, by the median of its settings.
        """
        return self._quarter(levers, 0)

    def typical(self, levers: Collection[str]) -> dict[str, float]:
        """Return how many times as fast half of the workloads were at the least, of levers with which these gain."""
        return self._quarter(levers, 1)

    def _quarter(self, levers: Collection[str], number: int) -> dict[str, float]:
        quarters: dict[str, float] = {}
        for lever in levers:
            workloads = [statistics.median(ratios) for ratios in self._gains.get(lever, {}).values()]
            if len(workloads) >= FEWEST and (value := statistics.quantiles(workloads, n=4)[number]) > 1:
                quarters[lever] = round(min(value, 1e6), 3)
        return quarters
