"""What earlier attempts of a job left among the results: their logs and their ends, a bounded number of them."""

import re
import shutil
from collections.abc import Iterator
from glob import escape
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.jobs.job import ERROR, OUTPUT, WORK, Job
from modak_deploy.model.job import JobResult
from modak_deploy.util.files import sync_names

ATTEMPTS = "attempts"
"""Folder below a run's results, and below a job's folder on the target."""
KEPT = 5
_RESULT, _SCHEDULER_LOG = "job.json", "scheduler.log"


def put_aside(results: Path, job: Job, result: JobResult) -> None:
    """Move the logs and the end of an earlier attempt of the job from ``results`` to ``attempts/<number>`` below it."""
    before = _before(results)
    if before is None or before.tag != result.tag or (before.id, before.submitted) == (result.id, result.submitted):
        return
    try:
        folders = _folders(results)
        # A run that was killed has left the end where it was, and may have moved some of the logs.
        begun = [folders.pop()] if folders and not (folders[-1] / _RESULT).exists() else []
        number = max([before.attempt, *(int(folder.name) + 1 for folder in folders)])
        old = begun[0] if begun else results / ATTEMPTS / str(number)
        old.mkdir(parents=True, exist_ok=True)
        for file in _logs(results, job):
            file.replace(old / file.name)
        for folder in (old, old.parent, results):
            sync_names(folder)
        (results / _RESULT).replace(old / _RESULT)  # last: it says that there is something to move
        for folder in folders[: max(0, len(folders) + 1 - KEPT)]:
            shutil.rmtree(folder)
    except OSError as error:
        where = results / ATTEMPTS
        raise InputError(f"what an earlier attempt left cannot be moved to {where}: {error.strerror}") from None


def _before(results: Path) -> JobResult | None:
    """Return the end that lies among the results; None where there is none that can be read."""
    try:
        return JobResult.model_validate_json((results / _RESULT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _folders(results: Path) -> list[Path]:
    """Return the folders of attempts, the oldest first."""
    top = results / ATTEMPTS
    entries = top.iterdir() if top.is_dir() else []
    return sorted(
        (entry for entry in entries if re.fullmatch(r"[1-9]\d{0,8}", entry.name, re.ASCII) and not entry.is_symlink()),
        key=lambda entry: int(entry.name),
    )


def _logs(results: Path, job: Job) -> Iterator[Path]:
    """Yield the logs that there are; those of an array's tasks end with the task's number."""
    inner = {OUTPUT, ERROR, _SCHEDULER_LOG}
    for path in (job.spec.output, job.spec.error):
        if path is not None and path.startswith(f"{job.spec.directory}/"):
            inner.add(path.removeprefix(f"{job.spec.directory}/").removeprefix(f"{WORK}/"))
    for name in sorted(inner):
        stem = results / name
        for file in [stem, *sorted(stem.parent.glob(f"{escape(stem.name)}[.-]*"))]:
            if re.fullmatch(r"([.-]\d+)?", file.name.removeprefix(stem.name), re.ASCII) and file.is_file():
                yield file
