"""Features of the time model: what is known of the work, the hardware and the configuration, as numbers.

Times grow and shrink by factors, so that all sizes enter as logarithms. What a name stands for (a lever, a compiler, a
framework) is 1 or 0; a name that the model was not fitted with cannot be predicted.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.names import accelerator_name, processor_name
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Mix

if TYPE_CHECKING:
    from modak_deploy.catalogue.hardware import MicroarchitectureEntry, ProcessorEntry, WorkloadEntry

VERSION = 5
"""Of the features; a model fitted with others is not used."""
FAR = math.log(4)
"""How far outside of what a model was fitted with it is believed, in the logarithm."""
_TRAINING = 3.0
"""Operations of a training step over those of the forward pass."""
_USUAL = math.log(1e10)
"""Operations of one unit from which interactions count: a name's own effect is that on such work."""
_LOW = 2.0
"""Times as fast as fp32 that arithmetic in 16 bits is by itself: vectors hold twice as many numbers."""
_MATRIX = 32.0
"""The same for matrix units: AMX does 2,048 operations a cycle and core, and 64 in fp32 (as of sapphirerapids)."""
_SIXTEEN = re.compile(r"bf16|bfloat16|fp16")
"""What stands in the names of levers that compute in 16 bits."""
_KERNELS = frozenset({"graph-compiler", "memory-layout"})
"""Groups of levers that choose other kernels, which convolutions gain more from than products of matrices."""
_SIZES = frozenset({"flops", "roofline", "samples", "batch", "parameters", "layers"})
"""Features that tell how much a unit does."""
_IMAGE = ("container", "source build")
LIVE = "live:"
LEVERS = ("lever:", LIVE)
"""What the names of levers begin with; those that are switched while a program runs have one of their own."""
_CHANGES = (("engine", ("runs:",)), ("image", _IMAGE), ("compiler", ("compiler:",)))
_IMPOSSIBLE = 1e30
"""Operations or bytes that no sample has, nor one of so many: of such a number no ratio can be made."""
Features = dict[str, float]


@dataclass(frozen=True)
class Case:
    """One workload on one hardware in one configuration."""

    type: str
    framework: str | None
    workload: Workload
    hardware: Hardware
    configuration: Configuration
    mix: Mix = field(default_factory=dict)
    """Shares of its operations, where they were seen; the catalogue knows those of well-known networks."""


def features(case: Case, catalogue: Catalogue) -> Features | None:
    """Return the features of ``case``; None where the size of the work or the speed of the hardware is not known."""
    entry = catalogue.workloads.get(case.workload.model or "")
    flops, moved = _work(case, entry)
    machine = speeds(case.hardware, catalogue)
    if flops is None or machine is None:
        return None
    if not all(1 / _IMPOSSIBLE < amount < _IMPOSSIBLE for amount in (flops, moved or flops)):
        return None
    peak, bandwidth = machine
    samples = case.workload.samples or 1
    gpu = float(case.hardware.accelerators > 0)
    size = math.log(flops * samples)
    inputs: Features = {
        "flops": size,
        "roofline": math.log(samples * max(flops / peak, (moved or 0.0) / bandwidth)),
        "samples": math.log(samples),
        "batch": math.log(case.workload.batch or samples),
        "parameters": math.log(case.workload.parameters or (entry.parameters if entry else 1)),
        "layers": math.log(case.workload.layers or (entry.layers if entry else 1)),
        "peak": math.log(peak),
        "cores": math.log(case.configuration.threads or case.hardware.cores or 1) * (1 - gpu),
        "gpu": gpu,
        "training": float(case.type == "ai_training"),
    }
    mix = case.mix or (entry.mix if entry else {})
    convolution = mix.get("convolution", 0.0) - 0.5 if mix else 0.0
    arithmetic = math.log(low_precision(case.hardware, catalogue) / _LOW)
    inputs.update(_names(case, catalogue, size, convolution, arithmetic))
    return inputs


def _work(case: Case, entry: "WorkloadEntry | None") -> tuple[float | None, float | None]:
    """Return operations and bytes for one sample."""
    factor = _TRAINING if case.type == "ai_training" else 1.0
    flops = case.workload.flops_per_sample or (entry.flops * factor if entry else None)
    moved = case.workload.bytes_per_sample or (entry.bytes * factor if entry else None)
    return flops, moved


def speeds(hardware: Hardware, catalogue: Catalogue) -> tuple[float, float] | None:
    """Return peak operations per second in fp32 and bytes per second."""
    if hardware.accelerator is not None and hardware.accelerators:
        entry = catalogue.accelerators.get(accelerator_name(hardware.accelerator, catalogue))
        if entry is None or "fp32" not in entry.tflops:
            return None
        return entry.tflops["fp32"] * 1e12 * hardware.accelerators, entry.bandwidth * 1e9 * hardware.accelerators
    processor, unit = _processor(hardware, catalogue)
    if unit is None:
        return None
    cores = hardware.cores or (processor.cores if processor else 1)
    frequency = processor.frequency if processor else 2.5
    # Of a processor that nobody describes, such as a virtual one: what a server has for each core today.
    bandwidth = processor.bandwidth * cores / processor.cores if processor else 6.0 * cores
    return unit.fp32 * frequency * 1e9 * cores, bandwidth * 1e9


def _processor(
    hardware: Hardware, catalogue: Catalogue
) -> tuple["ProcessorEntry | None", "MicroarchitectureEntry | None"]:
    processor = catalogue.processors.get(processor_name(hardware.cpu_model or "", catalogue) or "")
    name = processor.microarchitecture if processor else hardware.microarchitecture or ""
    return processor, catalogue.microarchitectures.get(name)


def low_precision(hardware: Hardware, catalogue: Catalogue) -> float:
    """Return the peak rate in 16 bits over that in fp32; the usual ratio where the hardware's is not known.

    Processors with matrix units (AMX) and GPUs with tensor cores have ratios of 8 to 32.
    """
    if hardware.accelerator is not None and hardware.accelerators:
        entry = catalogue.accelerators.get(accelerator_name(hardware.accelerator, catalogue))
        rates = entry.tflops if entry is not None else {}
        low = rates.get("bf16") or rates.get("fp16")
        return low / rates["fp32"] if low and "fp32" in rates else _LOW
    if hardware.bf16 == "matrix":  # also where a virtual machine hides what else tells the microarchitecture
        return _MATRIX
    _, unit = _processor(hardware, catalogue)
    ratio = unit.bf16 / unit.fp32 if unit is not None and unit.bf16 else _LOW
    return _LOW if hardware.bf16 == "vector" and ratio >= _MATRIX else ratio


def _names(case: Case, catalogue: Catalogue, size: float, convolution: float, arithmetic: float) -> Features:
    """Return what the names stand for, and their interactions.

    What other kernels bring depends on the share of convolutions, whoever chooses them: a lever, a compiler or an
    engine. What a lower precision brings depends on the hardware's arithmetic besides.
    """
    configuration = case.configuration
    inputs: Features = {}
    levers = [catalogue.levers[name] for name in configuration.levers if name in catalogue.levers]
    runs = next((lever.runs for lever in levers if lever.runs), configuration.framework or case.framework)
    if runs is not None:
        inputs[f"runs:{runs}"] = 1.0
        inputs[f"runs:{runs} x convolution"] = convolution
    compilers = {configuration.compiler, *(lever.compiler for lever in levers)} - {None}
    for compiler in sorted(str(name) for name in compilers):
        inputs[f"compiler:{compiler}"] = 1.0
        inputs[f"compiler:{compiler} x flops"] = size - _USUAL
        inputs[f"compiler:{compiler} x convolution"] = convolution
    for name in configuration.levers:
        lever = catalogue.levers.get(name)
        if lever is None or not lever.runs:
            live = lever is not None and lever.launch == "live"
            feature = LIVE + name if live else f"lever:{name}"
            inputs[feature] = 1.0
            if lever is not None and lever.numerics == "relaxed":
                inputs[f"{feature} x flops"] = size - _USUAL
            if lever is not None and (lever.numerics == "relaxed" or lever.group in _KERNELS):
                inputs[f"{feature} x convolution"] = convolution
                if _SIXTEEN.search(name):
                    inputs[f"{feature} x arithmetic"] = arithmetic
    inputs["container"] = float(configuration.runtime != "native")
    image = catalogue.images.get(configuration.image or "")
    inputs["source build"] = float(image is not None and image.source == "opt-build")
    return inputs


def agree(catalogue: Catalogue, fitted: Catalogue) -> bool:
    """Tell whether what ``fitted`` describes has the same features by ``catalogue``, which may describe more."""
    kinds: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
        (catalogue.levers, fitted.levers),
        (catalogue.workloads, fitted.workloads),
        (catalogue.accelerators, fitted.accelerators),
        (catalogue.processors, fitted.processors),
        (catalogue.microarchitectures, fitted.microarchitectures),
        ({name: image.source for name, image in catalogue.images.items()},
         {name: image.source for name, image in fitted.images.items()}),
    ]  # fmt: skip
    return all(mine.get(name) == entry for mine, theirs in kinds for name, entry in theirs.items())


def change(first: Features, other: Features) -> str:
    """Return in what two configurations of the same work differ, the weightiest thing alone."""
    names = {name for name in {*first, *other} if first.get(name, 0.0) != other.get(name, 0.0)}
    for kind, prefixes in _CHANGES:
        if any(name.startswith(prefixes) for name in names):
            return kind
    return "levers"


def difference(first: Features, other: Features) -> str:
    """Return what is on in one of two configurations alone, as one word."""
    images = {name for name in _IMAGE if first.get(name, 0.0) != other.get(name, 0.0)}
    return "+".join(sorted((names_in(first) ^ names_in(other)) | images))


def names_in(inputs: Features) -> frozenset[str]:
    """Return what is on in a configuration: levers, compilers, the engine."""
    prefixes = (*LEVERS, "compiler:", "runs:")
    return frozenset(
        name for name, value in inputs.items() if value == 1.0 and " " not in name and name.startswith(prefixes)
    )


def of_phase(inputs: Features, phase: str) -> Features:
    """Return what a phase may depend on.

    A start and what the first unit takes besides come from the software, on the hardware, and not from the size of the
    work; what is switched at a call changes nothing before it.
    """
    if phase == "steady":
        return inputs
    without = (LIVE,) if phase == "start" else ()
    return {name: value for name, value in inputs.items() if name not in _SIZES and not name.startswith(without)}


def vector(inputs: Features, names: Sequence[str]) -> list[float]:
    """Return the features in the order of ``names``; those that a case does not have are 0."""
    return [inputs.get(name, 0.0) for name in names]


def unknown(
    inputs: Features,
    ranges: Mapping[str, tuple[float, float]],
    together: Iterable[Collection[str]],
) -> str | None:
    """Return why the model cannot tell of a case: a name that it never met, or not with the others, or a far size.

    ``ranges`` has all names that it met, and ``together`` are the sets of those that were on at once.
    """
    for name, value in inputs.items():
        if value and name not in ranges:
            shown = name.replace(LIVE, "lever:", 1) if name.startswith(LIVE) else name
            return f"the model was fitted without '{shown}'"
        low, high = ranges.get(name, (-math.inf, math.inf))
        if not low - FAR <= value <= high + FAR:
            return f"'{name}' is far outside of what the model was fitted with"
    if not any(names_in(inputs) <= set(group) for group in together):
        return "the model was fitted to no run with all of this at once, and what levers bring does not multiply"
    return None
