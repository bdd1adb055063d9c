"""Which jobs are in the queue, and how they leave it."""

from collections.abc import Sequence

from modak_deploy.jobs.remote import ask
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import ENDS
from modak_deploy.schedulers.base import QueueState, Scheduler
from modak_deploy.transport.base import Transport


def is_alive(state: QueueState) -> bool:
    """Return whether the job runs, or is in the queue, though it may never start."""
    return state.in_queue or state.state not in ENDS


def alive(transport: Transport, scheduler: Scheduler, ids: Sequence[str]) -> list[str]:
    """Return those of the jobs that are in the queue or run."""
    if not ids:
        return []
    states = scheduler.parse_status(ask(transport, scheduler.status_command(ids)), ids)
    return [number for number in ids if number in states and is_alive(states[number])]


def cancel(transport: Transport, scheduler: Scheduler, ids: Sequence[str], timeouts: Timeouts) -> tuple[list[str], str]:
    """Cancel the jobs and wait until they are gone; return those that are still there, and what the scheduler said."""
    done = ask(transport, scheduler.cancel_command(ids))
    begun = timeouts.clock()
    while left := alive(transport, scheduler, ids):
        if timeouts.clock() - begun > timeouts.cancel:
            return left, " ".join(done.stderr.split())
        timeouts.sleep(timeouts.pause)
    return [], ""
