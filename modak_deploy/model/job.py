"""What became of a job."""

from typing import Annotated, Any, Literal

from pydantic import Field

from modak_deploy.model.base import DeferredModel, Line, Name, NonNegative, Positive, SchedulerName, Seconds
from modak_deploy.model.trials import RestartResult

JobState = Literal[
    "queued",
    "held",
    "running",
    "completed",
    "failed",
    "timeout",
    "cancelled",
    "out_of_memory",
    "node_failure",
    "preempted",
    "dependency_never_satisfied",
    "never_starts",
    "lost",
]
ENDS: frozenset[JobState] = frozenset(JobState.__args__) - {"queued", "held", "running"}  # type: ignore[attr-defined]


Time = Annotated[float | None, Field(ge=0, le=4102444800)]
"""Seconds since the epoch, before the year 2100."""


SLOWER_AT_FIRST = "slower in its first unit"
"""What a trial's result begins with where its first unit was all that there was time for."""
ROUNDS = 1000
"""Numbers of rounds that a survey may have."""
NOT_TRIED = "not tried: "
"""What a reason in ``not_used`` begins with where a lever was never used."""
GIVEN_UP = "given up: "
"""The same where it was on from the start, and had to go for what the program does: it did not fail."""


class Counted(DeferredModel):
    """Units of work of one kind that the launcher counted; times in seconds."""

    name: Line
    unit: Line
    units: NonNegative
    seconds: Seconds
    """Time within them."""
    start: Seconds | None = None
    """From the start of the interpreter to the first unit."""
    compile: Seconds | None = None
    """By which the first units exceeded the steady time."""
    steady: Seconds | None = None
    """Of one unit, once all is compiled."""
    elapsed: Seconds | None = None
    """From the beginning of the first unit to the end of the last."""
    left: Seconds | None = None
    """Of the units left, as expected at the last of those counted."""
    forecast: Seconds | None = None
    """Of the whole process, from its start, as forecast after the first 5 % of its units."""
    loss: float | None = Field(default=None, allow_inf_nan=False)
    features: dict[Name, str | int | float] = {}
    """What the launcher saw of the model."""


class Trial(DeferredModel):
    """Levers that were tried while the program ran; times in seconds."""

    of: Line
    """The object of the program that they were tried on."""
    levers: list[Name]
    """All that were on; none is the default."""
    result: Line
    kept: bool = False
    """Whether they stayed on."""
    failed: bool = False
    """Whether their results differ too much, or they could not be used."""
    seconds: Seconds | None = None
    """Of one unit."""
    gain: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Time of the default over theirs."""
    one_time: Seconds | None = None
    """To make them ready."""
    background: Seconds | None = None
    """The part of it in the background, which the program did not wait for."""
    difference: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Largest relative difference of the results from the default's."""
    times: list[Seconds] = []
    """Of the units that were measured."""
    rival: list[Name] = []
    """Levers of what they were measured against."""
    rival_times: list[Seconds] = []
    rival_cost: Seconds | None = None
    """To make the rival ready, where it was chosen before the run."""
    rounds: list[NonNegative] = []
    """Of a survey: the number of the round that each of the ``times`` is of. In a round all sets did units in turns.

    Those of the first survey of a process are below ROUNDS, those of the next one below twice as many, and so on.
    """


class Settled(DeferredModel):
    """With which levers the program went on."""

    of: Line
    levers: list[Name]
    reason: Line
    gain: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    lost: float | None = Field(default=None, allow_inf_nan=False)
    """Seconds that the trials lost against the default, less what they had gained by then."""
    after_units: NonNegative | None = None
    switching: Seconds | None = None
    """Of a survey of steps: for which it switched from one set to another between them."""


class Tuning(DeferredModel):
    """What the launcher tells of the process that did the work; docs/launch.md has the record that it is read from."""

    processes: NonNegative = 0
    """How many processes of the job left a record."""
    counted: list[Counted] = []
    """The one that took the longest first."""
    levers: list[Name] = []
    """Levers that were on from the start."""
    trials: list[Trial] = []
    settled: list[Settled] = []
    not_used: list[Line] = []
    """What was not tried, not used, or given up, with the reason."""
    peak_memory: NonNegative | None = None
    """Bytes."""
    incomplete: list[Line] = []
    """What of the records could not be read."""


class JobResult(DeferredModel):
    """A job as far as it is known; times are seconds since the epoch on the target."""

    id: Line
    scheduler: SchedulerName
    tag: Line
    attempt: Positive = 1
    """How often the job has been run, this time included: one that ended badly is run again."""
    state: JobState
    reason: str = ""
    """Why it waits, or why it ended as it did: one clause."""
    exit_code: int | None = None
    signal: int | None = None
    host: str | None = None
    submitted: Time = None
    started: Time = None
    ended: Time = None
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Wall seconds of the application itself, as its job script measured them."""
    load: float | None = Field(default=None, ge=0, le=1e6)
    """Processes of others that wanted a processor of the node just before the application started."""
    directory: Line
    """The job's folder on the target."""
    results: str | None = None
    """Folder on the controller that the results were fetched to."""
    not_fetched: list[str] = []
    """What the outputs hold that cannot be fetched, such as sockets and links that lead elsewhere, each with the
    reason."""
    metrics: dict[str, Any] | None = None
    tuning: Tuning | None = None
    """What the launcher counted and tried; None for a program that ran without it."""
    restart: RestartResult | None = None
    """What was tried before the run, each in a new process; None for a job without such trials."""
