"""What a scheduler is to modak: commands as text, and the meaning of what they print."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from modak_deploy.model.base import SchedulerName
from modak_deploy.model.execution import RankStart, Resources
from modak_deploy.model.job import JobState
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Node, NodeKind, Partition, Target
from modak_deploy.transport.base import Completed

NO_FOLDER = 97
"""Exit code of a submission where the job's folder is not there."""
_TIMED_OUT, _LAST_SIGNAL = 124, 64


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
    own_shell: bool = False
    """Whether the script can be started as the job's shell: it reads what a login shell reads, and nothing from its
    standard input."""
    rank_start: RankStart | None = None
    """How the ranks of an MPI program are brought together."""


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
    start: str = ""
    """When the scheduler expects a waiting job to start, in its own words."""
    tasks: "Mapping[str, QueueState]" = field(default_factory=dict)
    """What it says of an array's tasks, by number; those that it has forgotten are absent."""
    in_queue: bool = False
    """Whether the job stays in the queue, until it is cancelled, although ``state`` is an end."""


class Parts(Protocol):
    """What a target printed for ``Scheduler.probe``: the text of a part by its name, empty where absent."""

    def __getitem__(self, name: str, /) -> str: ...


@dataclass(frozen=True)
class Recognised:
    """A scheduler and its version; ``wrapped`` where another scheduler's commands are this one's wrappers."""

    name: str
    version: str | None
    wrapped: bool = False


class Scheduler(ABC):
    """Directives, commands and the parsing of their output. No method does I/O; none keeps state.

    A scheduler is one package: a subclass, registered by its name in the entry point group ``modak.schedulers``.
    """

    name: ClassVar[SchedulerName]
    id_variable: ClassVar[str] = ""
    """Variable in the job's environment that holds its id; where it is empty, the id is the script's process id."""
    array_variable: ClassVar[str] = ""
    """Variable that holds an array's id in its tasks; empty where ``id_variable`` does."""
    task_variable: ClassVar[str] = ""
    """Variable that holds the number of an array's task; empty where there are no arrays."""
    host_variable: ClassVar[str] = ""
    """Variable that holds the scheduler's name for the node; empty where it is the node's own."""
    keeps_time: ClassVar[bool] = True
    """Whether the scheduler ends a job at its wall time; where it does not, the job script does."""
    script_is_shell: ClassVar[bool] = False
    """Whether the scheduler is to start the script as the job's shell; see ``JobSpec.own_shell``."""
    default_threads: ClassVar[int | None] = None
    """OMP_NUM_THREADS of a job that says nothing of its cores; None where the scheduler sets it or confines the job."""
    end_message: ClassVar[str] = ""
    """Basic regular expression for the lines that the scheduler writes into ``scheduler.log`` when it ends a job; empty
    where it writes none."""

    end_signals: ClassVar[Mapping[str, int]] = {}
    """Signals, by name with their numbers, besides TERM, INT and HUP by which the scheduler announces a job's end."""

    no_answer: ClassVar[str] = "(?!)"
    """What its commands say when nobody answers them, as a regular expression."""
    own_messages: ClassVar[str] = r"^(qdel|qselect|qstat|qsub|pbsnodes|sbatch|scancel|scontrol|squeue): "
    """How a line of a command's own begins, as a regular expression: one that was killed has written none."""

    submit_folder: ClassVar[str] = "$PWD"
    """Shell expression, within a job, for the folder that it was submitted from."""
    rank_launcher: ClassVar[str] = "mpirun"
    """What starts the ranks of an MPI program where the user does not say."""
    stands_in_for: ClassVar[frozenset[str]] = frozenset()
    """Schedulers whose commands it has wrappers for: a target of such a type may have this one."""
    reuses_ids: ClassVar[bool] = True
    """Whether a later job may get an id again: counters begin anew where a server is installed afresh, or are full."""
    own_commands: ClassVar[bool] = True
    """Whether no other scheduler has wrappers of its commands: where it is expected and answers, it is that one."""
    queries: ClassVar[Sequence[str]] = ()
    """Parts of ``probe`` that its commands print; where one fails the scheduler does not answer."""
    query_prefixes: ClassVar[tuple[str, ...]] = ()
    """How the error messages of those commands begin."""
    no_cluster: ClassVar[str] = ""
    """What its commands say on a machine that has them but belongs to no cluster; empty where nothing is said."""

    def probe(self) -> Sequence[str]:
        """Return the parts of the POSIX shell script that looks for this scheduler; equal parts run once.

        ``$kind`` is the name of the expected scheduler, or ``any``. modak_deploy/discovery/sh/probe.sh has the
        functions:
        ``ask NAME COMMAND ...`` prints a part, ``query`` its exit code too, ``have COMMAND`` looks for a command.
        """
        return ()

    def recognise(self, parts: Parts) -> Recognised | None:
        """Return the scheduler and its version where ``probe`` has found it, None otherwise."""
        return None

    def partitions(self, parts: Parts, host: Node) -> list[Partition]:
        """Return the partitions or queues that ``probe`` has found; ``host`` is the machine that answered."""
        return []

    def node_kinds(self, parts: Parts) -> dict[str, list[NodeKind]]:
        """Return the kinds of nodes by the names of the partitions that have unlike ones; see ``unlike.kinds_of``."""
        return {}

    def gpu_spelling(self, models: Sequence[str]) -> str | None:
        """Return ``target.gpu_spelling`` for a site whose partitions have GPUs of these ``models``; None: the usual."""
        return None

    def is_silent(self, done: Completed) -> bool:
        """Return whether a command was not there, was not answered, or was killed before it could say anything.

        A shell answers 128 and the signal's number for a command that was killed, and names the signal ("Killed");
        timeout(1) answers 124. PBS has exit codes in that range of its own, but never without a line of its commands'.
        """
        if done.returncode in (NO_FOLDER, 126, 127) or re.search(self.no_answer, done.stderr) is not None:
            return True
        killed = done.returncode == _TIMED_OUT or 128 < done.returncode <= 128 + _LAST_SIGNAL
        return killed and re.search(self.own_messages, done.stderr, re.MULTILINE) is None

    @abstractmethod
    def directives(self, job: JobSpec) -> list[str]:
        """Return the script's header lines (``#SBATCH --nodes=2``); InputError names an option it cannot honour."""

    @abstractmethod
    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        """Return the quoted simple command that starts ``argv`` on all ranks: with srun, with mpirun, or plain."""

    def prepare(self, job: JobSpec) -> str:
        """Return shell commands that the job runs just before ``launch``; empty where it needs none."""
        return ""

    def reads_environment(self, job: JobSpec) -> bool:
        """Return whether the job reads the environment that ``submit_command`` wrote to ``state/environment``."""
        return False

    @abstractmethod
    def submit_command(self, job: JobSpec) -> str:
        """Return the command that submits the job's script and prints its id; the job's folder and script are there."""

    @abstractmethod
    def parse_submit(self, done: Completed) -> str:
        """Return the job's id.

        Raise JobError with the scheduler's own words when it refused the job, TargetError when it did not answer or
        said neither: then only ``find_command`` tells whether the job exists.
        """

    def id_of(self, own_id: str) -> str:
        """Return the id of the job whose script knows itself as ``own_id``: for an array's task the array's."""
        return own_id

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

    def parse_end_message(self, line: str) -> QueueState | None:
        """Return what a line that matches ``end_message`` says of the job's end; None where it says nothing."""
        return None

    @abstractmethod
    def find_command(self, tag: str, name: str) -> str:
        """Return the command that lists this user's jobs with ``tag``, ended ones too while it knows them.

        ``name`` is the job's name, for schedulers that can be asked for jobs of one name. The command prints nothing
        when there are none, and fails when the scheduler does not answer.
        """

    @abstractmethod
    def parse_find(self, done: Completed, tag: str) -> list[str]:
        """Return the ids of jobs with this tag, oldest first."""

    def listing_command(self) -> str | None:
        """Return the command that lists all jobs of this user once for ``find_listed_command``; None without one."""
        return None

    def find_listed_command(self, tag: str, name: str) -> str | None:
        """Return the command that prints what ``find_command`` does, from a list on standard input."""
        return None

    @abstractmethod
    def check_command(self, job: JobSpec) -> str | None:
        """Return the command that asks whether the job would be taken; None where there is none.

        It reads the script's text from its standard input, needs no folder, changes nothing, and ends with 0 when the
        job would be taken; else its standard error says why (on some schedulers only the script's syntax is looked at).
        """
