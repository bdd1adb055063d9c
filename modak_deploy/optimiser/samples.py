"""Samples: the runs of one option in one setting, and the ratios between two of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from modak_deploy.model.measurement import Configuration, Measurement, Ratio, Run
from modak_deploy.performance.matching import Phases
from modak_deploy.performance.series import Folded
from modak_deploy.performance.statistics import (
    WIDEST,
    Interval,
    Moments,
    grouped_ratio_interval,
    paired_ratio_interval,
    prediction_interval,
    ratio_interval,
    weighted,
)

Setting = tuple[str, ...]
"""What the measurements of one table have in common: hardware, software, workload, provenance."""
Block = tuple[str, int, int]
"""The job that tried levers, its start, and the block in which configurations were measured beside one another."""


@dataclass
class Sample:
    """The runs of one option in one setting, scaled to the work at hand."""

    differences: frozenset[str]
    phases: list[Phases] = field(default_factory=list)
    blocks: dict[Block, float] = field(default_factory=dict)
    """Seconds of units that jobs did in trials."""
    steady: dict[Block, float] = field(default_factory=dict)
    """The same without start and compilation, where these were told apart."""
    starts: dict[int, list[float]] = field(default_factory=dict)
    """Seconds of trials in processes of their own, by the time at which their job began; of a series the newest."""
    turns: dict[int, float] = field(default_factory=dict)
    """Seconds of runs that took turns with others, each with a start of its own."""
    summaries: list[Moments] = field(default_factory=list)
    records: list[Measurement] = field(default_factory=list)
    dates: set[str] = field(default_factory=set)
    _single: list[float] = field(default_factory=list)
    """Seconds of the runs that are in no series."""
    _series: list[Moments] = field(default_factory=list)
    _whole: list[Moments] = field(default_factory=list)
    """Moments of all of them, record by record, but for what was only tried."""
    _moments: Moments | None = None
    _measured: Moments | None = None

    def add(self, record: Measurement, phases: Sequence[Phases], series: Folded | None = None) -> None:
        """Take the runs of ``record`` in, whose ``phases`` are scaled to the work at hand.

        ``series`` is what stands for more runs than these, where their moments hold for the work at hand.
        """
        self.records.append(record)
        self.dates.add(record.provenance.date)
        self._moments = self._measured = None
        self.phases += phases
        if record.kind != "trial" and (series is not None or phases):
            self._whole.append(series.moments if series is not None else Moments.of_values([p.total for p in phases]))
        for run, scaled in zip(record.runs, phases, strict=True):
            self._take(record, run, scaled)
        if series is not None:
            self.dates.add(series.first_date)
            self._series.append(series.moments)
            return
        self._single += [p.total for p in phases]
        if record.summary is not None:
            s = record.summary
            self.summaries.append(Moments.of_summary(s.mean, s.deviation, s.count))

    def _take(self, record: Measurement, run: Run, scaled: Phases) -> None:
        """Take in what a run was measured beside; a run of a series has no block."""
        if record.kind != "trial":
            if run.block is not None:
                self.turns[run.block] = scaled.total
        elif run.block is None:
            if run.time is not None:
                self.starts.setdefault(run.time, []).append(scaled.total)
        else:
            block = (record.provenance.source, run.time or 0, run.block)
            self.blocks[block] = scaled.total
            if scaled.distinguished:
                self.steady[block] = scaled.steady

    def moments(self) -> Moments:
        """Return the moments of the whole runs' seconds."""
        if self._moments is None:
            single = [Moments.of_values(self._single)] if self._single else []
            parts = [*single, *self._series]
            self._moments = Moments.of_parts(parts) if self._series else parts[0] if parts else self.summaries[0]
        return self._moments

    def measured(self) -> Moments | None:
        """Return the moments of what was not only tried; None of fewer than two runs."""
        if self._measured is None and self._whole:
            self._measured = Moments.of_parts(self._whole)
        return self._measured if self._measured is not None and self._measured.count > 1 else None

    def tried(self) -> bool:
        """Tell whether all of it was tried while jobs ran."""
        return all(isinstance(record, Measurement) and record.kind == "trial" for record in self.records)

    def interval(self) -> Interval:
        """Return the seconds of the whole run with the interval of one more."""
        return prediction_interval(self.measured() or self.moments())

    def count(self) -> int | None:
        """Return the number of runs that ``interval`` rests on; None where it is not known."""
        if (measured := self.measured()) is not None:
            return measured.count
        runs = len(self._single) + sum(moments.count for moments in self._series)
        return runs or next((r.summary.count for r in self.records if r.summary), None)


def ratio_of(default: Sample, other: Sample) -> Interval:
    """Return time of ``default`` over time of ``other``, two samples of one setting."""
    is_same_table = setting_of(default.records[0], frozenset()) == setting_of(other.records[0], frozenset())
    alone = len(default.records) == 1 == len(other.records)
    paired = paired_ratio_interval(default.turns, other.turns) if is_same_table and alone else None
    return paired or _with_measured(_tried_ratio(default, other), default, other)


def _tried_ratio(default: Sample, other: Sample) -> Interval | None:
    """Return the ratio by what jobs tried side by side, units or processes; None where there is too little."""
    paired = paired_ratio_interval(default.blocks, other.blocks)
    if paired is not None or len(default.starts.keys() | other.starts.keys()) < 2:
        return paired
    return grouped_ratio_interval(default.starts, other.starts)


def _with_measured(tried: Interval | None, default: Sample, other: Sample) -> Interval:
    """Return the ratio by trials together with that by whole runs, where there are some of both.

    What was tried counts beside what the same job tried alone: the node of another job may have been busy, and then all
    is as slow there, whatever was on.
    """
    first, second = default.measured(), other.measured()
    measured = ratio_interval(first, second) if first is not None and second is not None else None
    if tried is not None and measured is not None:
        agree = tried.low <= measured.high and measured.low <= tried.high
        return weighted([tried, measured]) if agree else measured
    return tried or measured or ratio_interval(default.moments(), other.moments())


def ratio_within(samples: Iterable[Sample], default: Sample, other: Sample) -> Interval:
    """Return the ratio of two samples of one setting; by a third as well where each was tried beside that one.

    A job measures what it tries beside the best so far, and a later job beside what was known, not beside the default:
    what the machine did meanwhile is the same on neither side of the ratio of two jobs. Where two were tried beside one
    another, too, both ways count by what they are worth where their units are not the same ones, as all those of a
    survey are.
    """
    if not (default.blocks and other.blocks):
        return ratio_of(default, other)
    direct = _tried_ratio(default, other)
    chains = []
    for third in samples:
        if third.blocks and third is not default and third is not other:
            if direct is not None and not _both(default, other).isdisjoint(_both(default, third)):
                continue
            left, right = _tried_ratio(default, third), _tried_ratio(third, other)
            if left is not None and right is not None:
                chains.append(product_of([left, right]))
    chain = min(chains, key=lambda ratio: ratio.high / ratio.low, default=None)
    if direct is not None and chain is not None:
        return _with_measured(weighted([direct, chain]), default, other)
    return _with_measured(direct or chain, default, other)


def _both(first: Sample, other: Sample) -> set[Block]:
    """Return the blocks in which both were measured."""
    return first.blocks.keys() & other.blocks.keys()


def product_of(ratios: Sequence[Interval]) -> Interval:
    """Return the product of ratios along a chain, whose errors are independent of one another."""
    value = math.prod(ratio.value for ratio in ratios)
    up = min(math.hypot(*(math.log(ratio.high / ratio.value) for ratio in ratios)), WIDEST)
    down = min(math.hypot(*(math.log(ratio.value / ratio.low) for ratio in ratios)), WIDEST)
    return Interval(value, value * math.exp(-down), value * math.exp(up))


def runtime_and_image(configuration: Configuration) -> tuple[str, str | None]:
    """Return what a configuration ran in."""
    return (configuration.runtime, configuration.image)


def setting_of(record: Measurement | Ratio, shift: frozenset[str]) -> Setting:
    """Return the setting of a record at a place that differs in ``shift`` from where it was measured."""
    where = str(runtime_and_image(record.configuration)) if shift == {"runtime"} else ""
    provenance = (record.provenance.source, record.provenance.date, record.provenance.method[:80])
    source = provenance if isinstance(record, Measurement) else provenance[:2]
    return (*record.setting, where, *source)
