"""Levers: what changes a job's speed without changing the user's code."""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from modak_deploy.catalogue.effects import (
    PLACEHOLDER,
    Cores,
    Effect,
    FileName,
    Run,
    ThreadCount,
    Use,
    applied,
    effects_of,
)
from modak_deploy.model.application import ApplicationType
from modak_deploy.model.base import Line, Model, Name, RuntimeName, Specifier, Text, VariableName

_SHORT = ("threads", "environment", "preload", "launcher", "launch")
"""Kinds of effects that stand beside a lever's other keys, in the order in which they are applied."""


class When(Model):
    """Conditions, all of which must hold; an absent one always does, one on an unknown fact never."""

    type: list[ApplicationType] | None = None
    """Kinds of application."""
    framework: Name | list[Name] | None = None
    """Frameworks that the application may be written for."""
    packages: dict[str, Specifier] = {}
    """Python packages, by normalised name, and the versions that will do."""
    without_packages: list[str] = []
    """Python packages that must not be there."""
    levers: list[Name] = []
    """Levers that must be on as well."""
    runs: Name | None = None
    """The framework that must do the arithmetic: the application's own, or what another lever puts in its place."""
    without_runs: list[Name] = []
    """Frameworks that must not do the arithmetic, since the lever has no effect on them."""
    compiler: Name | None = None
    """The graph compiler that must be on."""
    runtimes: list[RuntimeName] | None = None
    microarchitecture: Name | None = None
    """The lowest one, by archspec's partial order."""
    cpu_features: list[Line] = []
    cpu_features_any: list[Line] = []
    """At least one of these features of the processor."""
    accelerator: Literal["none", "nvidia", "amd", "intel"] | None = None
    """Vendor of the GPUs that the job asks for; ``none`` when it asks for none."""
    glibc: Specifier | None = None
    library: Line | None = None
    """Soname of a shared library that the target has."""
    cores: Specifier | None = None
    """Number of the node's cores."""


class Lever(Model):
    """One lever: its conditions and what it sets."""

    name: Name
    group: Name
    """At most one lever of a group is on."""
    conflicts: list[Name] = []
    """Levers of other groups that cannot be on together with it."""
    default: bool = False
    """What the software does by itself; one per group at most."""
    summary: Line
    numerics: Literal["exact", "relaxed"] = "exact"
    runs: Name | None = None
    """The framework that does the arithmetic with this lever on."""
    compiler: Name | None = None
    """The graph compiler that the lever switches on; an image must have it inside."""
    when: When = When()
    environment: dict[VariableName, Text] = {}
    preload: Line | None = None
    """Soname for LD_PRELOAD."""
    launcher: FileName | None = None
    """A file of the catalogue's launchers folder that starts the script."""
    launch: Literal["live", "start", "either"] | None = None
    """Switched on by ``modak_deploy/launch`` inside the application's Python interpreter, which has a lever of this
    name:
    ``live`` ones can be tried while the program runs, ``start`` ones are on from the start, and ``either`` is for those
    whose switching costs so much that short jobs try them by restarts only."""
    kept: bool = False
    """Whether what the launcher makes for it is kept for later jobs."""
    ranks: bool = False
    """Whether the ranks of a training can switch it together while they run."""
    irreversible: bool = False
    """Whether nothing undoes it while the program runs, so that no survey can measure it in turns with others."""
    threads: ThreadCount | None = None
    """Threads per rank: a number, or ``all``, ``half`` or ``physical`` of the cores that a rank has."""
    effects: dict[Name, JsonValue] = {}
    """What else it does, by kind: ``prefix`` (program and arguments that start the command line), ``arguments`` (that
    follow the application's own), ``packing`` (``gzip``, ``zstd``, ``lz4`` or ``none`` for an image file that is made),
    ``session`` (options of ONNX Runtime's sessions), or a kind of another distribution; see docs/extending.md."""

    @model_validator(mode="after")
    def _placeholders(self) -> "Lever":
        for variable, value in self.environment.items():
            for name in PLACEHOLDER.findall(value):
                if name != "threads":
                    raise ValueError(f"{variable} refers to {{{name}}}; only {{threads}} is known")
                if self.threads is None:
                    raise ValueError(f"{variable} refers to {{threads}}, but the lever sets no threads")
        return self

    @model_validator(mode="after")
    def _kinds(self) -> "Lever":
        if twice := [kind for kind in _SHORT if kind in self.effects]:
            raise ValueError(f"effects: '{twice[0]}' is a key of the lever itself; write it there")
        _ = self.all_effects
        return self

    @cached_property
    def all_effects(self) -> list[Effect[Any]]:
        """All that it does, in the order in which it is applied."""
        short = {kind: value for kind in _SHORT if (value := getattr(self, kind))}
        return effects_of(short, self.effects)

    @cached_property
    def run(self) -> Run:
        """What it makes of a run by itself."""
        return applied([self.all_effects])

    @cached_property
    def _runs(self) -> dict[tuple[int | None, int | None], Run]:
        return {}

    def run_with(self, cores: Cores) -> Run:
        """Return what it makes of a run by itself where a rank has these cores; nobody changes it."""
        # A decision asks some ten times for each lever: the hash of a tuple takes a tenth of that of a data class.
        key = (cores.count, cores.threads_per_core)
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = applied([self.all_effects], cores)
        return run

    def excludes(self, other: "Lever") -> bool:
        """Tell whether the two cannot be on together."""
        if other.name == self.name:
            return False
        return self.group == other.group or other.name in self.conflicts or self.name in other.conflicts

    def fault(self, use: Use) -> str | None:
        """Return why one of its effects cannot be used, as one clause; None where all can."""
        return next((fault for effect in self.all_effects if (fault := effect.fault(use))), None)

    def variables(self, cores: Cores | None = None) -> dict[str, str]:
        """Return the environment variables that it sets where a rank has these cores, with LD_PRELOAD."""
        run = self.run if cores is None else self.run_with(cores)
        preload = {"LD_PRELOAD": ":".join(run.preload)} if run.preload else {}
        return {**run.environment, **preload}


class Group(Model):
    """Levers that exclude each other."""

    name: Name
    summary: Line
    required: bool = False
    """One of its levers must be on when the application is of ``framework``, or nothing can run."""
    framework: Name | None = None

    @model_validator(mode="after")
    def _framework_of_required(self) -> "Group":
        if self.required and self.framework is None:
            raise ValueError("a required group needs the 'framework' that requires it")
        return self


class LeverFile(Model):
    """One YAML file of levers."""

    version: Literal[1]
    groups: Annotated[list[Group], Field(max_length=1000)] = []
    levers: Annotated[list[Lever], Field(max_length=10000)] = []
    packages: dict[str, list[str]] = {}
    """Other distributions that provide a package, such as tensorflow-cpu for tensorflow."""
