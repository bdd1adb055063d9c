"""What became of a job."""

from typing import Annotated, Any, Literal

from pydantic import Field

from modak.model.base import DeferredModel, Line, Positive, SchedulerName

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
    directory: Line
    """The job's folder on the target."""
    results: str | None = None
    """Folder on the controller that the results were fetched to."""
    not_fetched: list[str] = []
    """What the outputs hold that cannot be fetched, such as sockets and links that lead elsewhere, each with the
    reason."""
    metrics: dict[str, Any] | None = None
