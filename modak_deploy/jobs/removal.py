"""How a job leaves a target: cancelled, and its folder removed."""

from modak_deploy.errors import TargetError
from modak_deploy.jobs import queue, staging
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.jobs.staging import JobFolder
from modak_deploy.jobs.submission import recorded
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers.base import Scheduler
from modak_deploy.transport.base import Transport


def cancel(
    transport: Transport, request: JobRequest, scheduler: Scheduler, timeouts: Timeouts
) -> tuple[JobFolder, list[str]]:
    """Cancel the job and wait until it has left the queue; return its folder, and the ids of what was there."""
    job_folder = _certain(transport, request, scheduler, timeouts)
    if alive := queue.alive(transport, scheduler, _ids(scheduler, job_folder)):
        left, said = queue.cancel(transport, scheduler, alive, timeouts)
        if left:
            raise TargetError(f"job {left[0]} cannot be removed{f': {said}' if said else ''}: its folder stays")
    return job_folder, alive


def absent(transport: Transport, request: JobRequest, scheduler: Scheduler, timeouts: Timeouts) -> bool:
    """Cancel the job, wait until it is gone, and remove its folder; return whether there was anything."""
    while True:
        job_folder, alive = cancel(transport, request, scheduler, timeouts)
        has_job = bool(_ids(scheduler, job_folder))
        directory, tag = job_folder.directory, request.tag
        if not job_folder.exists or staging.remove(transport, directory, tag, has_job=has_job, wait=timeouts.lock):
            return bool(alive) or job_folder.exists


def doomed(transport: Transport, request: JobRequest, scheduler: Scheduler) -> list[str]:
    """Return what ``absent`` would cancel and remove, for people; nothing is changed."""
    job_folder = staging.look(transport, request, ask=scheduler)
    submitted = recorded(scheduler, job_folder)
    folder = f"the folder {job_folder.directory}{f' of job {submitted.id}' if submitted else ''}"
    alive = queue.alive(transport, scheduler, _ids(scheduler, job_folder))
    return [*(f"job {number}" for number in alive), *([folder] if job_folder.exists else [])]


def _certain(transport: Transport, request: JobRequest, scheduler: Scheduler, timeouts: Timeouts) -> JobFolder:
    """Return the job's folder once an attempt without an answer is old enough to have shown in the queue.

    How old it is tells this machine's own clock, which does not jump, and not the target's.
    """
    begun = timeouts.clock()
    while True:
        job_folder = staging.look(transport, request, ask=scheduler)
        if job_folder.records.intent is None or recorded(scheduler, job_folder) or job_folder.tagged:
            return job_folder
        left = timeouts.settle - (timeouts.clock() - begun)
        if left <= 0:
            return job_folder
        timeouts.sleep(left)


def _ids(scheduler: Scheduler, job_folder: JobFolder) -> list[str]:
    """Return the jobs that the folder or the scheduler tells of."""
    submitted = recorded(scheduler, job_folder)
    return list(dict.fromkeys([*([submitted.id] if submitted else []), *(job_folder.tagged or [])]))
