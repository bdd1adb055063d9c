"""How far a measurement speaks for the work at hand."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from modak.model.application import Workload
from modak.model.measurement import Measurement, Run

WIDENING: Mapping[str, float] = {"processor": 1.25, "accelerator": 1.35, "cores": 1.15, "software": 1.2, "data": 1.2}
"""Factor by which each difference moves both ends of a transferred ratio's interval: experience, to be replaced by a
model's error where there is one."""


@dataclass(frozen=True)
class Work:
    """What is to be predicted: the workload, and the hardware and software that it will meet."""

    type: str
    framework: str | None
    workload: Workload
    microarchitecture: str | None
    cpu_model: str | None
    cores: int | None
    accelerator: str | None
    accelerators: int
    packages: Mapping[str, str]


@lru_cache(maxsize=4096)
def release_line(version: str) -> tuple[int, ...]:
    """Return what must agree for two versions to perform alike: the major number, and the minor of a version 0."""
    release = Version(version).release
    return release[:2] if release[0] == 0 else release[:1]


def comparable(record: Measurement, work: Work) -> bool:
    """Tell whether ``record`` is of the same work, on whatever hardware and software."""
    theirs, ours = record.workload, work.workload
    return (
        record.type == work.type
        and record.framework in (None, work.framework)
        and theirs.model == ours.model
        and theirs.unit == ours.unit
        and (record.hardware.accelerators > 0) == (work.accelerators > 0)
        and (record.runs == [] or all(_scales(run, theirs, ours) for run in record.runs))
    )


def _scales(run: Run, theirs: Workload, ours: Workload) -> bool:
    """A run by phases scales to other numbers of units and samples; a whole run only stands for itself."""
    return bool(run.later) or (theirs.units == ours.units and theirs.samples in (None, ours.samples))


def differences(record: Measurement, work: Work) -> tuple[str, ...]:
    """Return in what ``record`` differs from ``work``: keys of WIDENING; empty when it is a direct measurement."""
    hardware, found = record.hardware, []
    processor = hardware.microarchitecture is None or hardware.microarchitecture != work.microarchitecture
    if processor or (hardware.cpu_model is not None and hardware.cpu_model != work.cpu_model):
        found.append("processor")
    if work.accelerators and (hardware.accelerator, hardware.accelerators) != (work.accelerator, work.accelerators):
        found.append("accelerator")
    if hardware.cores is None or hardware.cores != work.cores:
        found.append("cores")
    if any(_differs(version, work.packages.get(name)) for name, version in record.software.items()):
        found.append("software")
    theirs, ours = record.workload, work.workload
    pairs = ((theirs.dataset, ours.dataset), (theirs.batch, ours.batch), (theirs.parameters, ours.parameters))
    if any(a is not None and b is not None and a != b for a, b in pairs):
        found.append("data")
    return tuple(found)


def _differs(theirs: str, ours: str | None) -> bool:
    return ours is not None and release_line(theirs) != release_line(ours)


def widening(found: tuple[str, ...]) -> float:
    """Return the factor by which the interval of a ratio grows over these differences."""
    return math.prod(WIDENING[name] for name in found)


@dataclass(frozen=True)
class Phases:
    """Seconds of one run, scaled to the work at hand."""

    start: float
    compile: float
    steady: float
    total: float


def phases_of(run: Run, record: Measurement, work: Work) -> Phases:
    """Return the run as it would have been with the units and samples of ``work``.

    Start and compilation do not grow with the samples; each unit does.
    """
    ours, theirs = work.workload, record.workload
    if not run.later or run.first is None or run.start is None:
        total = run.total if run.total is not None else (run.first or 0.0) + sum(run.later)
        return Phases(0.0, 0.0, total / ours.units, total)
    ordered = sorted(run.later)
    middle = len(ordered) // 2
    later = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    scale = ours.samples / theirs.samples if ours.samples and theirs.samples else 1.0
    compiling = max(run.first - later, 0.0)
    steady = later * scale
    return Phases(run.start, compiling, steady, run.start + compiling + steady * ours.units)
