"""Why a job ended badly, with the last lines of its log."""

import re
from collections.abc import Iterator
from pathlib import Path

from modak_deploy.jobs.job import ERROR, OUTPUT, WORK
from modak_deploy.jobs.status import sentence
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.terminal import visible

LINES = 10
"""Most lines of a log in a message."""
_BYTES, _WIDTH = 16 * 1024, 500
_SCHEDULER_LOG = "scheduler.log"


def explanation(request: JobRequest, result: JobResult) -> str:
    """Return why a job ended badly, and the last lines of the log among its results where there is one."""
    if result.results is None:
        return sentence(result)
    for name in _names(request, result.reason):
        if lines := last_lines(Path(result.results) / name):
            shown = "".join(f"\n    | {line}" for line in lines)
            return f"{sentence(result)}\nThe last lines of {name}:{shown}"
    return sentence(result)


def last_lines(file: Path) -> list[str]:
    """Return the last lines of a log that are not blank, bounded and safe to be shown; none where it cannot be read."""
    try:
        if not file.is_file():
            return []
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - _BYTES))
            text = log.read(_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    # A progress bar writes each of its states over the one before.
    lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return [_shown(line) for line in lines if line][-LINES:]


def _shown(line: str) -> str:
    return visible(line) if len(line) <= _WIDTH else f"{visible(line[:_WIDTH])}..."


def _names(request: JobRequest, reason: str) -> Iterator[str]:
    """Yield the logs to look into, below the results, the most telling first."""
    options = request.options
    streams = [options.output or OUTPUT]
    if options.error is not None or not options.join_output:
        streams.insert(0, options.error or ERROR)
    # An array's reason names the task that ended worst; see schedulers.states.of_array.
    task = match[1] if (match := re.match(r"task (\d{1,9})\b", reason, re.ASCII)) else None
    for name in streams:
        if not name.startswith("/"):  # such a file stays on the target
            yield f"{name.removeprefix(f'{WORK}/')}.{task}" if task else name
    for mark in (f".{task}", f"-{task}") if task else ("",):
        yield f"{_SCHEDULER_LOG}{mark}"
