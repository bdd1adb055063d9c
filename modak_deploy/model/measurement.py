"""What was measured: one workload, on one hardware, with one configuration, every single value kept."""

from datetime import date
from functools import cached_property
from statistics import median
from typing import Annotated, Literal

from pydantic import Field, model_validator

from modak_deploy.model.application import ApplicationType, Workload
from modak_deploy.model.base import (
    Line,
    Model,
    Name,
    NonNegative,
    Positive,
    RuntimeName,
    SecondsAboveZero,
    Text,
    VersionText,
)

Factor = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]
"""How many times as fast something is."""
Operator = Literal["convolution", "dense", "attention", "recurrent"]
Mix = dict[Operator, Annotated[float, Field(gt=0, le=1)]]
"""Shares of a workload's operations by their kind."""
Bf16 = Literal["vector", "matrix"]
"""Units of a processor that compute in bf16."""


class Hardware(Model):
    """The node that the work ran on."""

    microarchitecture: Name | None = None
    """archspec's name."""
    cpu_model: Line | None = None
    """The processor's own name, as lscpu prints it."""
    bf16: Bf16 | None = Field(default=None, exclude_if=lambda value: value is None)
    """Units of the processor that compute in bf16, where its features were seen and it has any."""
    cores: Positive | None = None
    memory: Positive | None = None
    """Bytes."""
    accelerator: Line | None = None
    """Model of the accelerator that was used; absent when the work ran on the processor."""
    accelerators: NonNegative = 0
    """How many of them were used on a node."""

    def identity(self, *besides: str) -> str:
        """Return as text what tells one node from another, without the fields ``besides``.

        Records of before there was ``bf16`` are of the same node as those since.
        """
        return self.model_dump_json(exclude={"bf16", *besides})


class Configuration(Model):
    """The candidate that was measured."""

    runtime: RuntimeName = "native"
    image: Name | None = None
    """Name of the image in the catalogue."""
    framework: Name | None = None
    """The framework or engine that did the work, where the workload does not say it."""
    compiler: Name | None = None
    levers: list[Name] = []
    nodes: Positive = 1
    ranks: Positive = 1
    threads: Positive | None = None
    """Threads per rank; what the software does by itself when absent."""

    @model_validator(mode="after")
    def _levers_differ(self) -> "Configuration":
        if twice := next((name for name in self.levers if self.levers.count(name) > 1), None):
            raise ValueError(f"the lever '{twice}' is named twice")
        return self


class Run(Model):
    """One run: the seconds of its phases, or of the whole."""

    total: SecondsAboveZero | None = None
    """Wall seconds of the whole process; absent in a record of steady time alone."""
    first: SecondsAboveZero | None = None
    """Seconds of the first unit, compilation included."""
    later: list[SecondsAboveZero] = []
    """Seconds of each later unit."""
    block: NonNegative | None = None
    """Runs of one file with the same block were made next to each other, in random order."""
    load: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """One-minute load average of the machine just before."""
    time: Positive | None = None
    """Start, in seconds since the epoch."""
    accuracy: float | None = Field(default=None, ge=0, le=1)
    """The result's quality, where the workload has one."""

    @model_validator(mode="after")
    def _phases_fit(self) -> "Run":
        if self.total is None and not self.later and self.first is None:
            raise ValueError("a run needs 'total', 'first' or 'later'")
        units = (self.first or 0.0) + sum(self.later)
        if self.total is not None and units > self.total:
            raise ValueError(f"the units take {units:.4f} s, longer than the total of {self.total} s")
        return self

    @cached_property
    def start(self) -> float | None:
        """Seconds outside all units: start of the process, reading of data, the end."""
        if self.total is None or self.first is None:
            return None
        # Rounding: 0.8 s are no less than 0.1, 0.3 and 0.4 s, as ``_phases_fit`` adds them up.
        return max(self.total - self.first - sum(self.later), 0.0)

    @cached_property
    def later_unit(self) -> float | None:
        """Median of the seconds of the later units."""
        return median(self.later) if self.later else None


class Summary(Model):
    """What a publication gives in place of single values, in seconds of the whole run, or of all its units alone."""

    mean: SecondsAboveZero
    deviation: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    minimum: SecondsAboveZero | None = None
    maximum: SecondsAboveZero | None = None
    count: Positive | None = None
    steady: Literal[True] | None = None
    """Whether it is the time of all units without the start of a process, as a latency is that of one."""

    @model_validator(mode="after")
    def _ordered(self) -> "Summary":
        if self.minimum is not None and self.minimum > self.mean:
            raise ValueError(f"the minimum {self.minimum} is above the mean {self.mean}")
        if self.maximum is not None and self.maximum < self.mean:
            raise ValueError(f"the maximum {self.maximum} is below the mean {self.mean}")
        return self


class Provenance(Model):
    """Where the values come from."""

    source: Line
    """The program that measured, or the publication."""
    place: Line | None = None
    """Page, table or section of a publication."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")]
    method: Text
    """How it was measured, in a sentence."""

    @model_validator(mode="after")
    def _is_a_day(self) -> "Provenance":
        try:
            date.fromisoformat(self.date + "-01-01"[len(self.date) - 4 :])
        except ValueError:
            raise ValueError(f"the date '{self.date}' is not a calendar date") from None
        return self


class Measurement(Model):
    """Runs of one configuration of one workload on one hardware."""

    schema_: Literal["modak.measurement/1"] = Field(default="modak.measurement/1", alias="schema")
    type: ApplicationType
    framework: Name | None = None
    """The framework that the application is written for."""
    workload: Workload
    software: dict[str, VersionText] = {}
    """Versions by normalised package name."""
    hardware: Hardware
    configuration: Configuration
    kind: Literal["trial"] | None = None
    """``trial``: units of work of a job that tried several configurations while it ran; whole runs when absent."""
    failed: list[Name] | None = None
    """Levers that the job tried and could not use: their results differed, or they ended with an error."""
    slower_at_first: list[Name] | None = None
    """Levers that took long to be made ready and were given up after one unit, which may have been their warming up:
    later jobs try them last."""
    mix: Mix | None = None
    """Shares of the workload's operations, as the launcher saw them in the running model."""
    runs: list[Run] = []
    summary: Summary | None = None
    provenance: Provenance

    @model_validator(mode="after")
    def _has_values(self) -> "Measurement":
        if bool(self.runs) == (self.summary is not None):
            raise ValueError("exactly one of 'runs' and 'summary' must be given")
        if self.workload.model is None:
            raise ValueError("the workload needs a 'model', by which measurements are matched")
        return self

    @cached_property
    def by_phases(self) -> bool:
        """Whether every run gives the seconds of its start and of later units."""
        return bool(self.runs) and all(bool(run.later) and run.start is not None for run in self.runs)

    @cached_property
    def setting(self) -> tuple[str, str, str]:
        """Hardware, workload and software as text, which a decision compares for each record."""
        return (
            self.hardware.identity(),
            self.workload.model_dump_json(),
            str(sorted(self.software.items())),
        )


class Ratio(Model):
    """How much faster one configuration was than another, where a publication gives no seconds."""

    schema_: Literal["modak.ratio/1"] = Field(default="modak.ratio/1", alias="schema")
    type: ApplicationType
    framework: Name | None = None
    workload: Workload
    software: dict[str, VersionText] = {}
    hardware: Hardware
    configuration: Configuration
    baseline: Configuration
    quantity: Literal["total", "steady"]
    """Whether the whole run or one later unit was compared."""
    low: Factor
    """Time of the baseline over time of the configuration; ``low`` to ``high`` are the readings that the publication's
    words allow."""
    high: Factor
    provenance: Provenance

    @model_validator(mode="after")
    def _compares(self) -> "Ratio":
        if self.low > self.high:
            raise ValueError(f"the ratio's low end {self.low} is above its high end {self.high}")
        if self.configuration == self.baseline:
            raise ValueError("the configuration and its baseline are the same")
        if self.workload.model is None:
            raise ValueError("the workload needs a 'model', by which measurements are matched")
        return self

    @cached_property
    def setting(self) -> tuple[str, str, str]:
        """Hardware, workload and no software as text, which a decision compares for each record."""
        return (self.hardware.identity(), self.workload.model_dump_json(), "")


Record = Annotated[Measurement | Ratio, Field(discriminator="schema_")]
"""What a line of a measurement file holds."""
