"""Levers: what changes a job's speed without changing the user's code."""

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from modak.model.application import ApplicationType
from modak.model.base import Line, Model, Name, Positive, RuntimeName, Specifier, Text, VariableName

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
"""What an environment value may refer to: ``{threads}``, the lever's own number."""


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
    launch: Literal["live", "start"] | None = None
    """Switched on by ``modak/launch`` inside the application's Python interpreter, which has a lever of this name:
    ``live`` ones can be tried while the program runs, the others are on from the start."""
    threads: Positive | None = None
    """Threads per rank."""

    @model_validator(mode="after")
    def _placeholders(self) -> "Lever":
        for variable, value in self.environment.items():
            for name in PLACEHOLDER.findall(value):
                if name != "threads":
                    raise ValueError(f"{variable} refers to {{{name}}}; only {{threads}} is known")
                if self.threads is None:
                    raise ValueError(f"{variable} refers to {{threads}}, but the lever sets no threads")
        return self

    def variables(self) -> dict[str, str]:
        """Return the environment with its placeholders filled in."""
        return {k: v.replace("{threads}", str(self.threads)) for k, v in self.environment.items()}


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
