"""Execution providers of ONNX Runtime: which are there, which is used, and what is said when one is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Hardware
from modak_deploy.onnx.manifest import Timing
from modak_deploy.onnx.packages import require
from modak_deploy.util.text import nearest


@dataclass(frozen=True)
class Provider:
    """One execution provider."""

    name: str
    """As in ``--provider`` and in documents."""
    runtime: str
    """ONNX Runtime's name."""
    package: str
    """The distribution of ONNX Runtime that has it."""
    device: tuple[str, ...] = ()
    """Files of which one exists where the kernel has a driver for it; none for a processor."""
    preferred: bool = True
    """Used without a measurement. TensorRT and OpenVINO are not: the first builds engines for minutes, and the second
    is slower than ONNX Runtime's own kernels for some models."""


PROVIDERS = (
    Provider("tensorrt", "TensorrtExecutionProvider", "onnxruntime-gpu", ("/dev/nvidiactl", "/dev/dxg"), False),
    Provider("cuda", "CUDAExecutionProvider", "onnxruntime-gpu", ("/dev/nvidiactl", "/dev/dxg")),
    Provider("migraphx", "MIGraphXExecutionProvider", "onnxruntime-migraphx", ("/dev/kfd",)),
    # Removed in ONNX Runtime 1.23, in favour of MIGraphX.
    Provider("rocm", "ROCMExecutionProvider", "onnxruntime-rocm", ("/dev/kfd",)),
    Provider("openvino", "OpenVINOExecutionProvider", "onnxruntime-openvino", (), False),
    Provider("cpu", "CPUExecutionProvider", "onnxruntime"),
)
"""The order of preference where nothing was measured."""
_BY_NAME = {provider.name: provider for provider in PROVIDERS}
_CLOSE = 4.0
"""Ratio of batch sizes within which a timing speaks for another batch."""


@dataclass(frozen=True)
class Choice:
    """The execution providers of a session, first choice first, and why."""

    providers: tuple[Provider, ...]
    reason: str
    required: bool = False
    """The user named the first: another one in its place is an error."""

    @property
    def runtime_names(self) -> list[str]:
        """ONNX Runtime's names, in order."""
        return [provider.runtime for provider in self.providers]


def runtime() -> Any:
    """Return the package onnxruntime; InputError where it is absent."""
    return require("onnxruntime", "onnxruntime", purpose="inference", extra="onnx")


def provider(name: str) -> Provider:
    """Return the provider of that name, which may be ONNX Runtime's own; InputError for an unknown one."""
    by_runtime = {entry.runtime.lower(): entry for entry in PROVIDERS}
    match = _BY_NAME.get(name.lower()) or by_runtime.get(name.lower())
    if match is None:
        names = ", ".join(_BY_NAME)
        raise InputError(f"execution provider '{name}': not supported; use {names}{nearest(name, _BY_NAME)}")
    return match


def available(names: Sequence[str] | None = None) -> list[Provider]:
    """Return the providers of the installed ONNX Runtime, in order of preference."""
    there = set(runtime().get_available_providers() if names is None else names)
    return [entry for entry in PROVIDERS if entry.runtime in there]


def has_device(entry: Provider, root: Path = Path("/")) -> bool:
    """Return whether the kernel has a device for a provider; a processor always is one."""
    return not entry.device or any((root / path.lstrip("/")).exists() for path in entry.device)


def missing(entry: Provider, there: Sequence[Provider]) -> str:
    """Return the message for a provider that the installed ONNX Runtime does not have."""
    names = ", ".join(other.name for other in there) or "none"
    return (
        f"execution provider '{entry.name}': {entry.runtime} is not in the installed onnxruntime "
        f"{runtime().__version__} (it has: {names}); pip install {entry.package} into an environment of its own, "
        f"or use --provider {there[0].name if there else 'auto'}"
    )


def choose(
    name: str,
    timings: Sequence[Timing] = (),
    *,
    batch: int = 1,
    hardware: Hardware | None = None,
    there: Sequence[Provider] | None = None,
    root: Path = Path("/"),
) -> Choice:
    """Return the providers for ``name``; ``auto`` takes the fastest measured on this hardware, else the usual order.

    CPU comes last in every order, for operators that the others lack.
    """
    there = available() if there is None else there
    cpu = _BY_NAME["cpu"]
    if name != "auto":
        wanted = provider(name)
        if wanted not in there:
            raise InputError(missing(wanted, there))
        if not has_device(wanted, root):
            raise InputError(
                f"execution provider '{wanted.name}': this machine has no device for it "
                f"({' or '.join(wanted.device)} not found); use --provider cpu"
            )
        return Choice(_with_fallback(wanted, cpu), "it was asked for", required=True)
    usable = [entry for entry in there if has_device(entry, root)]
    best = _fastest(usable, timings, batch, hardware)
    if best is not None:
        entry, timing = best
        reason = f"the fastest measured here: {timing.median * 1e3:.3g} ms for {timing.batch} samples"
        return Choice(_with_fallback(entry, cpu), reason)
    preferred = [entry for entry in usable if entry.preferred]
    if not preferred:
        raise InputError("this onnxruntime has none of the execution providers that modak supports")
    first = preferred[0]
    return Choice(
        _with_fallback(first, cpu), f"no measurement on this hardware; {first.name} is the first of its order"
    )


def _with_fallback(first: Provider, cpu: Provider) -> tuple[Provider, ...]:
    # TensorRT hands what it lacks to CUDA, as its documentation asks for.
    chain = (first, _BY_NAME["cuda"]) if first.name == "tensorrt" else (first,)
    return (*chain, cpu) if first != cpu else chain


def _fastest(
    usable: Sequence[Provider], timings: Sequence[Timing], batch: int, hardware: Hardware | None
) -> tuple[Provider, Timing] | None:
    """Return the provider with the shortest time per sample at a batch size close to ``batch``, measured here.

    One provider alone is no comparison: None, unless it is the only one that could be used.
    """
    by_runtime = {entry.runtime: entry for entry in usable}
    close = [
        timing
        for timing in timings
        if timing.engine == "onnxruntime"
        and timing.provider in by_runtime
        and 1 / _CLOSE <= timing.batch / batch <= _CLOSE
        and _same(by_runtime[timing.provider], timing.hardware, hardware)
    ]
    if len({timing.provider for timing in close}) < min(2, len(usable)):
        return None
    best = min(close, key=lambda timing: (abs(timing.batch - batch), timing.median / timing.batch), default=None)
    if best is None:
        return None
    same_batch = [timing for timing in close if timing.batch == best.batch]
    fastest = min(same_batch, key=lambda timing: timing.median)
    return by_runtime[str(fastest.provider)], fastest


def _same(entry: Provider, timed: Hardware, other: Hardware | None) -> bool:
    """Return whether a timing was made on such hardware: the same accelerator, or the same processor where none is."""
    if other is None:
        return False
    if entry.device:
        return timed.accelerator is not None and timed.accelerator == other.accelerator
    return timed.cpu_model is not None and (timed.cpu_model, timed.microarchitecture, timed.cores) == (
        other.cpu_model,
        other.microarchitecture,
        other.cores,
    )


def this_machine() -> Hardware:
    """Return what timings on this machine are recorded with."""
    import os

    import archspec.cpu

    return Hardware(
        microarchitecture=archspec.cpu.host().name,
        cpu_model=_cpu_model(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        accelerator=_accelerator(),
    )


def _accelerator() -> str | None:
    """Return the model of the first NVIDIA accelerator, as its driver tells it."""
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model" and value.strip():
                return value.strip()[:200]
    return None


def _cpu_model() -> str | None:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "cpu model", "cpu") and value.strip():
                    return value.strip()[:200]
    except OSError:
        return None
    return None
