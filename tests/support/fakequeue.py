"""A queue that fails on purpose: its jobs are files in a spool folder, and a test says what becomes of them.

Files in the spool that a test makes:

- ``refuse``: a submission is refused, and nothing comes of it
- ``deny``: a submission makes a job, and is reported as failed
- ``mute``: a submission makes a job, and says nothing
- ``down``: the scheduler answers no question
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from modak_deploy.errors import JobError, TargetError
from modak_deploy.model.base import SchedulerName
from modak_deploy.model.job import JobState
from modak_deploy.schedulers.base import JobSpec, QueueState, Scheduler
from modak_deploy.shell import join, quote
from modak_deploy.transport.base import Completed

_SUBMIT = """cd {spool} || exit 9
[ ! -e down ] || {{ echo 'no answer' >&2; exit 7; }}
[ ! -e refuse ] || {{ echo 'refused: no such queue' >&2; exit 1; }}
number=1
while ! mkdir job.$number 2>/dev/null; do number=$((number + 1)); done
echo {tag} >job.$number/tag
echo {directory} >job.$number/directory
echo queued >job.$number/state
{slow}
[ ! -e deny ] || {{ rm deny; echo 'the reply was lost' >&2; exit 1; }}
[ ! -e mute ] || {{ rm mute; exit 0; }}
echo $number
"""
_STATUS = """cd {spool} || exit 9
[ ! -e down ] || {{ echo 'no answer' >&2; exit 7; }}
for number in {ids}; do
  [ ! -f job.$number/state ] || echo "$number $(cat job.$number/state)"
done
"""
_CANCEL = """cd {spool} && for number in {ids}; do [ ! -f job.$number/state ] || \
{{ echo cancelled >job.$number/new && mv job.$number/new job.$number/state; }}; done"""
_FIND = """cd {spool} || exit 9
[ ! -e down ] || {{ echo 'no answer' >&2; exit 7; }}
for job in job.*; do
  [ "$(cat "$job/tag" 2>/dev/null)" != {tag} ] || echo "${{job#job.}}"
done
"""


class FakeQueue(Scheduler):
    """Text in and out, as for the real ones; ``slow`` is a shell command between making the job and saying so."""

    name: ClassVar[SchedulerName] = "slurm"
    id_variable = "SLURM_JOB_ID"

    def __init__(self, spool: Path, slow: str = ":") -> None:
        self.spool = spool
        self.slow = slow
        spool.mkdir(exist_ok=True)

    def directives(self, job: JobSpec) -> list[str]:
        return []

    def launch(self, job: JobSpec, argv: Sequence[str]) -> str:
        return join(argv)

    def submit_command(self, job: JobSpec) -> str:
        return _SUBMIT.format(spool=self._spool, tag=job.tag, directory=quote(job.directory), slow=self.slow)

    def parse_submit(self, done: Completed) -> str:
        if done.returncode == 0 and done.stdout.strip().isdigit():
            return done.stdout.strip()
        if done.returncode == 1:
            raise JobError(done.stderr.strip())
        raise TargetError(f"the queue said {done.stdout!r} and {done.stderr.strip()!r}")

    def status_command(self, ids: Sequence[str]) -> str:
        return _STATUS.format(spool=self._spool, ids=join(ids))

    def parse_status(self, done: Completed, ids: Sequence[str]) -> dict[str, QueueState]:
        self._check(done)
        lines = (line.split() for line in done.stdout.splitlines())
        states = {number: (state, *rest) for number, state, *rest in lines}
        return {number: self._state(*words) for number, words in states.items()}

    @staticmethod
    def _state(state: JobState, more: str = "") -> QueueState:
        if more.isdigit():
            return QueueState(state, int(more))
        return QueueState(state, start=more, in_queue=state in ("never_starts", "dependency_never_satisfied"))

    def cancel_command(self, ids: Sequence[str]) -> str:
        return _CANCEL.format(spool=self._spool, ids=join(ids))

    def find_command(self, tag: str, name: str) -> str:
        return _FIND.format(spool=self._spool, tag=quote(tag))

    def parse_find(self, done: Completed, tag: str) -> list[str]:
        self._check(done)
        return sorted(done.stdout.split(), key=int)

    def check_command(self, job: JobSpec) -> str | None:
        return f"[ ! -e {self._spool}/refuse ] || {{ echo 'refused: no such queue' >&2; exit 1; }}"

    # What a test does to the queue.

    def fault(self, name: str) -> Path:
        """Make the queue fail in that way until the file that is returned is removed."""
        (self.spool / name).touch()
        return self.spool / name

    def jobs(self) -> list[str]:
        """Return the ids of all jobs that were ever made."""
        return sorted((path.name.removeprefix("job.") for path in self.spool.glob("job.*")), key=int)

    def become(self, number: str, state: str, record: str | None = None) -> None:
        """Give the job a state (``failed 3``, ``queued 18:00``), empty for a forgotten one, and its record."""
        folder = self.spool / f"job.{number}"
        if record is not None:
            (Path(folder.joinpath("directory").read_text().strip()) / "state" / "exit").write_text(record)
        if state:
            (folder / "state").write_text(state)
        else:
            (folder / "state").unlink()

    @property
    def _spool(self) -> str:
        return quote(str(self.spool))

    @staticmethod
    def _check(done: Completed) -> None:
        if done.returncode:
            raise TargetError(f"the queue does not answer: {done.stderr.strip()}")
