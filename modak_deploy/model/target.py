"""Where it is to be run: the target as described, and the facts found on it."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from modak_deploy.extensions import SCHEDULERS
from modak_deploy.model.base import (
    Duration,
    HostName,
    Line,
    Memory,
    Model,
    Name,
    NonNegative,
    Positive,
    Registered,
    RuntimeName,
    SchedulerName,
    UserName,
    VersionText,
)
from modak_deploy.model.cloud import Cloud
from modak_deploy.model.image import MpiLibrary
from modak_deploy.model.kubernetes import Kubernetes

ClusterType = Annotated[str, Registered(SCHEDULERS, without="process")]
TargetType = Annotated[str, Registered(SCHEDULERS, also=["machine", "cloud", "kubernetes"], without="process")]
SINGLE_NODE = frozenset({"machine", "cloud", "kubernetes"})
"""Types of targets that are one node without a queue."""


_OF_HOSTS = (
    *("host", "user", "port", "private_key", "known_hosts", "python", "images", "image_keys", "binds", "modules"),
    *("gpu_spelling", "parallel_environment", "mpi_type"),
)
"""What has no meaning on a cluster of Kubernetes, where nobody logs in."""


def usual_scheduler(target: TargetType) -> SchedulerName:
    """Return the scheduler of a target of this type, unless another one stands in for it there."""
    return "process" if target in SINGLE_NODE else target


class Polling(Model):
    """How often the queue is asked, in seconds: from ``first``, growing by half each time, to ``maximum``."""

    first: float = Field(default=2.0, gt=0, le=3600)
    """Seconds to the first question."""
    maximum: float = Field(default=30.0, gt=0, le=3600)
    """Longest pause between two questions, in seconds."""


class Accelerator(Model):
    """GPUs of one kind in one node."""

    model: Line
    """The maker's name, such as A100-SXM4-80GB."""
    count: Positive = 1
    """GPUs of this kind in the node."""
    vendor: Literal["nvidia", "amd", "intel"] = "nvidia"
    """Who made it."""
    memory: Memory | None = None
    """Bytes of memory of one GPU."""
    driver: VersionText | None = None
    """Version of the driver on the node."""


class Node(Model):
    """The hardware of one node; what is unknown is absent."""

    cores: Positive | None = None
    """Physical or virtual cores that a job can use."""
    threads_per_core: Positive | None = None
    """How many of them share one physical core (SMT)."""
    memory: Memory | None = None
    """Bytes of main memory that a job can use."""
    microarchitecture: Name | None = None
    """archspec's name, such as zen5 or skylake_avx512."""
    cpu_model: Line | None = None
    """The maker's name, as in /proc/cpuinfo."""
    cpu_features: list[Line] = []
    """Features as in the flags of /proc/cpuinfo, such as avx512_bf16."""
    accelerators: list[Accelerator] = []
    """The node's GPUs, one entry for each kind."""
    price: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Price of the node for an hour, in the unit of the request's budget."""


class Partition(Model):
    """A partition (Slurm) or queue (Torque, OpenPBS, Grid Engine)."""

    name: Line
    """Name by which jobs ask for it."""
    default: bool = False
    """Jobs that name no partition go here."""
    available: bool = True
    """It takes jobs."""
    nodes: NonNegative | None = None
    """How many nodes it has."""
    maximum_wall_time: Duration | None = None
    """Seconds; absent means no limit."""
    node: Node = Node()
    """Hardware of its nodes."""


class Target(Model):
    """A machine or cluster, as its user describes it."""

    name: Name
    """Name of the target."""
    site: Name | None = Field(default=None, exclude=True)
    """Site whose settings hold where this section is silent; ``modak site list`` shows the sites."""
    type: TargetType = "machine"
    """A plain machine, an instance of a cloud, a cluster of Kubernetes, or the scheduler of a cluster."""
    host: HostName | None = None
    """Inventory or SSH host name; this machine when absent."""
    user: UserName | None = None
    """User to log in as; SSH's own choice when absent."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port of its SSH server; SSH's own choice when absent."""
    private_key: Line | None = None
    """SSH private key file on the controller; SSH's own choice when absent."""
    known_hosts: Line | None = None
    """File of known host keys on the controller, in place of the user's own; host keys are always checked."""
    python: Line | None = None
    """The application's Python on the target, an absolute path or one in the home (``~/``); found when absent."""
    workspace: Line = "~/.modak"
    """Folder on the target, shared by its nodes, under which every job gets its own."""
    runtimes: list[RuntimeName] | None = None
    """Runtimes that the site permits; those found when absent."""
    images: Line | None = None
    """Folder on the target for container images, shared by its nodes; ``images`` in the workspace when absent."""
    image_keys: list[Line] = []
    """Public keys, PEM or PGP, in files on the controller: an image runs only with a signature by one of them."""
    binds: list[Line] = []
    """Folders of the target that containers see at the same path, besides the home and the job's folder."""
    node: Node | None = None
    """The node's hardware, where it should not or cannot be discovered."""
    partitions: list[Partition] = []
    """Partitions or queues; those found when empty."""
    modules: list[Line] = []
    """Environment modules that each job loads first."""
    gpu_spelling: Line | None = None
    """How a job asks this site for GPUs, with ``{count}`` for their number on a node: ``gres=gpu:a100:{count}`` or
    ``gpus-per-node={count}`` (Slurm), ``gpus={count}`` (Torque), ``ngpus={count}`` (OpenPBS); the scheduler's usual one
    when absent."""
    parallel_environment: Name | None = None
    """Grid Engine's parallel environment for jobs with several ranks or cores; ``qconf -spl`` lists the site's."""
    mpi_type: Name | None = None
    """What ``srun --mpi`` needs here, such as pmi2 or pmix; Slurm's own default when absent."""
    polling: Polling = Polling()
    """How often the queue is asked."""
    cloud: Cloud | None = None
    """The instance to create, for a target of type cloud."""
    kubernetes: Kubernetes | None = None
    """The namespace and what its Jobs need, for a target of type kubernetes; ``default`` of the current context when
    absent."""

    @property
    def is_created(self) -> bool:
        """Whether it is an instance that a provider creates, so that nobody can ask it before."""
        return self.cloud is not None and self.cloud.provider != "existing"

    @property
    def is_asked(self) -> bool:
        """Whether it can be asked about itself; nobody logs in to a cluster of Kubernetes."""
        return not self.is_created and self.type != "kubernetes"

    @model_validator(mode="after")
    def _partitions_need_a_queue(self) -> "Target":
        if self.type in SINGLE_NODE and self.partitions:
            raise ValueError(f"a target of type {self.type} has no partitions")
        return self

    @model_validator(mode="after")
    def _cloud_is_described(self) -> "Target":
        if self.type == "cloud" and self.cloud is None:
            raise ValueError("a target of type cloud needs a section 'cloud'")
        if self.type != "cloud" and self.cloud is not None:
            raise ValueError(f"a target of type {self.type} has no section 'cloud'; write 'type: cloud'")
        if self.cloud is not None and (self.host is None) == (self.cloud.provider == "existing"):
            needs = "needs a 'host'" if self.host is None else "has no 'host': its instance is created"
            raise ValueError(f"a target of the provider '{self.cloud.provider}' {needs}")
        return self

    @model_validator(mode="after")
    def _cluster_is_described(self) -> "Target":
        if self.type != "kubernetes":
            if self.kubernetes is not None:
                raise ValueError(f"a target of type {self.type} has no section 'kubernetes'; write 'type: kubernetes'")
            return self
        if foreign := next((key for key in _OF_HOSTS if getattr(self, key)), None):
            raise ValueError(f"a target of type kubernetes has no '{foreign}': its API server is named by KUBECONFIG")
        if self.node is None or self.node.cores is None:
            raise ValueError("a target of type kubernetes needs 'node' with its 'cores': nodes are not asked")
        return self

    def identity(self) -> dict[str, Any]:
        """Return what makes a job on it another job: not how it is asked, nor what it is expected to have."""
        what = self.model_dump(mode="json", exclude={"polling", "node", "partitions", "private_key", "known_hosts"})
        if self.kubernetes is None:  # so that jobs of other targets keep their fingerprints
            del what["kubernetes"]
        return what


class FileSystem(Model):
    """The file system that a folder is on, as it was at one time."""

    mount: Line
    """Where it is mounted."""
    type: Line | None = None
    """As in /proc/mounts, such as lustre, nfs4 or ext4."""
    size: NonNegative
    """Bytes in all."""
    free: NonNegative
    """Bytes that an ordinary user can still write; quotas may leave less."""


class Facts(Model):
    """What discovery found on a target at one time."""

    hostname: Line | None = None
    """Name of the host that answered (a login node for a cluster)."""
    scheduler: ClusterType | None = None
    scheduler_version: Line | None = None
    wrapped: bool = False
    """Slurm's wrappers stand in for Torque's commands."""
    node: Node = Node()
    """Hardware of the host that answered; for a cluster the default partition's nodes."""
    partitions: list[Partition] = []
    glibc: VersionText | None = None
    libraries: list[Line] = []
    """Shared libraries that levers may preload, by soname."""
    runtimes: dict[RuntimeName, VersionText] = {}
    """Container runtimes found, with their versions."""
    mpi: list[MpiLibrary] = []
    """MPI libraries found."""
    mpi_types: list[Line] = []
    """What ``srun --mpi`` takes here."""
    file_systems: dict[Literal["home", "workspace"], FileSystem] = {}
    """Where the user's home and the workspace are; empty in a Plan, which figures of one moment would make another."""
    python: Line | None = None
    """The application's Python."""
    packages: dict[str, VersionText] = {}
    """Python packages that the application's Python sees, by normalised name."""

    def lasting(self) -> "Facts":
        """Return the facts without those that change from one moment to the next."""
        return self.model_copy(update={"file_systems": {}})
