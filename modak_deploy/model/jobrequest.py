"""The JobRequest: all that the life cycle of a job needs to know of it, be it the job of a Plan or an image build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from modak_deploy.model.base import RuntimeName, SchedulerName
from modak_deploy.model.execution import Image, Launch, RankStart, Resources, Source
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target
from modak_deploy.model.trials import RestartPlan


class Document(Protocol):
    """What tells why the job is run: it lies beside the job and its results as ``plan.json``."""

    @property
    def text(self) -> bytes:
        """The document's own text."""

    def describes(self, text: bytes) -> bool:
        """Return whether another text, from a file that others may have changed, is of the same job."""


@dataclass(frozen=True)
class JobRequest:
    """A job: where it runs, what it runs there, and with what."""

    name: str
    """The run's name."""
    tag: str
    """The mark that the job carries in the scheduler and on disk: two requests with one tag are the same job."""
    scheduler: SchedulerName
    target: Target
    options: JobOptions
    argv: Sequence[str]
    """The command line, relative to the working directory."""
    resources: Resources = field(default_factory=Resources)
    rank_start: RankStart | None = None
    runtime: RuntimeName = "native"
    image: Image | None = None
    """What the runtime runs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The application's own; the job's options may change it."""
    secret_environment: frozenset[str] = frozenset()
    """Names of variables whose values come by another way."""
    lever_environment: Mapping[str, str] = field(default_factory=dict)
    """What nobody may set to another value, for the decision depends on it."""
    preload: Sequence[str] = ()
    """Shared libraries for LD_PRELOAD, by soname."""
    launch: Launch | None = None
    """What travels into the application's interpreter; None for a program that is left to itself."""
    restart: RestartPlan | None = None
    """Candidates that are tried before the run, each in a new process."""
    supervised: bool = False
    """Whether the program is started again when it ends by itself; it is for one that runs until it is cancelled."""
    progress: str | None = None
    """A regular expression on the output, whose first group captures the number of the unit that was done."""
    units: int | None = None
    """Units of work in the whole program, where they are known."""
    candidate: str = "as-is"
    """Name of the candidate that was chosen."""
    sources: Sequence[Source] = ()
    """The user's files that travel to the target."""
    programs: Mapping[str, bytes] = field(default_factory=dict)
    """Programs that travel as well, by their paths below the working directory."""
    outputs: Sequence[str] = ()
    """What the application is to write, below the working directory."""
    metrics: str | None = None
    """The one among what it writes that holds metrics."""
    document: Document | None = None
