"""Where it is to be run: the target as described, and the facts found on it."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from modak_deploy.extensions import SCHEDULERS, TARGETS
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
from modak_deploy.model.kinds import TargetKind, kind_of
from modak_deploy.model.kubernetes import Kubernetes

ClusterType = Annotated[str, Registered(SCHEDULERS, without="process")]
TargetType = Annotated[str, Registered(TARGETS, SCHEDULERS, without="process")]


_OF_HOSTS = (
    *("host", "user", "port", "private_key", "known_hosts", "python", "images", "image_keys", "binds", "modules"),
    *("gpu_spelling", "parallel_environment", "mpi_type"),
)
"""What has no meaning where nobody logs in."""


def usual_scheduler(target: TargetType) -> SchedulerName:
    """Return the scheduler of a target of this type, unless another one stands in for it there."""
    return "process" if kind_of(target).single_node else target


class Polling(Model):
    """How often the queue is queried: after ``first`` seconds, then at intervals growing by half up to ``maximum``."""

    first: float = Field(default=2.0, gt=0, le=3600)
    """Seconds before the first status request."""
    maximum: float = Field(default=30.0, gt=0, le=3600)
    """Longest interval between two status requests, in seconds."""


class Accelerator(Model):
    """GPUs of one kind in one node."""

    model: Line
    """Model name as the vendor writes it, such as A100-SXM4-80GB."""
    count: Positive = 1
    """Number of GPUs of this kind in the node."""
    vendor: Literal["nvidia", "amd", "intel"] = "nvidia"
    """Vendor of the GPU."""
    memory: Memory | None = None
    """Memory of one GPU, in bytes."""
    driver: VersionText | None = None
    """Version of the driver on the node."""


class Node(Model):
    """The hardware of one node; what is unknown is absent."""

    cores: Positive | None = None
    """Number of cores that a job can use; hardware threads count as cores."""
    threads_per_core: Positive | None = None
    """Number of hardware threads that share one physical core (SMT)."""
    memory: Memory | None = None
    """Main memory that a job can use, in bytes."""
    microarchitecture: Name | None = None
    """Microarchitecture as archspec names it, such as zen5 or skylake_avx512."""
    cpu_model: Line | None = None
    """Model name, as in /proc/cpuinfo."""
    cpu_features: list[Line] = []
    """CPU flags, as in /proc/cpuinfo, such as avx512_bf16."""
    accelerators: list[Accelerator] = []
    """GPUs of the node, one entry for each kind."""
    price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of the node per hour, in the unit of ``request.budget``."""


class Partition(Model):
    """A partition (Slurm) or queue (Torque, OpenPBS, Grid Engine)."""

    name: Line
    """Name that jobs request it by."""
    default: bool = False
    """Whether jobs that name no partition go here."""
    available: bool = True
    """Whether it accepts jobs."""
    nodes: NonNegative | None = None
    """Number of nodes."""
    maximum_wall_time: Duration | None = None
    """Longest wall time of a job, in seconds; unlimited when absent."""
    node: Node = Node()
    """Hardware of its nodes."""


class NodeKind(Model):
    """Nodes of a partition that are alike, where others of it are not."""

    nodes: NonNegative
    """How many there are."""
    node: Node
    """Hardware of each of them."""


class Target(Model):
    """A machine or cluster, as its user describes it."""

    name: Name
    """Name of the target."""
    site: Name | None = Field(default=None, exclude=True)
    """Site that supplies the keys absent from this section; ``modak site list`` shows the sites."""
    type: TargetType = "machine"
    """A plain machine, an instance of a cloud, a cluster of Kubernetes, or the scheduler of a cluster."""
    host: HostName | None = None
    """Inventory or SSH host name; this machine when absent."""
    user: UserName | None = None
    """User to log in as; as configured for SSH when absent."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port of its SSH server; as configured for SSH when absent."""
    private_key: Line | None = None
    """SSH private key file on the controller; as configured for SSH when absent."""
    known_hosts: Line | None = None
    """File of known host keys on the controller, used instead of the user's own; a host that is not in it is refused. A
    host that is in the inventory is reached as its variables there say."""
    python: Line | None = None
    """The application's Python on the target, an absolute path or one in the home (``~/``); discovered when absent."""
    workspace: Line = "~/.modak"
    """Folder on the target, shared by its nodes, in which each job gets a folder of its own."""
    runtimes: list[RuntimeName] | None = None
    """Runtimes that the site permits; those discovered when absent."""
    images: Line | None = None
    """Folder on the target for container images, shared by its nodes; ``images`` in the workspace when absent."""
    image_keys: list[Line] = []
    """Files on the controller with public keys, PEM or PGP; if given, an image runs only if one of them signed it."""
    binds: list[Line] = []
    """Folders of the target that are mounted in containers at the same path, besides the home and the job's folder."""
    node: Node | None = None
    """Hardware of the node, where it cannot or should not be discovered."""
    partitions: list[Partition] = []
    """Partitions or queues; those discovered when empty."""
    modules: list[Line] = []
    """Environment modules that every job loads first."""
    gpu_spelling: Line | None = None
    """Option by which jobs request GPUs at this site, with ``{count}`` for the number per node, such as
    ``gres=gpu:a100:{count}`` or ``gpus-per-node={count}`` (Slurm), ``gpus={count}`` (Torque) or ``ngpus={count}``
    (OpenPBS); the scheduler's usual option when absent."""
    parallel_environment: Name | None = None
    """Parallel environment of Grid Engine for jobs with several ranks or cores; ``qconf -spl`` lists them."""
    mpi_type: Name | None = None
    """Value for ``srun --mpi``, such as pmi2 or pmix; Slurm's default when absent."""
    polling: Polling = Polling()
    """How often the queue is queried."""
    cloud: Cloud | None = None
    """The instance to create, for a target of type cloud."""
    kubernetes: Kubernetes | None = None
    """The namespace and what its Jobs need, for a target of type kubernetes; ``default`` of the current context when
    absent."""

    @property
    def kind(self) -> TargetKind:
        """What holds for all targets of its type."""
        return kind_of(self.type)

    @property
    def is_created(self) -> bool:
        """Whether it is an instance that a provider creates, so that nobody can ask it before."""
        return self.cloud is not None and self.cloud.provider != "existing"

    @property
    def is_asked(self) -> bool:
        """Whether it can be asked about itself; nobody logs in to a cluster of Kubernetes, for instance."""
        return not self.is_created and self.kind.has_login

    @model_validator(mode="after")
    def _partitions_need_a_queue(self) -> "Target":
        if self.kind.single_node and self.partitions:
            raise ValueError(f"a target of type {self.type} has no partitions")
        return self

    @model_validator(mode="after")
    def _cloud_is_described(self) -> "Target":
        has_section = self.kind.section == "cloud"
        if has_section and self.cloud is None:
            raise ValueError(f"a target of type {self.type} needs a section 'cloud'")
        if not has_section and self.cloud is not None:
            raise ValueError(f"a target of type {self.type} has no section 'cloud'; write 'type: cloud'")
        if self.cloud is not None and (self.host is None) == (self.cloud.provider == "existing"):
            needs = "needs a 'host'" if self.host is None else "has no 'host': its instance is created"
            raise ValueError(f"a target of the provider '{self.cloud.provider}' {needs}")
        return self

    @model_validator(mode="after")
    def _is_described_without_login(self) -> "Target":
        kind = self.kind
        if self.kubernetes is not None and kind.section != "kubernetes":
            raise ValueError(f"a target of type {self.type} has no section 'kubernetes'; write 'type: kubernetes'")
        if kind.has_login:
            return self
        if foreign := next((key for key in _OF_HOSTS if getattr(self, key)), None):
            raise ValueError(f"a target of type {self.type} has no '{foreign}': {kind.without_login}")
        for key in ("workspace", "polling"):
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"a target of type {self.type} has no '{key}': leave it out")
        if self.node is None or self.node.cores is None:
            raise ValueError(f"a target of type {self.type} needs 'node' with its 'cores': nodes are not asked")
        return self

    def identity(self) -> dict[str, Any]:
        """Return what makes a job on it another job: not how it is asked, nor what it is expected to have."""
        what = self.model_dump(mode="json", exclude={"polling", "node", "partitions", "private_key", "known_hosts"})
        if self.kubernetes is None:  # so that jobs of other targets keep their fingerprints
            del what["kubernetes"]
        if self.cloud is not None:  # which instance it is, and what becomes of it, is nothing that the job does
            what["cloud"] = {k: v for k, v in what["cloud"].items() if k not in ("deployment", "after_failure")}
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
    node_kinds: dict[str, list[NodeKind]] = {}
    """Kinds of nodes, the most frequent first, by the names of partitions that have several."""
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
