"""What the user wants of the optimiser and of the scheduler."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from modak.model.base import (
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


class Request(Model):
    """The optimisation options."""

    objective: Literal["time", "cost", "efficiency"] = "time"
    numerics: Literal["exact", "relaxed"] = "exact"
    """``relaxed`` permits levers that change results beyond the order of additions: bf16, TF32, fast math."""
    runtimes: list[RuntimeName] | None = None
    """Runtimes to choose among; all that the target has when absent."""
    require_levers: list[Name] = []
    forbid_levers: list[Name] = []
    minimal_efficiency: float | None = Field(default=None, gt=0, le=1)
    """Parallel efficiency to keep, for the objective ``efficiency``."""
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Highest cost, in the target's price unit or node-hours."""


MailEvent = Literal["begin", "end", "fail"]
JobArray = Annotated[str, StringConstraints(pattern=r"^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$")]
Dependency = Annotated[
    str, StringConstraints(pattern=r"^(after|afterok|afternotok|afterany):[A-Za-z0-9_.\[\]-]+(:[A-Za-z0-9_.\[\]-]+)*$")
]


class JobOptions(Model):
    """Options of the job itself, named alike on every scheduler."""

    name: Name | None = None
    """The run's name; the application's when absent."""
    account: Line | None = None
    partition: Line | None = None
    """Partition or queue."""
    qos: Line | None = None
    wall_time: Duration | None = None
    nodes: Positive = 1
    ranks: Positive | None = None
    """Processes in total; 1 per node when absent."""
    ranks_per_node: Positive | None = None
    cores_per_rank: Positive | None = None
    threads: Positive | None = None
    """Threads per rank; as many as ``cores_per_rank`` when absent."""
    memory: Memory | None = None
    """Bytes per node."""
    memory_per_core: Memory | None = None
    gpus: NonNegative = 0
    """GPUs per node."""
    constraint: Line | None = None
    node_list: Line | None = None
    exclusive: bool = False
    array: JobArray | None = None
    dependency: list[Dependency] = []
    begin: Line | None = None
    """Earliest start, ``YYYY-MM-DDTHH:MM[:SS]`` in the target's time zone."""
    output: Line | None = None
    error: Line | None = None
    join_output: bool = True
    mail_user: Line | None = None
    mail_events: list[MailEvent] = []
    export_environment: bool = False
    """Pass the submitter's whole environment on."""
    environment: dict[VariableName, Text] = {}
    modules: list[Line] = []
    pre_execution: Text | None = None
    """Shell lines run before the application; when they fail the job fails."""
    post_execution: Text | None = None
    """Shell lines run after the application, whose exit code stays the job's."""
    mpi_launcher: Literal["srun", "mpirun", "mpiexec", "none"] | None = None

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
