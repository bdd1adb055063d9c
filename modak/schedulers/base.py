"""What a scheduler is to modak: commands as text, and the meaning of what they print."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from modak.model.base import SchedulerName
from modak.model.job import JobState
from modak.model.plan import Resources
from modak.model.request import JobOptions
from modak.model.target import Target
from modak.transport.base import Completed


@dataclass(frozen=True)
class JobSpec:
    """All that a scheduler needs to know of a job; paths are absolute on the target."""

    name: str
    tag: str
    directory: str
    """The job's folder: the scheduler starts the script there."""
    script: str
    output: str
    error: str | None
    """None when output and error share one file."""
    resources: Resources
    options: JobOptions
    target: Target


@dataclass(frozen=True)
class QueueState:
    """What the scheduler says of one job; None or empty where it does not say."""

    state: JobState
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    elapsed: int | None = None
    limit: int | None = None
    """Wall-time limit in seconds."""
    nodes: Sequence[str] = field(default=())


class Scheduler(ABC):
    """Directives, commands and the parsing of their output. No method does I/O; none keeps state."""

    name: ClassVar[SchedulerName]

    @abstractmethod
    def directives(self, job: JobSpec) -> list[str]:
        """Return the header lines of the script (``#SBATCH --nodes=2``); InputError names an option it cannot honour."""

    @abstractmethod
    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        """Return the quoted shell command that starts ``argv`` on all ranks (``srun ...``, ``mpirun ...`` or plain)."""

    @abstractmethod
    def submit_command(self, job: JobSpec) -> str:
        """Return the command that submits the job's script and prints its id."""

    @abstractmethod
    def parse_submit(self, done: Completed) -> str:
        """Return the job's id; raise JobError with the scheduler's own words when it was refused."""

    @abstractmethod
    def status_command(self, ids: Sequence[str]) -> str:
        """Return one command that tells the state of all ``ids``."""

    @abstractmethod
    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        """Return the states by id; an id that the scheduler does not know is absent.

        Raise TargetError when the scheduler did not answer (server down), so that the caller asks again later.
        """

    @abstractmethod
    def cancel_command(self, ids: Sequence[str]) -> str:
        """Return the command that cancels the jobs; one already gone is no error."""

    @abstractmethod
    def find_command(self, tag: str) -> str:
        """Return the command that lists this user's jobs that carry ``tag``, finished ones too where it can."""

    @abstractmethod
    def parse_find(self, done: Completed, tag: str) -> list[str]:
        """Return the ids of jobs with this tag, oldest first."""

    @abstractmethod
    def check_command(self, job: JobSpec) -> str | None:
        """Return the command that asks whether the job would be taken (``sbatch --test-only``); None where there is none."""
