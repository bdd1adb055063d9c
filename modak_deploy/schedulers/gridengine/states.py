"""The meaning of what qstat and qacct print."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from modak_deploy.model.job import JobState
from modak_deploy.schedulers.base import QueueState
from modak_deploy.schedulers.options import ranges
from modak_deploy.schedulers.states import of_array
from modak_deploy.util.units import seconds_of

_ELEMENT = re.compile(r"\s*<(\w+)>([^<]*)</\1>\s*")
_MOST_TASKS = 75_000
"""sge_conf(5), max_aj_tasks: the default limit of an array."""
_BEFORE_THE_JOB = range(1, 22)
"""``failed`` codes of sge_status(5) that mean: the job was not started."""


@dataclass(frozen=True)
class _Row:
    """One entry of ``qstat -xml``: a job, or some tasks of an array."""

    job: str
    tasks: Sequence[str]
    """Numbers of tasks; empty for a job that is not an array."""
    state: QueueState


def parse_answer(text: str, ids: Sequence[str]) -> dict[str, QueueState]:
    """Return the states of jobs in what ``gridengine_status`` printed; a job that it does not mention is absent."""
    parts = _split(text)
    waiting = set(re.findall(r"^\s*([0-9]+) ", parts.get("dependent", ""), re.MULTILINE))
    errors = _errors(parts.get("errors", ""))
    jobs: dict[str, dict[str, QueueState]] = {}
    for number, task, state in _accounted(parts.get("qacct", "")):
        jobs.setdefault(number, {})[task] = state
    for row in _rows(parts.get("qstat", "")):
        state = row.state
        if state.state == "held" and row.job in waiting:
            state = replace(state, state="queued", reason="it waits for another job")
        if state.state == "never_starts" and row.job in errors:
            state = replace(state, reason=errors[row.job])
        reported = jobs.setdefault(row.job, {})
        reported.pop("", None)
        reported.update(dict.fromkeys(row.tasks or ("",), state))
    return {asked: _whole(jobs[asked]) for asked in ids if asked in jobs}


def _whole(tasks: Mapping[str, QueueState]) -> QueueState:
    return tasks[""] if set(tasks) == {""} else of_array(tasks)


def _split(text: str) -> dict[str, str]:
    """Return the parts of an answer; each begins with a line ``modak-part NAME``."""
    pieces = re.split(r"^modak-part (\w+)\n", text, flags=re.MULTILINE | re.ASCII)
    return dict(zip(pieces[1::2], pieces[2::2], strict=False))


def _entries(text: str) -> Iterator[dict[str, str]]:
    """Yield the elements of each ``job_list`` of ``qstat -xml``, which stand on lines of their own."""
    entry: dict[str, str] | None = None
    for line in text.splitlines():
        if line.strip().startswith("<job_list"):
            entry = {}
        elif line.strip() == "</job_list>":
            if entry is not None:
                yield entry
            entry = None
        elif entry is not None and (match := _ELEMENT.fullmatch(line)):
            entry.setdefault(match[1], match[2])


def _rows(text: str) -> Iterator[_Row]:
    for entry in _entries(text):
        number, letters = entry.get("JB_job_number", ""), entry.get("state", "")
        if re.fullmatch(r"[0-9]{1,12}", number):
            yield _Row(number, list(_tasks(entry.get("tasks", ""))), _state(letters, entry))


def _tasks(text: str) -> Iterator[str]:
    """Yield the numbers in ``2``, ``1-7:2`` or ``4,6``; a text of another form, or of too many, has none."""
    if re.fullmatch(r"[0-9]{1,9}(-[0-9]{1,9}:[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9}:[0-9]{1,9})?)*", text):
        for first, last, step in ranges(text) or ():
            if step and last - first < _MOST_TASKS:
                yield from (str(number) for number in range(first, last + 1, step))


def _state(letters: str, entry: Mapping[str, str]) -> QueueState:
    """Return what the letters of qstat(1) mean: d(eletion), E(rror), h(old), r(unning), R(estarted), s, S, T, t, w."""
    host = entry.get("queue_name", "").partition("@")[2]
    nodes = (host,) if host else ()
    if "E" in letters:
        return QueueState("never_starts", reason="it is in the error state", in_queue=True)
    if "h" in letters:
        return QueueState("held", reason="it is held")
    if "w" in letters:
        return QueueState("queued")
    reason = "it is suspended" if set(letters) & set("sST") else ""
    return QueueState("running", nodes=nodes, reason="it is being deleted" if "d" in letters else reason)


def _errors(text: str) -> dict[str, str]:
    """Return by job what ``qstat -j`` says of the error state."""
    reasons: dict[str, str] = {}
    number = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "job_number":
            number = value.strip()
        elif key.startswith("error reason") and number:
            reasons.setdefault(
                number, re.sub(r"^.*?\[[0-9:]*\]:? *", "", value.partition(":")[2]).strip() or value.strip()
            )
    return reasons


def _accounted(text: str) -> Iterator[tuple[str, str, QueueState]]:
    """Yield (job, task or empty, end) for each record of ``qacct -j``; of a repeated one the last counts.

    Where a parallel environment has no accounting_summary (sge_pe(5), the default), each process that ``qrsh -inherit``
    has started on another host has a record of its own, which says nothing of the job: accounting(5), pe_taskid.
    """
    for record in re.split(r"^={10,}$", text, flags=re.MULTILINE):
        fields = dict(line.split(None, 1) for line in record.splitlines() if len(line.split(None, 1)) == 2)
        if fields.get("pe_taskid", "NONE").strip() != "NONE":
            continue
        number, task = fields.get("jobnumber", "").strip(), fields.get("taskid", "").strip()
        if re.fullmatch(r"[0-9]{1,12}", number) and "failed" in fields:
            yield number, task if re.fullmatch(r"[0-9]{1,9}", task) else "", _end(fields)


def _end(fields: Mapping[str, str]) -> QueueState:
    """Return an end from ``failed`` (sge_status(5)) and ``exit_status``: 37 is a limit, 100 a job that was killed."""
    code, _, why = fields["failed"].partition(":")
    failed, status = _integer(code), _integer(fields.get("exit_status", "").split("(")[0])
    wallclock = re.fullmatch(r"([0-9]+)(\.[0-9]+)?s?", fields.get("ru_wallclock", "").strip())
    base = QueueState(
        "failed",
        elapsed=seconds_of(wallclock[1]) if wallclock else None,
        nodes=(fields["hostname"].strip(),) if fields.get("hostname", "").strip() else (),
        reason=why.strip(),
    )
    if failed == 0 and status is not None:
        return replace(base, state="completed" if status == 0 else "failed", exit_code=status)
    if failed == 37:
        return replace(base, state="timeout", reason=f"its wall time is over ({why.strip()})")
    if failed == 100 and status is not None and status > 128:
        # The same for qdel and for a program that killed itself; the job's own record knows which.
        state: JobState = "cancelled" if status == 137 else "failed"
        return replace(base, state=state, signal=status - 128, reason=f"signal {status - 128} ended it")
    if failed in _BEFORE_THE_JOB:
        return replace(base, state="node_failure", reason=f"it was not started: {why.strip()}")
    return base


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*[0-9]{1,6}\s*", text, re.ASCII) else None
