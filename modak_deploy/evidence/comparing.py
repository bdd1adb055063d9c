"""What was measured of one work on one hardware, and how many times as fast one configuration is as another."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Ratio
from modak_deploy.optimiser.samples import Sample as Tried
from modak_deploy.optimiser.samples import ratio_within
from modak_deploy.performance.matching import own_phases, release_line, whole_seconds
from modak_deploy.performance.statistics import Interval, Moments, paired_ratio_interval, ratio_interval
from modak_deploy.util.text import plural


@dataclass
class Sample:
    """All measurements of one configuration of a workload."""

    configuration: Configuration
    totals: list[float] = field(default_factory=list)
    blocks: dict[tuple[str, int], float] = field(default_factory=dict)
    """Times by the source and the block that they were measured in."""
    published: list[Moments] = field(default_factory=list)
    tried: Tried = field(default_factory=lambda: Tried(frozenset()))
    """What jobs tried, as decisions compare it."""

    @property
    def moments(self) -> Moments:
        """The sample as a whole."""
        own = [Moments.of_values(self.totals)] if self.totals else []
        return Moments.of_parts([*own, *self.published])

    @property
    def count(self) -> str:
        """How many runs, in words."""
        return plural(len(self.totals), "run") if self.totals else "published mean"

    @property
    def seconds(self) -> float:
        """Geometric mean."""
        return math.exp(self.moments.mean)

    @property
    def is_by_blocks(self) -> bool:
        """Whether each of its runs was measured in a block with others."""
        return bool(self.blocks) and len(self.blocks) == len(self.totals) and not self.published

    def add(self, record: Measurement) -> None:
        """Add the runs of a record."""
        if record.summary is not None:
            summary = record.summary
            self.published.append(Moments.of_summary(summary.mean, summary.deviation, summary.count))
            return
        if record.kind == "trial":
            self.tried.add(record, [own_phases(run, record) for run in record.runs])
        for run in record.runs:
            total = whole_seconds(run, record)
            self.totals.append(total)
            if run.block is not None:
                self.blocks[record.provenance.source, run.block] = total


@dataclass(frozen=True)
class Comparison:
    """Configurations of one workload on one hardware that can be compared."""

    title: str
    hardware: str
    baseline: Sample
    """What is taken for the default."""
    others: Sequence[Sample]

    @property
    def samples(self) -> list[Sample]:
        """The baseline and the others."""
        return [self.baseline, *self.others]

    @cached_property
    def gains(self) -> list[tuple[Sample, Interval]]:
        """The others with their gains over the baseline, the fastest first."""
        pairs = [(sample, self.gain(self.baseline, sample)) for sample in self.others]
        return sorted(pairs, key=lambda pair: -pair[1].value)

    def gain(self, first: Sample, other: Sample) -> Interval:
        """Return how many times as fast as the first sample the other is; by blocks where both have the same.

        What jobs tried is compared with what the same job tried: the node of another may have been busy.
        """
        if first.tried.records and other.tried.records:
            return ratio_within([sample.tried for sample in self.samples], first.tried, other.tried)
        numbers = {key: number for number, key in enumerate(sorted(first.blocks.keys() & other.blocks.keys()))}
        # A round in which one of the two was disturbed is no reason to compare with runs of other days.
        shared = {source for source, _ in numbers}
        beside = other.is_by_blocks and all(source in shared for source, _ in other.blocks)
        pairs = [{numbers[key]: sample.blocks[key] for key in numbers} for sample in (first, other)]
        paired = paired_ratio_interval(*pairs) if beside else None
        return paired or ratio_interval(first.moments, other.moments)

    def choice(self) -> tuple[Sample, float]:
        """Return what modak chooses where all this is known, and its gain: the fastest of a certain one, else none."""
        certain = ((sample, ratio.value) for sample, ratio in self.gains if ratio.low > 1)
        return next(certain, (self.baseline, 1.0))

    @property
    def best(self) -> float:
        """The gain of the fastest that was measured, the baseline included."""
        return max([1.0, *(ratio.value for _, ratio in self.gains)])


def comparisons(records: Iterable[Measurement | Ratio], catalogue: Catalogue) -> list[Comparison]:
    """Return the groups of records that measured the same work on the same hardware and software in the same layout."""
    works: dict[tuple[str, ...], list[Measurement]] = {}
    for record in records:
        if isinstance(record, Measurement):
            works.setdefault(_key(record), []).append(record)
    usual = {lever.name for lever in catalogue.levers.values() if lever.default}
    compared = []
    for key in sorted(works):
        groups = by_versions(works[key])
        compared += [_comparison(groups[versions], versions, usual) for versions in sorted(groups)]
    return compared


def _comparison(records: Sequence[Measurement], versions: str, usual: set[str]) -> Comparison:
    by_name: dict[str, Sample] = {}
    for record in records:
        name = record.configuration.model_dump_json()
        by_name.setdefault(name, Sample(record.configuration)).add(record)
    baseline = min(by_name.values(), key=lambda sample: _distance(sample.configuration, usual))
    others = [sample for sample in by_name.values() if sample is not baseline]
    return Comparison(_title(records[0], versions), _hardware_text(records[0].hardware), baseline, others)


def by_versions(records: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Return records of one work by the versions of the software that its native runs had; empty where these are alike.

    An image brings its own software, and what that costs is what its runs are compared for: they stand beside the
    native ones of their time. So do those that do not name a package, as such of another engine.
    """
    dated = sorted(records, key=lambda record: record.provenance.date)
    native = [(id(record), _lines(record)) for record in dated if record.configuration.runtime == "native"]
    lines: dict[str, set[str]] = {}
    for _, versions in native:
        for name, line in versions.items():
            lines.setdefault(name, set()).add(line)
    apart = sorted(name for name, several in lines.items() if len(several) > 1)
    current = {name: line for _, versions in reversed(native) for name, line in versions.items()}
    own, texts = dict(native), dict[int, str]()
    for record in dated:
        current |= own.get(id(record), {})
        texts[id(record)] = ", ".join(f"{name} {current[name]}" for name in apart)
    groups: dict[str, list[Measurement]] = {}
    for record in records:
        groups.setdefault(texts[id(record)], []).append(record)
    return groups


def _lines(record: Measurement) -> dict[str, str]:
    """Return the versions of a record by their lines, of which all are taken to perform alike."""
    return {name: ".".join(map(str, release_line(version))) for name, version in record.software.items()}


def _key(record: Measurement) -> tuple[str, ...]:
    layout = record.configuration
    return (
        record.workload.model or "",
        record.type,
        record.framework or "",
        record.workload.model_dump_json(),
        record.hardware.identity("memory"),
        f"{layout.nodes} {layout.ranks} {layout.threads}",
        record.kind or "",
    )


def _distance(configuration: Configuration, usual: set[str]) -> tuple[int, ...]:
    """Order configurations by how far they are from a run without modak."""
    levers = [name for name in configuration.levers if name not in usual]
    return (
        configuration.framework is not None,
        configuration.compiler is not None,
        len(levers),
        *_packing(configuration),
    )


def _packing(configuration: Configuration) -> tuple[int, ...]:
    return (configuration.runtime != "native", configuration.image is not None, len(configuration.levers))


def _title(record: Measurement, versions: str) -> str:
    work = record.workload
    data = f" on {work.dataset}" if work.dataset else ""
    layout = record.configuration
    parts = [*([record.framework] if record.framework else []), record.type.replace("_", " ")]
    parts.append(plural(work.units, work.unit))
    parts += [f"{layout.ranks} ranks on {layout.nodes} nodes"] if layout.ranks > 1 else []
    parts += ["units tried while a job ran"] if record.kind == "trial" else []
    parts += [f"with {versions}"] if versions else []
    return f"{work.model}{data} ({', '.join(parts)})"


def _hardware_text(hardware: Hardware) -> str:
    where = hardware.accelerator or hardware.cpu_model or hardware.microarchitecture or "unknown hardware"
    cores = f", {hardware.cores} core{'s' if hardware.cores != 1 else ''}" if hardware.cores else ""
    return where + ("" if hardware.accelerators else cores)


def name_of(configuration: Configuration) -> str:
    """Return a configuration in words."""
    parts = [configuration.image or configuration.runtime]
    if configuration.image and configuration.runtime != "native":
        parts = [f"{configuration.runtime} {configuration.image}"]
    parts += [part for part in (configuration.framework, configuration.compiler) if part]
    return " + ".join([*parts, *configuration.levers])
