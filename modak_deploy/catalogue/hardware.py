"""Processors, accelerators and well-known networks: what a model needs to compare one with another."""

from typing import Annotated, Literal

from pydantic import Field

from modak_deploy.model.base import DeferredModel, Line, Memory, Name, Positive
from modak_deploy.model.measurement import Mix

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class AcceleratorEntry(DeferredModel):
    """One model of accelerator; peaks are the vendor's, dense."""

    name: Name
    also: list[Line] = []
    """Words by which drivers and publications call it; compared without case."""
    vendor: Literal["nvidia", "amd", "intel"]
    memory: Memory
    """Bytes of one device, as software counts devices."""
    bandwidth: Rate
    """GB/s between its memory and its processors."""
    tflops: Annotated[dict[Precision, Rate], Field(min_length=1)]
    """Peak TFLOP/s (TOP/s for int8) by precision."""
    source: Line
    """Where the figures come from."""


class ProcessorEntry(DeferredModel):
    """One model of processor; the peaks are cores x frequency x operations per cycle."""

    name: Name
    also: list[Line] = []
    """Words by which lscpu and publications call it; compared without case."""
    microarchitecture: Name
    """archspec's name."""
    cores: Positive
    """Physical cores of one socket."""
    frequency: Rate
    """Base frequency in GHz."""
    bandwidth: Rate
    """GB/s between one socket and its memory."""
    source: Line


class MicroarchitectureEntry(DeferredModel):
    """Floating-point operations per cycle and core, a fused multiply-add counting as two."""

    name: Name
    """archspec's name."""
    fp32: Positive
    bf16: Positive | None = None
    """Where the processor has bf16 arithmetic."""


class HardwareFile(DeferredModel):
    """One YAML file of hardware."""

    version: Literal[1]
    accelerators: list[AcceleratorEntry] = []
    processors: list[ProcessorEntry] = []
    microarchitectures: list[MicroarchitectureEntry] = []


class WorkloadEntry(DeferredModel):
    """A network that is known by its name."""

    name: Name
    """What ``application.workload.model`` calls it."""
    parameters: Positive
    layers: Positive
    flops: Rate
    """Floating-point operations of the forward pass for one sample."""
    bytes: Rate
    """Bytes moved in the forward pass for one sample."""
    mix: Mix
    """Shares of the operations."""
    source: Line


class WorkloadFile(DeferredModel):
    """One YAML file of workloads."""

    version: Literal[1]
    workloads: list[WorkloadEntry] = []
