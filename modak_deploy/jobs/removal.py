"""How a job leaves a target: cancelled, and its folder removed."""

from modak_deploy.errors import TargetError
from modak_deploy.jobs import queue, staging
from modak_deploy.jobs.folder import is_same_job
from modak_deploy.jobs.job import specification
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.jobs.staging import JobFolder
from modak_deploy.jobs.submission import recorded
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers import options
from modak_deploy.schedulers.base import Scheduler
from modak_deploy.transport.base import Transport


def cancel(
    transport: Transport, request: JobRequest, scheduler: Scheduler, timeouts: Timeouts
) -> tuple[JobFolder, list[str]]:
    """Cancel the job and wait until it has left the queue; return its folder, and the ids of what was there."""
    job_folder = _certain(transport, request, scheduler, timeouts)
    if alive := _alive(transport, request, scheduler, job_folder):
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
    alive = _alive(transport, request, scheduler, job_folder)
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


def _alive(transport: Transport, request: JobRequest, scheduler: Scheduler, job_folder: JobFolder) -> list[str]:
    """Return the job's ids that are in the queue or run.

    A recorded id may be another job's by now: Grid Engine counts to 9,999,999, and a server that is installed afresh
    begins at 1. One that does not carry the tag is left alone; TargetError unless the job has recorded its end.
    """
    alive = queue.alive(transport, scheduler, _ids(scheduler, job_folder))
    tagged = job_folder.tagged or ()
    if not scheduler.reuses_ids or not alive:
        return alive
    own = [number for number in alive if any(is_same_job(number, other) for other in tagged)]
    others = [number for number in alive if number not in own]
    array = options.array(specification(request, job_folder.directory), scheduler.name)
    if others and len(job_folder.records.exits) < (len(array.indices()) if array else 1):
        raise TargetError(
            f"job {others[0]} does not carry the tag {request.tag}, and has the id that is recorded in "
            f"{job_folder.directory}: it may be another job, and nothing is cancelled or removed",
            hint="cancel it by hand if it is this run's",
        )
    return own


def _ids(scheduler: Scheduler, job_folder: JobFolder) -> list[str]:
    """Return the jobs that the folder or the scheduler tells of."""
    submitted = recorded(scheduler, job_folder)
    return list(dict.fromkeys([*([submitted.id] if submitted else []), *(job_folder.tagged or [])]))
