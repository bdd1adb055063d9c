"""What became of a job."""

from typing import Any, Literal

from pydantic import Field

from modak.model.base import Line, Model, Positive, SchedulerName

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


class JobResult(Model):
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
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    seconds: float | None = Field(default=None, ge=0)
    """Wall seconds of the application itself, as its job script measured them."""
    directory: Line
    """The job's folder on the target."""
    results: str | None = None
    """Folder on the controller that the results were brought to."""
    metrics: dict[str, Any] | None = None
