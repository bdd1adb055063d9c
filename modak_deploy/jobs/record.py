"""What a job script wrote down about itself: ``state/start`` and ``state/exit`` in the job's folder.

A site's own template may write them too: lines ``key=value``. ``code`` is what counts; the rest may be absent.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from modak_deploy.errors import TargetError
from modak_deploy.reported import MAX_TIME, is_host_name, plain
from modak_deploy.terminal import excerpt, visible

RecordedState = Literal["completed", "failed", "timeout", "terminated"]
"""``terminated``: a signal ended it before its wall time, most often because somebody cancelled it."""

_LONGEST = 200
"""Most characters of a reason."""
STEPS = ("setup", "pre_execution", "outputs")
"""What can fail besides the application: what the job script does before it, the user's lines before it, and bringing
outputs back from a scratch folder."""

STARTED_BEFORE = 75
"""Exit code of a job that finds the application started already, by another job of the same tag or an earlier run of
its own, and so runs nothing: EX_TEMPFAIL of sysexits.h."""


@dataclass(frozen=True)
class ExitRecord:
    """How a job, or one task of an array, ended; times are seconds since the epoch on its node."""

    state: RecordedState
    code: int
    signal: int | None = None
    """The signal that the job was sent."""
    host: str | None = None
    start: float | None = None
    """Start of the application; None when it never started."""
    end: float | None = None
    """End of the application, or when this was written."""
    seconds: float | None = None
    """Wall seconds of the application; None where its node's clock was set meanwhile and nothing else tells them."""
    load: float | None = None
    """Processes of others that wanted a processor of the node just before the application started."""
    job: str | None = None
    """The scheduler's id as the job saw it."""
    reason: str = ""
    """Why it failed, where no step did: the job script's own words."""
    step: str | None = None
    """Which step of the job failed, where it was not the application; one of STEPS."""


@dataclass(frozen=True)
class StartRecord:
    """That a job, or one task of an array, runs."""

    job: str
    """The scheduler's id as the job saw it."""
    start: float | None = None
    host: str | None = None


def parse_exit(text: str) -> ExitRecord | None:
    """Return what ``state/exit`` says; None for an empty text, TargetError for one that tells no exit code."""
    fields = _fields(text)
    if not fields:
        return None
    code = _number(fields, "code", "exit_code", most=65535)
    if code is None:
        raise TargetError(f"the job's exit record is damaged: '{excerpt(text)}'")
    state = fields.get("state", "failed" if code else "completed")
    if state not in get_args(RecordedState):
        raise TargetError(f"the job's exit record has the unknown state '{excerpt(state, 40)}'")
    signal = _number(fields, "signal", most=128)
    start, end = _number(fields, "started", "start"), _number(fields, "ended", "end", "finished")
    return ExitRecord(
        state=cast(RecordedState, state),
        code=int(code),
        signal=int(signal) if signal else None,
        host=_host(fields),
        start=start,
        end=end,
        seconds=_seconds(fields, start, end),
        load=_load(fields),
        job=_job(fields),
        reason=visible(fields.get("reason", ""))[:_LONGEST],
        step=step if (step := fields.get("step")) in STEPS else None,
    )


def parse_start(text: str) -> StartRecord | None:
    """Return what ``state/start`` says; None when it names no job."""
    fields = _fields(text)
    job = _job(fields)
    return StartRecord(job, _number(fields, "started", "start"), _host(fields)) if job else None


def _seconds(fields: dict[str, str], start: float | None, end: float | None) -> float | None:
    """Return how long the application ran, by the node's uptime where its clock was set meanwhile; None if unknown.

    A clock that is merely corrected is at most 500 ppm faster or slower (adjtimex(2)); /proc/uptime counts hundredths.
    """
    if (seconds := _number(fields, "seconds")) is not None:
        return seconds
    by_clock = end - start if start is not None and end is not None and end > start else None
    first, last = _number(fields, "uptime_start"), _number(fields, "uptime_end")
    if first is None or last is None or last < first:
        return by_clock
    by_uptime = last - first
    if by_clock is not None and abs(by_clock - by_uptime) <= 0.1 + 0.001 * by_uptime:
        return by_clock
    return round(by_uptime, 2)


def _load(fields: dict[str, str]) -> float | None:
    """Return the neighbours' load: the lesser of the last minute's average and of what runs at this moment.

    The average outlives an earlier job by minutes, and a moment holds what lasts no longer (proc_loadavg(5)). The shell
    that asks runs itself.
    """
    match = re.fullmatch(r"([0-9]{1,6}\.[0-9]{1,3}) ([0-9]{1,6})", fields.get("load", ""), re.ASCII)
    return None if match is None else min(float(match[1]), max(0.0, float(match[2]) - 1))


def _host(fields: dict[str, str]) -> str | None:
    name = fields.get("host", "")
    return name if is_host_name(name) else None


def _job(fields: dict[str, str]) -> str | None:
    """Return the id in a record; None for what no scheduler would call a job."""
    job = fields.get("job") or fields.get("id") or ""
    return job if re.fullmatch(r"\d[\w.\[\]-]{0,199}", job, re.ASCII) else None


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in plain(text).split("\n") if "=" in line)
    return {key.strip(): value.strip() for key, _, value in lines}


def _number(fields: dict[str, str], *names: str, most: float = MAX_TIME) -> float | None:
    """Return the first of the fields that holds a number of at most ``most``."""
    for name in names:
        text = fields.get(name, "")
        if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text) and float(text) <= most:
            return float(text)
    return None
