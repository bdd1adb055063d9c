"""Slurm's words for the states of jobs and for why they wait, and the lines in which it tells them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from modak_deploy.model.job import ENDS, JobState
from modak_deploy.numbers import digits
from modak_deploy.schedulers.base import QueueState
from modak_deploy.schedulers.options import TASKS, hosts, ranges
from modak_deploy.util.units import seconds_of

STATES: Mapping[str, JobState] = {
    "PENDING": "queued",
    "REQUEUED": "queued",
    "REQUEUE_FED": "queued",
    "REQUEUE_HOLD": "held",
    "SPECIAL_EXIT": "held",
    "RESV_DEL_HOLD": "held",
    "CONFIGURING": "running",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "STOPPED": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "running",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "OUT_OF_MEMORY": "out_of_memory",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "node_failure",
    "PREEMPTED": "preempted",
}

_MOST_CODE = 2**31 - 1
HELD = re.compile(r"JobHeld|JobHoldMaxRequeue|requeued held|RequestedNodeRemoved", re.IGNORECASE)
NEVER = re.compile(
    r"BadConstraints|PartitionTimeLimit|AccountNotAllowed|QOSNotAllowed|"
    r"MaxMemPerLimit|(Assoc|QOS)Max\w+PerJob|(Assoc|QOS)Max\w+PerNode(Limit)?$|QOSMin\w+|ReservationDeleted|"
    r"BeginTimeNever|Requested node configuration is not available"
)
"""Reasons of waiting that nothing takes away by itself: such a job is taken out of the queue.

Not PartitionNodeLimit, by which squeue(1) also says that "required nodes are DOWN or DRAINED", as in a maintenance; not
AccountingPolicy, its "fallback reason when others not matched"; and not InvalidAccount and InvalidQOS, as after a start
without the database, since Slurm looks again (schedule(): "Test for valid account, QOS and required nodes on each
pass").
"""
_REASON = {
    "timeout": "its wall time is over",
    "out_of_memory": "it used more memory than it reserved",
    "node_failure": "a node of it failed",
    "preempted": "another job with more priority took its place",
    "dependency_never_satisfied": "a job that it depends on did not end as it must",
}
_NOTHING = {"", "None", "N/A", "(null)", "NonZeroExitCode", "TimeLimit", "OutOfMemory"}


def from_row(line: str) -> Iterator[tuple[str, str, QueueState]]:
    """Yield what a line of squeue (``%i|%F|%K|%T|%M|%l|%N|%r|%S``) tells; nothing where it is no such line."""
    parts = line.split("|")
    if len(parts) < 9 or not _ROW.fullmatch("|".join(parts[:4])):
        return
    number, job, _, token, elapsed, limit, nodes, reason, start = parts[:9]
    if token in STATES:
        state = _state(token, reason, elapsed=elapsed, limit=limit, nodes=nodes)
    else:  # of a newer Slurm: a job that squeue lists is there, and not forgotten
        state = QueueState("queued", reason=f"Slurm calls its state {token}")
    if state.state == "queued" and start not in _NOTHING:
        state = replace(state, start=start)
    for task in _tasks(number):
        yield job, task, state


_ROW = re.compile(r"\d[^|]*\|\d+\|[^|]*\|[A-Z_]{1,40}", re.ASCII)


def from_record(line: str) -> Iterator[tuple[str, str, QueueState]]:
    """Yield what a line of ``scontrol --oneliner show job`` tells."""
    field = {key: match[1] for key, pattern in _RECORD.items() if (match := pattern.search(line))}
    if field.get("state") not in STATES or "job" not in field:
        return
    state = _state(
        field["state"],
        field.get("reason", ""),
        code=field.get("code", ""),
        elapsed=field.get("elapsed", ""),
        limit=field.get("limit", ""),
        nodes=field.get("nodes", ""),
    )
    job = field.get("array", field["job"])
    for task in _tasks(f"{job}_{field['task']}" if "task" in field else field["job"]):
        yield job, task, state


_RECORD = {
    key: re.compile(rf"(?:^| ){pattern}", re.ASCII)
    for key, pattern in {
        "job": r"JobId=(\d+)",
        "array": r"ArrayJobId=(\d+)",
        "task": r"ArrayTaskId=(\S+)",
        "state": r"JobState=([A-Z_]+)",
        "reason": r"Reason=(\S+)",
        "code": r"ExitCode=(\d+:\d+)",
        "elapsed": r"RunTime=(\S+)",
        "limit": r"TimeLimit=(\S+)",
        "nodes": r"NodeList=(\S+)",
    }.items()
}


def from_accounting(line: str, users: Mapping[str, str]) -> Iterator[tuple[str, str, QueueState]]:
    """Yield what a line of sacct (after ``sacct|``: id, state, exit code, elapsed, limit, nodes, reason) tells.

    ``users`` are the names of users by their number; one who cancelled a job is named by the number where it has none.
    """
    parts = line.split("|", 7)
    if len(parts) < 8:
        return
    _, number, reported, code, elapsed, limit, nodes, reason = parts
    token, _, by = reported.partition(" by ")
    # That a job lives is squeue's word alone. The database learns of an end later, and of that of a "runaway job"
    # (sacctmgr(1), show runawayjobs) never: such a job would be waited for without end.
    if STATES.get(token) not in ENDS:
        return
    if by:
        reason = f"cancelled by {users.get(by) or f'user id {by}'}"
    state = _state(token, reason, code=code, elapsed=elapsed, limit=limit, nodes=nodes)
    for task in _tasks(number):
        yield number.partition("_")[0], task, state


def _state(
    token: str, reason: str, *, code: str = "", elapsed: str = "", limit: str = "", nodes: str = ""
) -> QueueState:
    state = STATES[token]
    why = "" if reason in _NOTHING else reason
    if "DependencyNeverSatisfied" in reason and state in ("queued", "held", "cancelled"):
        state, why = "dependency_never_satisfied", ""
    elif state == "queued" and HELD.search(reason):
        state = "held"
    elif state == "queued" and NEVER.search(reason):
        state = "never_starts"
    elif state in ("completed", "cancelled") and not reason.startswith("cancelled by"):
        why = ""  # it is still the one for which the job had waited
    exit_code, signal = (digits(part, _MOST_CODE) for part in [*code.split(":"), ""][:2])
    return QueueState(
        state=state,
        exit_code=exit_code if state in ("completed", "failed") and not signal else None,
        signal=signal if signal and signal < 65 else None,
        reason=why or _REASON.get(state, ""),
        elapsed=seconds_of(elapsed),
        limit=seconds_of(limit),
        nodes=tuple(hosts(nodes)) if nodes not in _NOTHING else (),
        in_queue=state in ENDS and STATES[token] not in ENDS,
    )


def _tasks(number: str) -> list[str]:
    """Return the tasks in ``10`` (none: an empty name), ``10_3`` or ``10_[4-9:2%2]``, the waiting rest of an array."""
    _, bar, tasks = number.partition("_")
    if not bar:
        return [""]
    numbers = tasks.strip("[]").partition("%")[0]
    tasks_of = ranges(numbers) if re.fullmatch(TASKS, numbers, re.ASCII) else None
    if tasks_of is None:
        return [numbers]
    return [str(task) for first, last, step in tasks_of for task in range(first, last + 1, step or 1)]
