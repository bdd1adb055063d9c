"""What the user wants of the optimiser and of the scheduler."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from modak_deploy.model.base import (
    Duration,
    Line,
    Memory,
    Model,
    Name,
    NonNegative,
    Positive,
    RuntimeName,
    Text,
    VariableName,
)
from modak_deploy.model.trials import RestartBudget, Trials


class ExactConfiguration(Model):
    """One configuration, named in full: what is not named here is not on."""

    runtime: RuntimeName = "native"
    """What runs the application."""
    image: Line | None = None
    """A name of the catalogue or a reference; required where ``runtime`` is a container runtime."""
    engine: Name | None = None
    """One of the application's ``engines``; the framework itself when absent."""
    levers: list[Name] = []
    """The complete set of levers that are on; all others are off, even those that are on by default."""

    @model_validator(mode="after")
    def _complete(self) -> "ExactConfiguration":
        if self.runtime == "native" and self.image is not None:
            raise ValueError("an 'image' needs the container 'runtime' that runs it")
        if self.runtime != "native" and self.image is None:
            raise ValueError(f"the runtime '{self.runtime}' needs an 'image'")
        if twice := next((name for name in self.levers if self.levers.count(name) > 1), None):
            raise ValueError(f"the lever '{twice}' is named twice")
        return self


class Request(Model):
    """The optimisation options."""

    objective: Literal["time", "cost", "efficiency"] = "time"
    """What to minimise: time, cost, or time at a parallel efficiency of at least ``minimal_efficiency``."""
    numerics: Literal["exact", "relaxed"] = "exact"
    """``relaxed`` permits levers that change results by more than the order of additions: bf16, TF32, fast math."""
    runtimes: list[RuntimeName] | None = None
    """Runtimes to choose among; all that the target has when absent."""
    require_levers: list[Name] = []
    """Levers that must be on; others may be on as well. ``configuration`` names a complete set instead."""
    forbid_levers: list[Name] = []
    """Levers that must be off."""
    configuration: ExactConfiguration | None = None
    """Exactly the configuration to run, for instance to measure it, with the nodes, ranks and threads of ``job``. If it
    cannot run, planning fails with the reason."""
    trials: Trials = "live"
    """``live``: levers that ``numerics`` permits are tried while the program runs, if it is a Python program that uses
    PyTorch, ONNX Runtime, TensorFlow or Keras; the job's result lists the trials. ``survey``: all sets of such levers
    are measured in turns, whatever that costs this one job. ``none``: no trials. A mapping with ``budget`` also permits
    restart trials: before its actual run, the program is started several times in copies of its working directory."""
    catalogue: list[Line] = []
    """Folders, or https:// addresses of single files, with levers, images and hardware that are added to the catalogue
    or replace entries of the same name; later ones take precedence."""
    minimal_efficiency: float | None = Field(default=None, gt=0, le=1)
    """Lowest parallel efficiency, for the objective ``efficiency``."""
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Highest cost: nodes x hours x price of a node, or node-hours if nodes have no price."""
    deadline: Duration | None = None
    """Longest predicted time, in seconds; with the objective ``cost``, the cheapest candidate within it is chosen."""

    @property
    def tries_live(self) -> bool:
        """Whether levers may be tried while the program runs."""
        return self.trials.live if isinstance(self.trials, RestartBudget) else self.trials != "none"

    @property
    def surveys(self) -> bool:
        """Whether all sets of levers are measured while the program runs, in place of what the run can pay for."""
        return self.trials == "survey"

    @property
    def restart_budget(self) -> RestartBudget | None:
        """The permission to start the program several times; None without it."""
        return self.trials if isinstance(self.trials, RestartBudget) else None

    @model_validator(mode="after")
    def _nothing_left_to_choose(self) -> "Request":
        if self.configuration is None:
            return self
        chooses = {
            "runtimes": self.runtimes is not None,
            "require_levers": bool(self.require_levers),
            "forbid_levers": bool(self.forbid_levers),
            "minimal_efficiency": self.minimal_efficiency is not None,
            "objective": self.objective == "efficiency",
        }
        if key := next((key for key, given in chooses.items() if given), None):
            raise ValueError(f"'configuration' leaves nothing to choose: leave '{key}' out")
        return self


MailEvent = Literal[
    "begin",
    "end",
    "fail",
    "requeue",
    "invalid_depend",
    "stage_out",
    "time_limit",
    "time_limit_90",
    "time_limit_80",
    "time_limit_50",
    "array_tasks",
]
JobArray = Annotated[str, StringConstraints(pattern=r"^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$")]
Dependency = Annotated[
    str, StringConstraints(pattern=r"^(after|afterok|afternotok|afterany):[A-Za-z0-9_.\[\]-]+(:[A-Za-z0-9_.\[\]-]+)*$")
]
Scratch = Annotated[str, StringConstraints(pattern=r"^(/[^\x00\r\n]*|\$[A-Za-z_][A-Za-z0-9_]*)$")]


class JobOptions(Model):
    """Options of the job itself, named alike on every scheduler."""

    name: Name | None = None
    """The run's name; the application's when absent."""
    account: Line | None = None
    """Account or project to charge."""
    partition: Line | None = None
    """Partition or queue."""
    qos: Line | None = None
    """Quality of service."""
    wall_time: Duration | None = None
    """Longest run time in seconds, after which the scheduler ends the job."""
    nodes: Positive = 1
    """Number of nodes."""
    ranks: Positive | None = None
    """Number of ranks in total; one per node when absent."""
    ranks_per_node: Positive | None = None
    """Number of ranks on each node."""
    cores_per_rank: Positive | None = None
    """Number of cores for each rank."""
    threads: Positive | None = None
    """Threads per rank; ``cores_per_rank`` when absent, or 1 for several ranks without ``cores_per_rank``."""
    memory: Memory | None = None
    """Memory per node, in bytes."""
    memory_per_core: Memory | None = None
    """Memory per core, in bytes, in place of ``memory``."""
    gpus: NonNegative = 0
    """Number of GPUs per node."""
    constraint: Line | None = None
    """Node features, in the scheduler's syntax."""
    node_list: Line | None = None
    """Names of the nodes to run on, in the scheduler's syntax."""
    exclusive: bool = False
    """Share nodes with no other job."""
    array: JobArray | None = None
    """Task numbers of a job array, such as 1-10:2%4."""
    dependency: list[Dependency] = []
    """Other jobs to wait for, such as afterok:1234."""
    begin: Line | None = None
    """Earliest start time, ``YYYY-MM-DDTHH:MM[:SS]`` in the target's time zone."""
    output: Line | None = None
    """File for standard output, relative to the job's working directory."""
    error: Line | None = None
    """File for standard error, relative to the job's working directory."""
    join_output: bool = True
    """Write standard error to the same file as standard output."""
    mail_user: Line | None = None
    """Address for mail."""
    mail_events: list[MailEvent] = []
    """Events that cause mail. Only Slurm has more than the first three; on Torque and OpenPBS, ``fail`` means that the
    scheduler aborted the job, whatever its exit code."""
    export_environment: bool = False
    """Pass the submitter's whole environment to the job."""
    scratch: Scratch | None = None
    """Folder on the node's local disk, or ``$NAME`` for an environment variable of the job that names it. The
    application runs there, in a copy of its working directory; its outputs are copied back however it ends."""
    environment: dict[VariableName, Text] = {}
    """Environment variables of the whole job, by name."""
    modules: list[Line] = []
    """Environment modules to load, after those of the target."""
    pre_execution: Text | None = None
    """Shell lines that run before the application; if they fail, the job fails."""
    post_execution: Text | None = None
    """Shell lines that run after the application; the job keeps the application's exit code."""
    mpi_launcher: Literal["srun", "mpirun", "mpiexec", "none"] | None = None
    """Command that starts the ranks; the site's usual one when absent."""
    mpi: Literal["mpich", "openmpi", "mvapich", "intelmpi", "none"] | None = None
    """MPI library of the program; it determines the value for ``srun --mpi`` and the check of each rank's start. When
    absent, it is the library that the program is linked to. ``none`` is for programs whose ranks do not use MPI."""
    retry: bool = True
    """Whether a job that failed, was cancelled or timed out runs again when it is deployed again."""

    @model_validator(mode="after")
    def _layout_fits(self) -> "JobOptions":
        ranks, per_node = self.ranks, self.ranks_per_node
        if ranks is not None and per_node is not None and ranks > per_node * self.nodes:
            raise ValueError(f"{ranks} ranks do not fit on {self.nodes} nodes with {per_node} ranks per node")
        if self.memory is not None and self.memory_per_core is not None:
            raise ValueError("give 'memory' or 'memory_per_core', not both")
        if self.threads is not None and self.cores_per_rank is not None and self.threads > self.cores_per_rank:
            raise ValueError(f"{self.threads} threads do not fit on {self.cores_per_rank} cores per rank")
        return self

    def first_beyond(self, supported: Collection[str]) -> str | None:
        """Return the first option that is given and is none of the ``supported``; None where there is none."""
        fields = type(self).model_fields.items()
        given = (name for name, field in fields if getattr(self, name) != field.get_default(call_default_factory=True))
        return next((name for name in given if name not in supported), None)
