"""How patient the life cycle is, and whom it tells what happens."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from modak_deploy.schedulers.base import QueueState

if TYPE_CHECKING:
    from modak_deploy.jobs.job import Job


@dataclass(frozen=True)
class Timeouts:
    """Limits of waiting, in seconds unless said otherwise."""

    outage: float = 900.0
    """How long target or scheduler may stay silent while a job runs, and the queue show a job that has failed."""
    answer: float = 60.0
    """How long target and scheduler may take for one answer; twice as long after each time that they took longer."""
    submission: float = 120.0
    """How long to try again while another controller holds the job's lock or the scheduler does not answer."""
    lock: float = 240.0
    """How long a step waits on the target for another controller that submits the same job; longer than a lock lives
    whose owner is gone without a trace (lock_patience in ``sh/lock.sh``)."""
    accept: float = 150.0
    """How long the scheduler may take to accept a job; shorter than that."""
    settle: float = 10.0
    """Age of an unanswered submission after which a job that the scheduler does not know is taken for not submitted."""
    asks: int = 3
    """How many times queue and records must both deny a job before it is lost."""
    lost: float = 5.0
    """How long they must have denied it."""
    finishing: float = 120.0
    """How long the queue may show a job whose application has completed."""
    hopeless: float = 120.0
    """How long the scheduler must say that a job can never start, before it is taken out of the queue."""
    cancel: float = 120.0
    """How long a cancelled job may take to leave the queue."""
    remind: float = 600.0
    """After how long a state that has not changed is told again."""
    linger: float = 30.0
    """How much of a pause between two questions the target may wait through itself, looking for the jobs' records."""
    pause: float = 1.0
    """Between two tries of the same step."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


class Reporter(Protocol):
    """Who is told what happens."""

    def state(self, job: "Job", state: QueueState) -> None:
        """A job's state or the reason for it has changed, or has not for a long time."""

    def notice(self, text: str) -> None:
        """Something else that a user should know, as one sentence."""

    def output(self, job: "Job", text: str) -> None:
        """New text of the job's output."""


class Silent:
    """A reporter that says nothing."""

    def state(self, job: "Job", state: QueueState) -> None:
        """See ``Reporter.state``."""

    def notice(self, text: str) -> None:
        """See ``Reporter.notice``."""

    def output(self, job: "Job", text: str) -> None:
        """See ``Reporter.output``."""


class Notices(Silent):
    """A reporter that passes notices on and says nothing else."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def notice(self, text: str) -> None:
        """See ``Reporter.notice``."""
        self._reporter.notice(text)
