"""What the measurements say about the options: samples of seconds, and ratios between options."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from modak_deploy.model.measurement import Configuration, Measurement, Ratio
from modak_deploy.optimiser.options import LeverSet, Location, Option
from modak_deploy.performance.matching import (
    Phases,
    Work,
    comparable,
    differences,
    phases_of,
    processor_of,
    same_length,
    widening,
)
from modak_deploy.performance.series import Folded, Observation, record_in
from modak_deploy.performance.statistics import (
    WIDEST,
    Interval,
    Moments,
    paired_ratio_interval,
    prediction_interval,
    ratio_interval,
    weighted,
)

Setting = tuple[str, ...]
"""What the measurements of one table have in common: hardware, software, workload, provenance."""
Block = tuple[str, int, int]
"""The job that tried levers, its start, and the block in which configurations were measured beside one another."""
_ROUNDING = 1.05
"""Factor either way on a ratio that a publication gives in words, without spread."""


@dataclass
class Sample:
    """The runs of one option in one setting, scaled to the work at hand."""

    differences: frozenset[str]
    phases: list[Phases] = field(default_factory=list)
    blocks: dict[Block, float] = field(default_factory=dict)
    steady: dict[Block, float] = field(default_factory=dict)
    """The same without start and compilation, where these were told apart."""
    summaries: list[Moments] = field(default_factory=list)
    records: list[Measurement] = field(default_factory=list)
    dates: set[str] = field(default_factory=set)
    _single: list[float] = field(default_factory=list)
    """Seconds of the runs that are in no series."""
    _series: list[Moments] = field(default_factory=list)
    _moments: Moments | None = None

    def add(self, record: Measurement, phases: Sequence[Phases], series: Folded | None = None) -> None:
        """Take the runs of ``record`` in, whose ``phases`` are scaled to the work at hand.

        ``series`` is what stands for more runs than these, where their moments hold for the work at hand.
        """
        self.records.append(record)
        self.dates.add(record.provenance.date)
        self._moments = None
        self.phases += phases
        if series is not None:
            self.dates.add(series.first_date)
            self._series.append(series.moments)
            return
        self._single += [p.total for p in phases]
        for run, scaled in zip(record.runs, phases, strict=True):
            if run.block is not None:
                # Other series than those of trials take turns over several runs, each with a start of its own.
                job = (record.provenance.source, run.time or 0) if record.kind == "trial" else ("", 0)
                self.blocks[(*job, run.block)] = scaled.total
                if scaled.distinguished:
                    self.steady[(*job, run.block)] = scaled.steady
        if record.summary is not None:
            s = record.summary
            self.summaries.append(Moments.of_summary(s.mean, s.deviation, s.count))

    def moments(self) -> Moments:
        """Return the moments of the whole runs' seconds."""
        if self._moments is None:
            single = [Moments.of_values(self._single)] if self._single else []
            parts = [*single, *self._series]
            self._moments = Moments.of_parts(parts) if self._series else parts[0] if parts else self.summaries[0]
        return self._moments

    def tried(self) -> bool:
        """Tell whether all of it was tried while jobs ran."""
        return all(isinstance(record, Measurement) and record.kind == "trial" for record in self.records)

    def interval(self) -> Interval:
        """Return the seconds of the whole run with the interval of one more."""
        return prediction_interval(self.moments())

    def count(self) -> int | None:
        """Return the number of runs; None where it is not known."""
        runs = len(self._single) + sum(moments.count for moments in self._series)
        return runs or next((r.summary.count for r in self.records if r.summary), None)


class Edge(NamedTuple):
    """A ratio between two options: time of the first over time of the second."""

    ratio: Interval
    differences: frozenset[str]


class Comparison(NamedTuple):
    """How two options compare, and what that rests on."""

    ratio: Interval
    differences: frozenset[str]
    location: str
    """Hardware that it was measured on, in words."""
    tried: bool = False
    """Whether one of them was only tried while jobs ran."""

    @property
    def direct(self) -> bool:
        """Whether it was measured under the very conditions of the work at hand."""
        return not self.differences


@dataclass
class Table:
    """Everything that was measured in one setting."""

    location: str
    samples: dict[Option, Sample] = field(default_factory=dict)
    edges: dict[Option, dict[Option, Edge]] = field(default_factory=dict)

    def join(self, first: Option, other: Option, edge: Edge) -> None:
        """Note a ratio, both ways."""
        back = Interval(1 / edge.ratio.value, 1 / edge.ratio.high, 1 / edge.ratio.low)
        self.edges.setdefault(first, {})[other] = edge
        self.edges.setdefault(other, {})[first] = Edge(back, edge.differences)

    def compare(self, first: Option, other: Option) -> Edge | None:
        """Return time of ``first`` over time of ``other``: from samples, or along a chain of ratios."""
        if first in self.samples and other in self.samples:
            a, b = self.samples[first], self.samples[other]
            return Edge(_ratio(a, b), a.differences | b.differences)
        chain = self._chain(first, other)
        if chain is None:
            return None
        together = frozenset[str]().union(*(edge.differences for edge in chain))
        return Edge(_product([edge.ratio for edge in chain]), together)

    def _chain(self, first: Option, other: Option) -> list[Edge] | None:
        ways: dict[Option, list[Edge]] = {first: []}
        pending = deque([first])
        while pending:
            here = pending.popleft()
            for there, edge in self.edges.get(here, {}).items():
                if there not in ways:
                    ways[there] = [*ways[here], edge]
                    pending.append(there)
        return ways.get(other) or None


class Evidence:
    """All that the measurements say about one work at the places where it can be done."""

    def __init__(
        self, records: Iterable[Observation], work: Work, locations: Sequence[Location], levers: Iterable[str] = ()
    ) -> None:
        """``levers`` are the names of all of them in the order that candidates have: a record may have another one."""
        self.work = work
        self._order = {name: number for number, name in enumerate(levers)}
        self.direct: dict[Option, Sample] = {}
        self.tables: dict[Setting, Table] = {}
        self._locations = locations
        self._packages = {location.option(()): _Packages(location) for location in locations}
        fitting = [observation for observation in records if comparable(record_in(observation), work)]
        configurations = (record_in(observation).configuration for observation in fitting)
        self._exact = {_where(c) for c in configurations} & {_where_of(location) for location in locations[:1]}
        for observation in fitting:
            self._take(observation)

    def _take(self, observation: Observation) -> None:
        record = record_in(observation)
        series = observation if isinstance(observation, Folded) and same_length(observation.record, self.work) else None
        phases = [phases_of(r, record, self.work) for r in record.runs] if isinstance(record, Measurement) else []
        for location, shift in self._locations_for(record):
            unlike = differences(record, self.work, self._packages[location.option(())]) | shift
            table = self.tables.setdefault(_setting(record, shift), Table(location_of(record)))
            option = location.option(self._ordered(record.configuration))
            if isinstance(record, Measurement):
                table.samples.setdefault(option, Sample(unlike)).add(record, phases, series)
                if not unlike:
                    self.direct.setdefault(option, Sample(unlike)).add(record, phases, series)
            else:
                self._take_ratio(record, table, option, unlike)

    def _ordered(self, configuration: Configuration) -> LeverSet:
        """Return the levers of a record as a candidate names them: the catalogue's order may have been another then."""
        return tuple(sorted(configuration.levers, key=lambda name: self._order.get(name, len(self._order))))

    def _take_ratio(self, record: Ratio, table: Table, option: Option, unlike: frozenset[str]) -> None:
        """A ratio may lead from one image to another, so that its baseline has a place of its own."""
        for location in self._locations:
            shift = location_differences(record.baseline, location, self.work.framework)
            if shift is not None and location.runtime == option.runtime:
                value = math.sqrt(record.low * record.high)
                ratio = Interval(value, record.low / _ROUNDING, record.high * _ROUNDING)
                baseline = location.option(self._ordered(record.baseline))
                if baseline != option:
                    table.join(baseline, option, Edge(ratio, unlike | shift))

    def _locations_for(self, record: Measurement | Ratio) -> Iterator[tuple[Location, frozenset[str]]]:
        """Yield the places that ``record`` speaks for, each with what is different there."""
        for location in self._locations:
            shift = location_differences(record.configuration, location, self.work.framework)
            if shift is not None:
                yield location, shift
            elif not self._exact and self._stands_for_default(record, location):
                yield location, frozenset({"runtime"})

    def _stands_for_default(self, record: Measurement | Ratio, location: Location) -> bool:
        """Where nobody measured the default place, records of any one other place speak for it and its engines."""
        engine = _engine(record.configuration, self.work.framework)
        default = _where_of(self._locations[0])
        return isinstance(record, Measurement) and _where_of(location) == default and location.engine == engine

    def measured(self, location: Location) -> list[LeverSet]:
        """Return every lever set that any measurement speaks of at ``location``, in a stable order."""
        options = {*self.direct}
        for table in self.tables.values():
            options.update(table.samples)
            options.update(table.edges)
        plain = location.option(())
        return sorted(option.levers for option in options if option.with_levers(()) == plain)

    def any(self) -> bool:
        """Tell whether anything was measured."""
        return bool(self.tables)

    def compare(self, first: Option, other: Option) -> Comparison | None:
        """Return time of ``first`` over time of ``other``, from the conditions most like those at hand."""
        if first in self.direct and other in self.direct:
            a, b = self.direct[first], self.direct[other]
            ratio = ratio_within(self.direct, a, b)
            return Comparison(ratio, frozenset(), location_of(b.records[0]), a.tried() or b.tried())
        best: tuple[float, Setting, Comparison] | None = None
        for setting, table in self.tables.items():
            edge = table.compare(first, other)
            if edge is not None:
                factor = widening(edge.differences)
                comparison = Comparison(edge.ratio.widened(factor), edge.differences, table.location)
                if best is None or (factor, setting) < best[:2]:
                    best = (factor, setting, comparison)
        return best[2] if best else None

    def elsewhere(self, option: Option) -> tuple[Sample, str] | None:
        """Return the seconds of ``option`` under the conditions most like those at hand, and where they are from."""
        samples = [
            (widening(table.samples[option].differences), setting, table.samples[option], table.location)
            for setting, table in self.tables.items()
            if option in table.samples
        ]
        return min(samples, key=lambda entry: entry[:2])[2:] if samples else None


def _ratio(default: Sample, other: Sample) -> Interval:
    is_same_table = _setting(default.records[0], frozenset()) == _setting(other.records[0], frozenset())
    alone = len(default.records) == 1 == len(other.records)
    paired = paired_ratio_interval(default.blocks, other.blocks) if is_same_table and alone else None
    return paired or _tried_ratio(default, other) or ratio_interval(default.moments(), other.moments())


def _tried_ratio(default: Sample, other: Sample) -> Interval | None:
    """Return the ratio by the units that jobs did side by side in trials; None where there are too few."""
    if not (default.tried() and other.tried()):
        return None
    return paired_ratio_interval(default.blocks, other.blocks)


def ratio_within(samples: Mapping[Option, Sample], default: Sample, other: Sample) -> Interval:
    """Return the ratio of two samples of one setting; by a third as well where each was tried beside that one.

    A job measures what it tries beside the best so far, and a later job beside what was known, not beside the default:
    what the machine did meanwhile is the same on neither side of the ratio of two jobs. Where two were tried beside one
    another, too, both ways count by what they are worth where their units are not the same ones, as all those of a
    survey are.
    """
    if not (default.tried() and other.tried()):
        return _ratio(default, other)
    direct = _tried_ratio(default, other)
    chains = []
    for third in samples.values():
        if third.tried() and third is not default and third is not other:
            if direct is not None and not _both(default, other).isdisjoint(_both(default, third)):
                continue
            left, right = _tried_ratio(default, third), _tried_ratio(third, other)
            if left is not None and right is not None:
                chains.append(_product([left, right]))
    chain = min(chains, key=lambda ratio: ratio.high / ratio.low, default=None)
    if direct is not None and chain is not None:
        return weighted([direct, chain])
    return direct or chain or _ratio(default, other)


def _both(first: Sample, other: Sample) -> set[Block]:
    """Return the blocks in which both were measured."""
    return first.blocks.keys() & other.blocks.keys()


def _product(ratios: Sequence[Interval]) -> Interval:
    """Return the product of ratios along a chain, whose errors are independent of one another."""
    value = math.prod(ratio.value for ratio in ratios)
    up = min(math.hypot(*(math.log(ratio.high / ratio.value) for ratio in ratios)), WIDEST)
    down = min(math.hypot(*(math.log(ratio.value / ratio.low) for ratio in ratios)), WIDEST)
    return Interval(value, value * math.exp(-down), value * math.exp(up))


def _where(configuration: Configuration) -> tuple[str, str | None]:
    return (configuration.runtime, configuration.image)


def _where_of(location: Location) -> tuple[str, str | None]:
    return (location.runtime, location.image.name if location.image else None)


def _engine(configuration: Configuration, framework: str | None) -> str | None:
    return None if configuration.framework in (None, framework) else configuration.framework


def location_differences(
    configuration: Configuration, location: Location, framework: str | None
) -> frozenset[str] | None:
    """Return in what ``location`` differs from where ``configuration`` ran; None where they cannot be compared."""
    if _engine(configuration, framework) != location.engine:
        return None
    if (configuration.runtime == "native") != (location.image is None):
        return None
    if location.image is None:
        return frozenset()
    if configuration.image not in (None, location.image.name):
        return None
    unlike = {"image"} if configuration.image is None else set()
    return frozenset(unlike if configuration.runtime == location.runtime else unlike | {"runtime"})


def _setting(record: Measurement | Ratio, shift: frozenset[str]) -> Setting:
    where = str(_where(record.configuration)) if shift == {"runtime"} else ""
    provenance = (record.provenance.source, record.provenance.date, record.provenance.method[:80])
    source = provenance if isinstance(record, Measurement) else provenance[:2]
    return (*record.setting, where, *source)


def location_of(record: Measurement | Ratio) -> str:
    """Return the hardware that a record is from, in words."""
    hardware = record.hardware
    if hardware.accelerator:
        return f"{hardware.accelerators} x {hardware.accelerator}"
    return processor_of(hardware.cores, hardware.cpu_model, hardware.microarchitecture)


class _Packages(Mapping[str, str]):
    """The versions of packages at a place, other distributions that provide one included."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._versions: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._versions:  # each record names the same packages
            self._versions[name] = self._location.version_of(name)
        version = self._versions[name]
        if version is None:
            raise KeyError(name)
        return version

    def __iter__(self) -> Iterator[str]:
        return iter(self._location.packages)

    def __len__(self) -> int:
        return len(self._location.packages)
