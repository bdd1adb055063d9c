"""What a user sees of jobs while they are waited for, one line each; whoever shows it decides where."""

import sys
import time
from collections.abc import Callable

from modak_deploy.jobs.job import Job
from modak_deploy.schedulers.base import QueueState
from modak_deploy.terminal import lines, visible
from modak_deploy.util.units import clock


def state_text(job: Job, state: QueueState) -> str:
    """Return the state of a job in one line."""
    parts = [f"job {job.id}: {state.state}"]
    if state.reason:
        parts.append(f"({state.reason})")
    if state.start:
        parts.append(f"expected to start at {state.start}")
    if state.elapsed is not None:
        limit = f" of {clock(state.limit)}" if state.limit else ""
        parts.append(f"after {clock(state.elapsed)}{limit}")
    if state.nodes:
        parts.append(f"on {', '.join(state.nodes)}")
    return " ".join(parts)


def to_stderr(text: str) -> None:
    """Write a line of what happens, with its time."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {visible(text)}\n")
    sys.stderr.flush()


class JobLines:
    """Gives each event to ``write`` as one line; see modak_deploy.jobs.settings.Reporter."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def state(self, job: Job, state: QueueState) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        self._write(state_text(job, state))

    def notice(self, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        self._write(text)

    def output(self, job: Job, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        for line in lines(text):
            self._write(f"job {job.id} | {line}")
