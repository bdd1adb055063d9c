"""The four collections: their bodies, and what the job model makes of scripts and infrastructures."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from modak_deploy.documents import check
from modak_deploy.model.base import Memory, Model, Name, Positive, Text
from modak_deploy.model.site import Infrastructure, SiteScript, StorageClass, StorageUrl

Line = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00\r\n]*$")]


def _seconds(text: str) -> float:
    """Return a time in seconds since 1970, infinity for none; ValueError for a text that is no time."""
    if not text:
        return math.inf
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _check_time(text: str) -> str:
    try:
        _seconds(text)
    except ValueError:
        raise ValueError(f"'{text[:80]}' is not a time such as 2026-12-31T18:00:00Z") from None
    return text


Time = Annotated[Line, AfterValidator(_check_time)]
"""A time as ISO 8601 writes it, in UTC where it names no zone; empty for never."""


class ApplicationCondition(Model):
    """What the application must be."""

    name: Line | None = None
    feature: dict[Line, str | bool | int | float] = {}


class InfrastructureCondition(Model):
    """What the target must be."""

    name: Line | None = None
    storage_class: StorageClass | None = None


class Conditions(Model):
    """All must hold."""

    application: ApplicationCondition | None = None
    infrastructure: InfrastructureCondition | None = None


class ScriptData(Model):
    """When a script is run, and its text."""

    stage: Literal["pre", "post"]
    raw: Text


class Script(Model):
    """Shell lines that jobs need under conditions."""

    description: Line | None = None
    conditions: Conditions = Conditions()
    data: ScriptData


class Storage(Model):
    """One storage location."""

    storage_class: StorageClass


class Accel(Model):
    """The accelerators of a node."""

    type: Literal["nvidia", "amd", "intel"]
    model: Line


class Cpu(Model):
    """One processor."""

    arch: Literal["x86_64", "aarch64", "ppc64le"] = "x86_64"
    microarch: Name | None = None
    ncores: Positive
    nthreads: Positive = 1


class Node(Model):
    """One node of a partition."""

    ncpus: Positive
    cpu: Cpu
    naccel: Annotated[int, Field(ge=0)] = 0
    accel: Accel | None = None
    memory: Memory | None = None
    storage: dict[StorageUrl, Storage] = {}


class Partition(Model):
    """A partition or queue."""

    nnodes: Positive
    default: bool = False
    node: Node


class Configuration(Model):
    """What an infrastructure is made of."""

    scheduler: Literal["slurm", "torque", "openpbs", "none"]
    storage: dict[StorageUrl, Storage] = {}
    partitions: dict[Line, Partition] = {}


class SiteBody(Model):
    """One target that documents name."""

    name: Name
    disabled: Time | None = None
    """A time from which on it takes no jobs, in UTC where it names no zone; empty for never."""
    description: Line | None = None
    configuration: Configuration


class ScalingModel(Model):
    """How an application scales."""

    name: Literal["amdahl", "noscale", "max"]
    F: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    max: Positive | None = None


class Scaling(Model):
    """A scaling model of one application."""

    opt_dsl_code: Line
    model: ScalingModel


class MappingTarget(Model):
    """The hardware of an image."""

    cpu_type: Line | None = None
    acc_type: Line | None = None


class ContainerMapping(Model):
    """An image for an application."""

    opt_dsl_code: Line
    app_name: Line | None = None
    version: Line | None = None
    enable_opt_build: bool | None = None
    target: MappingTarget | None = None
    selectors: dict[Line, Line] = {}
    container_name: Line
    container_type: Literal["docker", "shub"] = "docker"
    container_registry: Line | None = None


BODIES: Mapping[str, type[Model]] = {
    "scripts": Script,
    "infrastructures": SiteBody,
    "scaling_models": Scaling,
    "container_mappings": ContainerMapping,
}
"""Collections, and what each of their entries must be."""
KEYS = {"infrastructures": "name", "scaling_models": "opt_dsl_code", "container_mappings": "opt_dsl_code"}
"""By which an entry is recognised as there already; scripts by all of their content."""


def check_entry(collection: str, data: Any) -> None:
    """Raise InputError for an entry that is none, or that the job model could not use."""
    check(BODIES[collection], data, origin="request")
    if collection == "infrastructures":
        infrastructure(data)


def disabled_from(data: Mapping[str, Any]) -> float:
    """Return the time from which on an infrastructure takes no jobs, in seconds since 1970.

    An entry that was kept before this was checked may have another text, which has always disabled it.
    """
    try:
        return _seconds(data.get("disabled") or "")
    except ValueError:
        return -math.inf


def infrastructure(data: Mapping[str, Any], *, enabled: bool = True) -> Infrastructure:
    """Return an entry as the job model's own description of a site."""
    configuration = data["configuration"]
    partitions = {}
    for name, partition in configuration.get("partitions", {}).items():
        node = {key: value for key, value in partition["node"].items() if key != "storage"}
        partitions[name] = {**partition, "node": node, "storage": partition["node"].get("storage", {})}
    site = {
        "name": data["name"],
        "description": data.get("description"),
        "enabled": enabled,
        "scheduler": configuration["scheduler"],
        "storage": configuration.get("storage", {}),
        "partitions": partitions,
    }
    return check(Infrastructure, site, origin="request")


def script(identifier: str, data: Mapping[str, Any]) -> SiteScript:
    """Return an entry as a script of a site."""
    given = {key: value for key, value in data.items() if key in ("description", "conditions", "data")}
    return check(SiteScript, {"name": f"script-{identifier}", **given}, origin="request")
