"""Predictions from measurements: direct where the same work was measured here, transferred ratios otherwise."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modak.model.measurement import Measurement
from modak.model.plan import Prediction
from modak.optimiser.candidates import LeverSet, name_of
from modak.performance.matching import Phases, Work, comparable, differences, phases_of, widening
from modak.performance.statistics import (
    Interval,
    Moments,
    paired_ratio_interval,
    prediction_interval,
    ratio_interval,
)

Setting = tuple[str, ...]
"""What the measurements of one table have in common: hardware, software, workload, provenance."""
_FOREIGN = 3.0
"""Factor either way on absolute seconds that were measured on other hardware."""


@dataclass
class Sample:
    """The runs of one lever set in one setting, scaled to the work at hand."""

    phases: list[Phases] = field(default_factory=list)
    blocks: dict[int, float] = field(default_factory=dict)
    summaries: list[Moments] = field(default_factory=list)
    records: list[Measurement] = field(default_factory=list)

    def add(self, record: Measurement, work: Work) -> None:
        """Take the runs of ``record`` in."""
        self.records.append(record)
        for run in record.runs:
            phases = phases_of(run, record, work)
            self.phases.append(phases)
            if run.block is not None:
                self.blocks[run.block] = phases.total
        if record.summary is not None:
            s = record.summary
            self.summaries.append(Moments.of_summary(s.mean, s.deviation, s.count))

    def moments(self) -> Moments:
        """Return the moments of the whole runs' seconds."""
        return Moments.of_values([p.total for p in self.phases]) if self.phases else self.summaries[0]

    def count(self) -> int:
        """Return the number of runs."""
        return len(self.phases) or self.summaries[0].count


class Evidence:
    """All that the measurements say about one work."""

    def __init__(self, records: Iterable[Measurement], work: Work) -> None:
        self.work = work
        self.direct: dict[LeverSet, Sample] = {}
        self.settings: dict[Setting, dict[LeverSet, Sample]] = {}
        self._differences: dict[Setting, tuple[str, ...]] = {}
        self._places: dict[Setting, str] = {}
        for record in records:
            if record.configuration.runtime == "native" and comparable(record, work):
                self._take(record)

    def _take(self, record: Measurement) -> None:
        levers = tuple(record.configuration.levers)
        found = differences(record, self.work)
        if not found:
            self.direct.setdefault(levers, Sample()).add(record, self.work)
            return
        setting = _setting(record)
        self._differences[setting] = found
        self._places[setting] = _place(record)
        self.settings.setdefault(setting, {}).setdefault(levers, Sample()).add(record, self.work)

    def measured(self) -> list[LeverSet]:
        """Return every lever set that any measurement speaks of, in a stable order."""
        return sorted({*self.direct, *(levers for samples in self.settings.values() for levers in samples)})

    def gain(self, default: LeverSet, other: LeverSet) -> Interval | None:
        """Return the time of ``default`` over that of ``other``; None where nothing compares the two."""
        if default in self.direct and other in self.direct:
            return _ratio(self.direct[default], self.direct[other])
        setting = self._setting_for(default, other)
        return None if setting is None else self._transferred(setting, default, other)

    def _transferred(self, setting: Setting, default: LeverSet, other: LeverSet) -> Interval:
        samples = self.settings[setting]
        return _ratio(samples[default], samples[other]).widened(widening(self._differences[setting]))

    def _setting_for(self, *lever_sets: LeverSet) -> Setting | None:
        """Return the setting that has all of these, the most like the work at hand first."""
        fitting = [s for s, samples in self.settings.items() if all(levers in samples for levers in lever_sets)]
        return min(fitting, key=lambda s: (widening(self._differences[s]), s), default=None)

    def predict(self, levers: LeverSet, base: LeverSet) -> Prediction:
        """Return the predicted seconds of ``levers``; ``base`` is what transferred ratios refer to."""
        units = self.work.workload.units
        if levers in self.direct:
            return _direct(self.direct[levers], units)
        setting = self._setting_for(levers, base)
        if setting is not None and base in self.direct:
            return self._scaled(setting, levers, base)
        setting = setting or self._setting_for(levers)
        if setting is not None:
            return self._foreign(setting, levers)
        return Prediction(units=units, evidence="it was not measured for this workload")

    def _scaled(self, setting: Setting, levers: LeverSet, base: LeverSet) -> Prediction:
        here = prediction_interval(self.direct[base].moments())
        gain = self._transferred(setting, base, levers)
        return Prediction(
            seconds=_round(here.value / gain.value),
            low=_round(here.low / gain.high),
            high=_round(here.high / gain.low),
            units=self.work.workload.units,
            basis="rule",
            evidence=f"the time of {name_of(base)} here, divided by the gain of {gain.value:.2f} measured on "
            f"{self._places[setting]}, which differs in {_list(self._differences[setting])}",
        )

    def _foreign(self, setting: Setting, levers: LeverSet) -> Prediction:
        sample = self.settings[setting][levers]
        interval = prediction_interval(sample.moments()).widened(_FOREIGN)
        return Prediction(
            seconds=_round(interval.value),
            low=_round(interval.low),
            high=_round(interval.high),
            units=self.work.workload.units,
            basis="rule",
            evidence=f"measured {sample.count()} times on {self._places[setting]}, which differs in "
            f"{_list(self._differences[setting])}: the seconds are an order of magnitude",
        )


def _direct(sample: Sample, units: int) -> Prediction:
    interval = prediction_interval(sample.moments())
    evidence = f"measured {sample.count()} times on {_place(sample.records[0])}, {_dates(sample.records)}"
    if not sample.phases:
        return Prediction(
            seconds=_round(interval.value),
            low=_round(interval.low),
            high=_round(interval.high),
            units=units,
            basis="measurement",
            evidence=evidence,
        )
    return Prediction(
        seconds=_round(interval.value),
        low=_round(interval.low),
        high=_round(interval.high),
        start=_round(statistics.median(p.start for p in sample.phases)),
        compile=_round(statistics.median(p.compile for p in sample.phases)),
        steady=_round(statistics.median(p.steady for p in sample.phases)),
        units=units,
        basis="measurement",
        evidence=evidence,
    )


def _ratio(default: Sample, other: Sample) -> Interval:
    one_table = _setting(default.records[0]) == _setting(other.records[0])
    alone = len(default.records) == 1 == len(other.records)
    paired = paired_ratio_interval(default.blocks, other.blocks) if one_table and alone else None
    return paired or ratio_interval(default.moments(), other.moments())


def _setting(record: Measurement) -> Setting:
    software: Mapping[str, str] = dict(sorted(record.software.items()))
    parts = (record.hardware, record.workload, record.provenance)
    return (*(part.model_dump_json() for part in parts), str(software))


def _place(record: Measurement) -> str:
    hardware = record.hardware
    if hardware.accelerator:
        return f"{hardware.accelerators} x {hardware.accelerator}"
    cores = f"{hardware.cores} cores of " if hardware.cores else ""
    return f"{cores}{hardware.cpu_model or hardware.microarchitecture or 'an unnamed processor'}"


def _dates(records: Sequence[Measurement]) -> str:
    dates = sorted({record.provenance.date for record in records})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _round(seconds: float) -> float:
    """Keep four digits: more would be noise, and the Plan is read by people."""
    return float(f"{seconds:.4g}")
