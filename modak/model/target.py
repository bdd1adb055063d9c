"""Where it is to be run: the target as described, and the facts found on it."""

from typing import Literal

from pydantic import Field, model_validator

from modak.model.base import Duration, Line, Memory, Model, Name, NonNegative, Positive, RuntimeName, VersionText

TargetType = Literal["machine", "slurm", "torque", "openpbs"]


class Polling(Model):
    """How often the queue is asked, in seconds: from ``first``, growing by half each time, to ``maximum``."""

    first: float = Field(default=2.0, gt=0, le=3600)
    maximum: float = Field(default=30.0, gt=0, le=3600)


class Accelerator(Model):
    """GPUs of one kind in one node."""

    model: Line
    count: Positive = 1
    vendor: Literal["nvidia", "amd", "intel"] = "nvidia"
    memory: Memory | None = None
    driver: VersionText | None = None


class Node(Model):
    """The hardware of one node; what is unknown is absent."""

    cores: Positive | None = None
    """Physical or virtual cores that a job can use."""
    memory: Memory | None = None
    microarchitecture: Name | None = None
    """archspec's name, such as zen5 or skylake_avx512."""
    cpu_model: Line | None = None
    cpu_features: list[Line] = []
    accelerators: list[Accelerator] = []


class Partition(Model):
    """A partition (Slurm) or queue (Torque, OpenPBS)."""

    name: Name
    default: bool = False
    available: bool = True
    nodes: NonNegative | None = None
    maximum_wall_time: Duration | None = None
    """Seconds; absent means no limit."""
    node: Node = Node()


class Target(Model):
    """A machine or cluster, as its user describes it."""

    name: Name
    type: TargetType = "machine"
    host: Line | None = None
    """Inventory or SSH host name; this machine when absent."""
    user: Line | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    python: Line | None = None
    """The application's Python on the target, as an absolute path; found when absent."""
    workspace: Line = "~/.modak"
    """Folder on the target, shared by its nodes, under which every job gets its own."""
    runtimes: list[RuntimeName] | None = None
    """Runtimes that the site permits; those found when absent."""
    images: Line | None = None
    """Folder on the target for container images, shared by its nodes; ``images`` in the workspace when absent."""
    image_keys: list[Line] = []
    """Public keys in PEM files on the controller: an image runs only with a signature by one of them, where given."""
    binds: list[Line] = []
    """Folders of the target that containers see at the same path, besides the home and the job's folder."""
    node: Node | None = None
    """The node's hardware, where it should not or cannot be discovered."""
    partitions: list[Partition] = []
    modules: list[Line] = []
    """Environment modules that each job loads first."""
    polling: Polling = Polling()

    @model_validator(mode="after")
    def _partitions_need_a_queue(self) -> "Target":
        if self.type == "machine" and self.partitions:
            raise ValueError("a target of type machine has no partitions")
        return self


class Facts(Model):
    """What discovery found on a target at one time."""

    hostname: Line | None = None
    """Name of the host that answered (a login node for a cluster)."""
    scheduler: Literal["slurm", "torque", "openpbs"] | None = None
    scheduler_version: Line | None = None
    node: Node = Node()
    """Hardware of the host that answered; for a cluster the default partition's nodes."""
    partitions: list[Partition] = []
    glibc: VersionText | None = None
    libraries: list[Line] = []
    """Shared libraries that levers may preload, by soname."""
    runtimes: dict[RuntimeName, VersionText] = {}
    """Container runtimes found, with their versions."""
    python: Line | None = None
    """The application's Python."""
    packages: dict[str, VersionText] = {}
    """Python packages that the application's Python sees, by normalised name."""
