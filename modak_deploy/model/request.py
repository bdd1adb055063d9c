"""What the user wants of the optimiser and of the scheduler."""

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
    """All levers that are on; none of the others is, not even one that is on by default."""

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
    """What is made least: time, cost, or time at no less than ``minimal_efficiency``."""
    numerics: Literal["exact", "relaxed"] = "exact"
    """``relaxed`` permits levers that change results beyond the order of additions: bf16, TF32, fast math."""
    runtimes: list[RuntimeName] | None = None
    """Runtimes to choose among; all that the target has when absent."""
    require_levers: list[Name] = []
    """Levers that must be on; others may be on as well. See ``configuration`` for exactly one set of levers."""
    forbid_levers: list[Name] = []
    """Levers that must be off."""
    configuration: ExactConfiguration | None = None
    """The one configuration to run, for a measurement of just that: the Plan holds exactly this, with the nodes, ranks
    and threads of ``job``, or is refused with the reason."""
    trials: Trials = "live"
    """``live``: levers that ``numerics`` permits are tried while the program runs, in Python programs of PyTorch and
    ONNX Runtime; what was tried is in the job's result. ``none``: the program runs as the Plan starts it. A mapping
    with ``budget`` permits restart trials, too: the program is started several times, in copies of its working
    directory, before its one run."""
    catalogue: list[Line] = []
    """Folders, or https:// addresses of single files, with levers, images and hardware that add to the catalogue or
    replace entries of the same name; a later one wins."""
    minimal_efficiency: float | None = Field(default=None, gt=0, le=1)
    """Parallel efficiency to keep, for the objective ``efficiency``."""
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Highest cost: nodes x hours x the price of a node, or node-hours where it has none."""
    deadline: Duration | None = None
    """Longest predicted time in seconds: with the objective ``cost``, the cheapest way that keeps to it."""

    @property
    def tries_live(self) -> bool:
        """Whether levers may be tried while the program runs."""
        return self.trials.live if isinstance(self.trials, RestartBudget) else self.trials == "live"

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
    """Account or project that is charged."""
    partition: Line | None = None
    """Partition or queue."""
    qos: Line | None = None
    """Quality of service."""
    wall_time: Duration | None = None
    """Longest run time in seconds, after which the scheduler ends the job."""
    nodes: Positive = 1
    """How many nodes."""
    ranks: Positive | None = None
    """Processes in total; 1 per node when absent."""
    ranks_per_node: Positive | None = None
    """Processes on each node."""
    cores_per_rank: Positive | None = None
    """Cores for each process."""
    threads: Positive | None = None
    """Threads per rank; as many as ``cores_per_rank`` when absent, and one where several ranks have neither."""
    memory: Memory | None = None
    """Bytes per node."""
    memory_per_core: Memory | None = None
    """Bytes per core, in place of ``memory``."""
    gpus: NonNegative = 0
    """GPUs per node."""
    constraint: Line | None = None
    """Node features, in the scheduler's own words."""
    node_list: Line | None = None
    """Names of the nodes to run on, in the scheduler's own words."""
    exclusive: bool = False
    """Share no node with other jobs."""
    array: JobArray | None = None
    """Task numbers of a job array, such as 1-10:2%4."""
    dependency: list[Dependency] = []
    """Other jobs to wait for, such as afterok:1234."""
    begin: Line | None = None
    """Earliest start, ``YYYY-MM-DDTHH:MM[:SS]`` in the target's time zone."""
    output: Line | None = None
    """File for standard output, relative to the job's working directory."""
    error: Line | None = None
    """File for standard error, relative to the job's working directory."""
    join_output: bool = True
    """Standard error goes into the same file as standard output."""
    mail_user: Line | None = None
    """Address for mail."""
    mail_events: list[MailEvent] = []
    """Events that cause mail; for Torque and OpenPBS ``fail`` is a job that they abort, whatever its exit code, and
    only Slurm has more than the first three."""
    export_environment: bool = False
    """Pass the submitter's whole environment on."""
    scratch: Scratch | None = None
    """Folder on the node's own disk, or ``$NAME`` for the one that a variable of the job names: the application runs on
    a copy of its working directory there, and its outputs come back to the job's folder however it ends."""
    environment: dict[VariableName, Text] = {}
    """Environment variables of the whole job, by name."""
    modules: list[Line] = []
    """Environment modules to load, after those of the target."""
    pre_execution: Text | None = None
    """Shell lines run before the application; when they fail the job fails."""
    post_execution: Text | None = None
    """Shell lines run after the application, whose exit code stays the job's."""
    mpi_launcher: Literal["srun", "mpirun", "mpiexec", "none"] | None = None
    """Command that starts the ranks; the site's usual one when absent."""
    mpi: Literal["mpich", "openmpi", "mvapich", "intelmpi", "none"] | None = None
    """The MPI library of the program, by which ``srun --mpi`` is chosen and the start of each rank is checked; found by
    what the program is linked to when absent. ``none`` is a program whose ranks do not use MPI."""
    retry: bool = True
    """Run the job again when it is deployed again after it failed, was cancelled or timed out."""

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
