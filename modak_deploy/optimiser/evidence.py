"""What the measurements say about the options: samples of seconds, and ratios between options."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from modak_deploy.model.measurement import Configuration, Measurement, Ratio
from modak_deploy.optimiser.options import LeverSet, Location, Option
from modak_deploy.optimiser.samples import (
    Sample,
    Setting,
    product_of,
    ratio_of,
    ratio_within,
    runtime_and_image,
    setting_of,
)
from modak_deploy.performance.matching import (
    Work,
    comparable,
    differences,
    phases_of,
    processor_of,
    same_length,
    widening,
)
from modak_deploy.performance.series import Folded, Observation, record_in
from modak_deploy.performance.statistics import Interval

_ROUNDING = 1.05
"""Factor either way on a ratio that a publication gives in words, without spread."""


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
            return Edge(ratio_of(a, b), a.differences | b.differences)
        chain = self._chain(first, other)
        if chain is None:
            return None
        together = frozenset[str]().union(*(edge.differences for edge in chain))
        return Edge(product_of([edge.ratio for edge in chain]), together)

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
        self,
        records: Iterable[Observation],
        work: Work,
        locations: Sequence[Location],
        levers: Iterable[str] = (),
        cores: Callable[[LeverSet], int | None] | None = None,
    ) -> None:
        """``levers`` are the names of all of them in the order that candidates have: a record may have another one.

        ``cores`` tells how many a job with levers reserves of a node, where that may be others than ``work`` has.
        """
        self.work = work
        self._cores = cores or (lambda levers: work.cores)
        self._order = {name: number for number, name in enumerate(levers)}
        self.direct: dict[Option, Sample] = {}
        self.tables: dict[Setting, Table] = {}
        self._locations = locations
        self._packages = {location.option(()): _Packages(location) for location in locations}
        fitting = [observation for observation in records if comparable(record_in(observation), work)]
        configurations = (record_in(observation).configuration for observation in fitting)
        self._exact = {runtime_and_image(c) for c in configurations} & {
            _where_of(location) for location in locations[:1]
        }
        for observation in fitting:
            self._take(observation)

    def _take(self, observation: Observation) -> None:
        record = record_in(observation)
        series = observation if isinstance(observation, Folded) and same_length(observation.record, self.work) else None
        phases = [phases_of(r, record, self.work) for r in record.runs] if isinstance(record, Measurement) else []
        for location, shift in self._locations_for(record):
            unlike = differences(record, self.work, self._packages[location.option(())]) | shift
            if "cores" in unlike and self._reserves_alike(record):
                unlike -= {"cores"}
            table = self.tables.setdefault(setting_of(record, shift), Table(location_of(record)))
            option = location.option(self._ordered(record.configuration))
            if isinstance(record, Measurement):
                table.samples.setdefault(option, Sample(unlike)).add(record, phases, series)
                if not unlike:
                    self.direct.setdefault(option, Sample(unlike)).add(record, phases, series)
            else:
                self._take_ratio(record, table, option, unlike)

    def _reserves_alike(self, record: Measurement | Ratio) -> bool:
        """Tell whether a job with the levers of a record would reserve as many cores here as that one had."""
        cores = record.hardware.cores
        return cores is not None and cores == self._cores(self._ordered(record.configuration))

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
            ratio = ratio_within(self.direct.values(), a, b)
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
