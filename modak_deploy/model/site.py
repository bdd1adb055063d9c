"""What a site says of itself: target, options of its jobs, storage, and scripts that its jobs need under conditions."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from modak_deploy.extensions import SCHEDULERS
from modak_deploy.model.base import (
    DeferredModel,
    Duration,
    Line,
    Memory,
    Name,
    Positive,
    Registered,
    RuntimeName,
    Text,
    VersionText,
)
from modak_deploy.model.image import MpiLibrary
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target, TargetType

StorageClass = Literal["default-common", "default-high", "default-ssd", "default-ultra_high"]
StorageUrl = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9+.-]*://[^\x00-\x20]*$")]
SiteScheduler = Annotated[str, Registered(SCHEDULERS, also=["none"], without="process")]


class Storage(DeferredModel):
    """One storage location."""

    storage_class: StorageClass
    """How fast it is."""


class Cpu(DeferredModel):
    """One processor of a node."""

    arch: Literal["x86_64", "aarch64", "ppc64le"] = "x86_64"
    """Family."""
    microarch: Name | None = None
    """archspec's name, such as zen2."""
    ncores: Positive
    """Cores of one processor."""
    nthreads: Positive = 1
    """Hardware threads of one core; jobs are given cores."""


class Accel(DeferredModel):
    """The accelerators of a node."""

    type: Literal["nvidia", "amd", "intel"] = Field(default="nvidia")
    """Who made them."""
    model: Line
    """The maker's name, such as P100."""
    driver: VersionText | None = None
    """Version of the driver on the nodes."""


class SiteNode(DeferredModel):
    """The hardware of a partition's nodes."""

    ncpus: Positive
    """Processors (sockets)."""
    cpu: Cpu
    naccel: Annotated[int, Field(ge=0)] = 0
    """Accelerators of a node."""
    accel: Accel | None = None
    memory: Memory | None = None
    """Bytes of main memory."""

    @model_validator(mode="after")
    def _both(self) -> "SiteNode":
        if (self.naccel > 0) != (self.accel is not None):
            raise ValueError("'naccel' above 0 and 'accel' belong together: give both or none")
        return self


class SitePartition(DeferredModel):
    """A partition or queue."""

    nnodes: Positive
    """How many nodes it has."""
    default: bool = False
    """Jobs that name no partition go here."""
    maximum_wall_time: Duration | None = None
    """Seconds; absent means no limit."""
    node: SiteNode
    storage: dict[StorageUrl, Storage] = {}
    """Storage of this partition only, by its URL."""


class Infrastructure(DeferredModel):
    """One target that documents name."""

    name: Name
    description: Line | None = None
    enabled: bool = True
    """Jobs may be planned for it."""
    scheduler: SiteScheduler
    partitions: dict[Line, SitePartition] = {}
    """By name; ``*`` is the only one, which jobs need not name."""
    storage: dict[StorageUrl, Storage] = {}
    """Storage of all partitions, by its URL."""
    runtimes: dict[RuntimeName, VersionText] = {}
    """Container runtimes on the nodes, with their versions."""
    mpi: list[MpiLibrary] = []
    """MPI libraries on the nodes."""
    images: Line | None = None
    """Folder of the images that documents call ``private://NAME``, as an absolute path."""
    modules: list[Line] = []
    """Environment modules that each job loads first."""
    gpu_spelling: Line | None = None
    """How a job asks for GPUs, as in a target."""
    parallel_environment: Name | None = None
    """Parallel environment of Grid Engine for jobs with several ranks or cores."""
    mpi_type: Name | None = None
    """What ``srun --mpi`` needs here."""
    binds: list[Line] = []
    """Folders of the target that are mounted in containers at the same path."""
    specific_nodes: Literal["names", "property"] | None = None
    """What ``request_specific_nodes`` holds here: names on Slurm and a property on Torque when absent."""


def _scalar(value: object) -> object:
    if isinstance(value, str | bool | int | float):
        return value
    raise ValueError("must be text, a number or true or false")


Feature = Annotated[str | bool | int | float, BeforeValidator(_scalar)]


class ApplicationCondition(DeferredModel):
    """What the application must be."""

    name: Line | None = None
    """Its ``app_tag``, its ``app_type``, its framework or its kind of parallelisation."""
    feature: dict[Line, Feature] = {}
    """Fields of its optimisation section, by name, with the value that each must have."""


class InfrastructureCondition(DeferredModel):
    """What the target must be."""

    name: Line | None = None
    """Its name."""
    storage_class: StorageClass | None = None
    """The storage that the job asks for."""


class Conditions(DeferredModel):
    """All must hold; a script without any is for every job of the sites in its file."""

    application: ApplicationCondition = ApplicationCondition()
    infrastructure: InfrastructureCondition = InfrastructureCondition()


class ScriptData(DeferredModel):
    """What is run, and when."""

    stage: Literal["pre", "post"]
    """Before or after the application."""
    raw: Text
    """Shell lines."""


class SiteScript(DeferredModel):
    """Shell lines that jobs need under conditions."""

    name: Name
    description: Line | None = None
    conditions: Conditions = Conditions()
    data: ScriptData


class SiteTarget(Target):
    """The section ``target`` of documents, as far as the site knows it; a document's own keys replace these."""

    model_config = ConfigDict(defer_build=True)

    name: Name | None = None  # type: ignore[assignment]
    """Name of the target; the site's when absent."""
    type: TargetType | None = None  # type: ignore[assignment]
    """A plain machine, an instance of a cloud, or the scheduler of a cluster; a machine when absent everywhere."""

    @model_validator(mode="after")
    def _is_no_reference(self) -> "SiteTarget":
        if self.site is not None:
            raise ValueError("a site cannot refer to another site: remove 'site'")
        return self


class Software(DeferredModel):
    """What the nodes have; for documents of the job model, which are planned without asking the target."""

    runtimes: dict[RuntimeName, VersionText] = {}
    """Container runtimes, with their versions."""
    mpi: list[MpiLibrary] = []
    """MPI libraries."""


class SiteSettings(DeferredModel):
    """All settings of one site; several files may describe it, and their keys are merged."""

    description: Line | None = None
    """What the site is, for ``modak site list``."""
    enabled: bool = True
    """Jobs may be planned for it."""
    target: SiteTarget = SiteTarget()
    job: JobOptions = JobOptions()
    """Options of each job there, such as its account and partition; a document's own keys replace these."""
    catalogue: list[Line] = []
    """Folders, files and addresses of levers and images, relative to this file; a document's own come on top."""
    software: Software = Software()
    storage: dict[StorageUrl, Storage] = {}
    """Storage by its URL, for documents of the job model."""
    specific_nodes: Literal["names", "property"] | None = None
    """What ``request_specific_nodes`` of the job model holds here."""

    @model_validator(mode="after")
    def _job_is_for_all(self) -> "SiteSettings":
        for key in ("name", "array", "dependency"):
            if key in self.job.model_fields_set:
                raise ValueError(f"'job.{key}' belongs to one job: remove it here and write it into the document")
        return self


class SiteFile(DeferredModel):
    """One YAML file of sites."""

    version: Literal[1]
    sites: dict[Name, SiteSettings] = {}
    """Sites by the name that documents, blueprints and commands use."""
    infrastructures: list[Infrastructure] = []
    """Sites in the older form, which only documents of the job model can name."""
    scripts: list[SiteScript] = []
    """Shell lines of the job model's documents, for the sites of this file."""
