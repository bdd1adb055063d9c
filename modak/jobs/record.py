"""What a job script wrote down about itself: ``state/start`` and ``state/exit`` in the job's folder.

A site's own template may write them too: lines ``key=value``. ``code`` is what counts; the rest may be absent.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from modak.errors import TargetError

RecordedState = Literal["completed", "failed", "timeout", "terminated"]
"""``terminated``: a signal ended it before its wall time, most often because somebody cancelled it."""

STEPS = ("setup", "pre_execution", "outputs")
"""What can fail besides the application: what the job script does before it, the user's lines before it, and bringing
outputs back from a scratch folder."""


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
    """Wall seconds of the application."""
    job: str | None = None
    """The scheduler's id as the job saw it."""
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
    code = _number(fields, "code", "exit_code")
    if code is None:
        raise TargetError(f"the job's exit record is damaged: {text.strip()[:200]!r}")
    state = fields.get("state", "failed" if code else "completed")
    if state not in get_args(RecordedState):
        raise TargetError(f"the job's exit record tells the unknown state {state[:40]!r}")
    signal = _number(fields, "signal")
    start, end = _number(fields, "started", "start"), _number(fields, "ended", "end", "finished")
    seconds = _number(fields, "seconds")
    if seconds is None and start is not None and end is not None:
        seconds = max(0.0, end - start)
    return ExitRecord(
        state=cast(RecordedState, state),
        code=int(code),
        signal=int(signal) if signal else None,
        host=fields.get("host") or None,
        start=start,
        end=end,
        seconds=seconds,
        job=fields.get("job") or None,
        step=step if (step := fields.get("step")) in STEPS else None,
    )


def parse_start(text: str) -> StartRecord | None:
    """Return what ``state/start`` says; None when it names no job."""
    fields = _fields(text)
    job = fields.get("job") or fields.get("id")
    return StartRecord(job, _number(fields, "started", "start"), fields.get("host")) if job else None


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in lines}


def _number(fields: dict[str, str], *names: str) -> float | None:
    """Return the first of the fields that holds a number."""
    for name in names:
        if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", fields.get(name, ""), re.ASCII):
            return float(fields[name])
    return None
