"""What is true of a job, from what the queue says and what the job wrote down itself."""

from collections.abc import Mapping
from dataclasses import replace
from signal import Signals

from modak_deploy.jobs.folder import Records
from modak_deploy.jobs.job import Job
from modak_deploy.jobs.record import STARTED_BEFORE, ExitRecord, RecordedState
from modak_deploy.model.job import ENDS, JobResult, JobState
from modak_deploy.schedulers import options
from modak_deploy.schedulers.base import QueueState
from modak_deploy.schedulers.states import of_array

_OF_RECORD: Mapping[RecordedState, JobState] = {
    "completed": "completed",
    "failed": "failed",
    "timeout": "timeout",
    "terminated": "cancelled",
}
_WORST_FIRST: tuple[RecordedState, ...] = ("timeout", "failed", "terminated", "completed")
_WHY: Mapping[JobState, str] = {
    "timeout": "its wall time was over",
    "cancelled": "somebody or something ended it from outside",
    "out_of_memory": "it needed more memory than it had reserved",
    "node_failure": "a node failed under it",
    "preempted": "a job of higher priority took its place",
    "dependency_never_satisfied": "the job that it depends on will never end as it must",
    "never_starts": "the target can never give it what it asks for",
    "lost": "neither the queue nor an exit record knows of it: the node may have died under it",
}
_OF_STEP: Mapping[str, str] = {
    "setup": "the job could not be set up on its node, and the application was not started (exit code {code})",
    "pre_execution": "pre_execution ended with exit code {code}, and the application was not started",
    "outputs": "the application completed, and its outputs could not be brought back from the scratch folder",
}
"""What to say of a step besides the application that failed; the keys are ``record.STEPS``."""


def ends_of(job: Job) -> int:
    """Return how many records of an end the job writes: one, or one for each task of an array."""
    array = options.array(job.spec, job.scheduler.name)
    return len(array.indices()) if array else 1


def exit_of(job: Job, records: Records) -> ExitRecord | None:
    """Return how the job ended by its own word; for an array the worst end, once all tasks have ended."""
    if job.spec.options.array is None:
        return records.exits.get(None)
    array = options.array(job.spec, job.scheduler.name)
    ends = [records.exits.get(task) for task in (array.indices() if array else [])]
    recorded = [end for end in ends if end is not None]
    if not recorded or len(recorded) < len(ends):
        return None
    worst = min(recorded, key=lambda end: _WORST_FIRST.index(end.state))
    starts = [end.start for end in recorded if end.start is not None]
    return replace(worst, start=min(starts, default=None), seconds=sum(end.seconds or 0.0 for end in recorded))


def ended(queue: QueueState | None, record: ExitRecord | None) -> QueueState | None:
    """Return the job's end; None when it has not ended or nobody says so.

    The queue knows why a job was ended, the record what became of the application: where the queue names a cause, it
    is believed; where it only says that the job is over, or has forgotten it, the record decides.
    """
    if queue is None:
        return None if record is None else _with_reason(QueueState(_OF_RECORD[record.state]), record)
    if queue.state not in ENDS:
        return None
    if record is not None and _record_decides(queue, record):
        queue = replace(queue, state=_OF_RECORD[record.state])
    return _with_reason(queue, record)


def with_message(queue: QueueState | None, record: ExitRecord | None, message: QueueState | None) -> QueueState | None:
    """Return what the queue says of a job's end, with the cause that the scheduler wrote into the job's log.

    A queue that has forgotten the job, or only knows that it failed or was deleted, does not say why.
    """
    if message is None or (record is not None and record.state == "completed"):
        return queue
    if queue is None:
        return message
    if queue.state in ("failed", "cancelled"):
        return replace(queue, state=message.state, reason=message.reason)
    return queue


def of_job(
    job: Job, queue: QueueState | None, records: Records, before: Mapping[str, QueueState] | None = None
) -> QueueState:
    """Return the end of a job of which queue and records will tell no more; lost where neither knows it.

    An array that has not written down all its ends is queued from its tasks one by one: a scheduler forgets those that
    end early, and what it says of the rest does not hold for all. ``before`` is what it said of them earlier.
    """
    record = exit_of(job, records)
    array = options.array(job.spec, job.scheduler.name)
    messages = {task: job.scheduler.parse_end_message(line) for task, line in records.messages.items()}
    if array is None or record is not None or (queue is not None and not _by_number(queue.tasks)):
        message = messages.get(None) if array is None else next(iter(messages.values()), None)
        queued = _of_run(job, with_message(queue, record, message), record)
        return ended(queued, record) or lost(job, records)
    last = {**(before or {}), **(queue.tasks if queue else {})}
    reported = {task: state for task, state in last.items() if state.state in ENDS}
    unknown = lost(job, records)
    states = {}
    for task in array.indices():
        record = records.exits.get(task)
        queued = _of_run(job, with_message(reported.get(str(task)), record, messages.get(task)), record)
        states[str(task)] = ended(queued, record) or unknown
    return of_array(states)


def _of_run(job: Job, queue: QueueState | None, record: ExitRecord | None) -> QueueState | None:
    """Return what the queue says of the application's run, and not of the trials before it.

    Slurm (from 18.08 on) calls a job out of memory once one of its processes was killed for that: a trial's, too.
    """
    if queue is None or queue.state != "out_of_memory" or job.request.restart is None:
        return queue
    return queue if record is None or record.state != "completed" else replace(queue, state="completed", reason="")


def lost(job: Job, records: Records) -> QueueState:
    """Return the state of a job that nobody knows any more.

    OpenPBS without a job history, and Torque with keep_completed=0, delete a job whose dependency cannot be satisfied,
    and forget it at once; OpenPBS does so as well where the job that it depends on had ended before, however it did.
    """
    if records.begun:
        return _with_reason(QueueState("lost"), None)
    if parents := ", ".join(job.spec.options.dependency):
        why = (
            f"it left the queue before it started, and depends on {parents}: most likely that did not end as it must, "
            "or had ended before this job was submitted, and the scheduler deleted this job"
        )
        return QueueState("dependency_never_satisfied", reason=why)
    why = "it left the queue without a sign that it ever started: most likely it was deleted"
    return QueueState("lost", reason=why)


def result(job: Job, state: QueueState, records: Records) -> JobResult:
    """Return all that is known of the job in that state."""
    record = exit_of(job, records) if state.state in ENDS else None
    start = next(iter(records.starts.values()), None)
    code = record.code if record else state.exit_code
    if state.state == "failed" and code is not None and job.request.runtime != "native":
        state = _of_container(state, code)
    return JobResult(
        id=job.id,
        scheduler=job.scheduler.name,
        tag=job.spec.tag,
        attempt=job.attempt,
        state=state.state,
        reason=state.reason,
        exit_code=code,
        signal=(record.signal if record else None) or state.signal or _signal_of(code),
        host=(record.host if record else None) or (start.host if start else None) or next(iter(state.nodes), None),
        submitted=job.submitted,
        started=record.start if record else start.start if start else None,
        ended=record.end if record else None,
        seconds=record.seconds if record else None,
        load=record.load if record else None,
        directory=job.spec.directory,
    )


def _of_container(state: QueueState, code: int) -> QueueState:
    from modak_deploy.containers.run import ENDS as OF_CONTAINER

    why = OF_CONTAINER.get(code)
    text = f"{why}, and the application was not started (exit code {code}; the log names it)"
    return state if why is None else replace(state, reason=text)


def sentence(result: JobResult) -> str:
    """Return one sentence on a job that ended badly."""
    state = result.state.replace("_", " ")
    verb = {"failed": "failed", "lost": "is lost", "never_starts": "never starts"}.get(
        result.state, f"ended as {state}"
    )
    where = f"; what it wrote is in {result.results}" if result.results else ""
    return f"job {result.id} ({result.tag}) {verb}: {result.reason or state}{where}"


def _by_number(tasks: Mapping[str, QueueState]) -> bool:
    return bool(tasks) and all(task.isdecimal() for task in tasks)


def _record_decides(queue: QueueState, record: ExitRecord) -> bool:
    if queue.state == "completed":
        return record.state != "completed"
    if queue.state == "failed":
        # OpenPBS 23.06.06 starts a job again in spite of "-r n" when its server dies in the job's first second.
        is_late = queue.exit_code in (None, 0, STARTED_BEFORE)
        return record.state in ("timeout", "terminated") or (record.state == "completed" and is_late)
    return False


def _with_reason(state: QueueState, record: ExitRecord | None) -> QueueState:
    code = record.code if record else state.exit_code
    if state.state == "completed":
        return replace(state, exit_code=code, reason="")
    if record and record.reason and state.state == "failed":
        return replace(state, exit_code=code, reason=record.reason)
    if state.state == "failed" and code and record and record.step:
        return replace(state, exit_code=code, reason=_OF_STEP[record.step].format(code=code))
    if state.state == "failed" and code:
        return replace(state, exit_code=code, reason=_code_text(code))
    return replace(state, exit_code=code, reason=state.reason or _WHY.get(state.state, ""))


def _code_text(code: int) -> str:
    number = _signal_of(code)
    if number is None:
        return f"the application ended with exit code {code}"
    name = Signals(number).name if number in set(Signals) else str(number)
    return f"the application was ended by signal {number} ({name})"


def _signal_of(code: int | None) -> int | None:
    return code - 128 if code is not None and 128 < code < 128 + 65 else None
