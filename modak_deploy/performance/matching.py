"""How far a measurement speaks for the work at hand."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Bf16, Hardware, Measurement, Ratio, Run

WIDENING: Mapping[str, float] = {
    "processor": 1.25,
    "accelerator": 1.35,
    "cores": 1.15,
    "software": 1.2,
    "data": 1.2,
    "length": 1.2,
    "image": 1.1,
    "runtime": 1.1,
}
"""Factor by which each difference moves both ends of a transferred ratio's interval: experience, to be replaced by a
model's error where there is one."""


@dataclass(frozen=True)
class Work:
    """What is to be predicted: the workload, and the hardware that it will meet."""

    type: str
    framework: str | None
    workload: Workload
    microarchitecture: str | None
    cpu_model: str | None
    cores: int | None
    accelerator: str | None
    """The catalogue's name."""
    accelerators: int
    nodes: int = 1
    ranks: int = 1
    bf16: Bf16 | None = None
    """See ``Hardware``."""

    @property
    def hardware(self) -> Hardware:
        """A node as measurements describe it."""
        return Hardware(
            microarchitecture=self.microarchitecture,
            cpu_model=self.cpu_model,
            bf16=self.bf16,
            cores=self.cores,
            accelerator=self.accelerator,
            accelerators=self.accelerators,
        )


def bf16_of(features: Collection[str]) -> Bf16 | None:
    """Return which units of a processor compute in bf16, by its features as Linux names them; None without any."""
    if "amx_bf16" in features:
        return "matrix"
    return "vector" if not {"avx512_bf16", "bf16", "svebf16"}.isdisjoint(features) else None


@lru_cache(maxsize=4096)
def release_line(version: str) -> tuple[int, ...]:
    """Return what must agree for two versions to perform alike: the major number, and the minor of a version 0."""
    release = Version(version).release
    return release[:2] if release[0] == 0 else release[:1]


@lru_cache(maxsize=4096)
def processor_parts(model: str) -> str:
    """Return a processor's name without what varies from one source to the next."""
    text = re.sub(r"\((r|tm|c)\)|@.*$|\b(cpu|processor|ryzen|\d+-core)\b", " ", model.lower())
    return " ".join(text.replace("-", " ").split())


def comparable(record: Measurement | Ratio, work: Work) -> bool:
    """Tell whether ``record`` is of the same work, on whatever hardware and software."""
    theirs, ours, configuration = record.workload, work.workload, record.configuration
    return (
        record.type == work.type
        and record.framework in (None, work.framework)
        and theirs.model == ours.model
        and theirs.unit == ours.unit
        and (record.hardware.accelerators > 0) == (work.accelerators > 0)
        and (configuration.nodes, configuration.ranks) == (work.nodes, work.ranks)
    )


def differences(record: Measurement | Ratio, work: Work, packages: Mapping[str, str]) -> frozenset[str]:
    """Return in what ``record`` differs from ``work`` with ``packages``: keys of WIDENING; empty for a direct one."""
    differences = _hardware_differences(record.hardware, work)
    if any(_differs(version, packages.get(name)) for name, version in record.software.items()):
        differences.add("software")
    theirs, ours = record.workload, work.workload
    pairs = ((theirs.dataset, ours.dataset), (theirs.batch, ours.batch), (theirs.parameters, ours.parameters))
    if any(a is not None and b is not None and a != b for a, b in pairs):
        differences.add("data")
    if not _is_as_long(theirs, ours) and not _scales(record):
        differences.add("length")
    return frozenset(differences)


def _hardware_differences(hardware: Hardware, work: Work) -> set[str]:
    """A processor beside an accelerator that does the work does not count."""
    if work.accelerators:
        same = (hardware.accelerator, hardware.accelerators) == (work.accelerator, work.accelerators)
        return set() if same else {"accelerator"}
    differences = set()
    if not _same_processor(hardware, work):
        differences.add("processor")
    if hardware.cores is None or hardware.cores != work.cores:
        differences.add("cores")
    return differences


def _same_processor(hardware: Hardware, work: Work) -> bool:
    if hardware.microarchitecture is not None and hardware.microarchitecture != work.microarchitecture:
        return False
    if hardware.cpu_model is None:
        return hardware.microarchitecture is not None
    ours = processor_parts(work.cpu_model or "")
    theirs = processor_parts(hardware.cpu_model)
    if hardware.microarchitecture is None:
        return f"{ours} ".startswith(f"{theirs} ")
    return ours == theirs


def _scales(record: Measurement | Ratio) -> bool:
    """A run by phases scales to other numbers of units and samples; a whole run only stands for itself."""
    return isinstance(record, Measurement) and record.by_phases


def _differ(a: object, b: object) -> bool:
    return a is not None and b is not None and a != b


def _differs(theirs: str, ours: str | None) -> bool:
    return ours is not None and theirs != ours and release_line(theirs) != release_line(ours)


def widening(differences: frozenset[str]) -> float:
    """Return the factor by which the interval of a ratio grows over these differences."""
    return math.prod(WIDENING[name] for name in sorted(differences))


def cores_of(number: int | None) -> str:
    """Return ``8 cores of ``, to stand before a processor's name; nothing where the number is not known."""
    return "" if number is None else f"{number} core{'s' if number > 1 else ''} of "


def processor_of(cores: int | None, model: str | None, microarchitecture: str | None) -> str:
    """Return a processor in words, by what is known of it."""
    return f"{cores_of(cores)}{model or microarchitecture or 'an unnamed processor'}"


@dataclass(frozen=True)
class Phases:
    """Seconds of one run, scaled to the work at hand."""

    start: float
    compile: float
    steady: float
    total: float
    distinguished: bool
    """False where only the whole was measured."""


def phases_of(run: Run, record: Measurement, work: Work) -> Phases:
    """Return the run as it would have been with the units and samples of ``work``.

    Start and compilation do not grow with the samples; each unit does.
    """
    return _phases(run, record.workload, work.workload)


def own_phases(run: Run, record: Measurement) -> Phases:
    """Return the run with the units and samples that it had."""
    return _phases(run, record.workload, record.workload)


def whole_seconds(run: Run, record: Measurement) -> float:
    """Return the seconds of a whole run; one of trials has two units, and stands for a run of all of them."""
    if record.kind == "trial":
        return own_phases(run, record).total
    return run.total if run.total is not None else (run.first or 0.0) + sum(run.later)


def seconds_of_units(run: Run, record: Measurement, units: int) -> float:
    """Return the seconds of a run of so many units of the same size: what is done once does not grow with them.

    Where nobody told the phases apart, the whole is taken to grow.
    """
    parts = own_phases(run, record)
    if parts.distinguished and units != record.workload.units:
        return parts.start + parts.compile + parts.steady * units
    return whole_seconds(run, record) * units / record.workload.units


def same_length(record: Measurement, work: Work) -> bool:
    """Tell whether the phases of a run are the same with the units and samples of ``work`` as with its own."""
    return _is_as_long(record.workload, work.workload)


def _is_as_long(theirs: Workload, ours: Workload) -> bool:
    return theirs.units == ours.units and not _differ(theirs.samples, ours.samples)


def _phases(run: Run, theirs: Workload, ours: Workload) -> Phases:
    later = run.later_unit
    if later is None or run.first is None or run.start is None:
        total = run.total if run.total is not None else (run.first or 0.0) + sum(run.later)
        return Phases(0.0, 0.0, total / ours.units, total, False)
    scale = ours.samples / theirs.samples if ours.samples and theirs.samples else 1.0
    compiling = max(run.first - later, 0.0)
    steady = later * scale
    return Phases(run.start, compiling, steady, run.start + compiling + steady * ours.units, True)
