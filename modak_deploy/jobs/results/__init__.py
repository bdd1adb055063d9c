"""The results of a job: outputs, metrics, logs and the job's document, fetched to a folder on the controller."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modak_deploy.errors import InputError, JobError, TargetError, all_of
from modak_deploy.jobs.attempts import ATTEMPTS
from modak_deploy.jobs.job import ERROR, OUTPUT, PLAN, WORK, Job, inner_path
from modak_deploy.jobs.remote import Answer
from modak_deploy.jobs.restarted import read_restart
from modak_deploy.jobs.results.folder import ResultsFolder
from modak_deploy.jobs.results.metrics import MAX_BYTES, parse_metrics
from modak_deploy.jobs.results.transfer import TOGETHER, Outcome, Transfer, Wanted, list_all, local_path
from modak_deploy.jobs.tuning import read_tuning
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers import options
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport

RESULT = "job.json"
"""What became of the job, as far as the controller saw it."""
_SCHEDULER_LOG = "scheduler.log"
_OWN = re.compile(r"(plan|job|objects)\.json|((output|error|scheduler)\.log([.-]\d+)?)|\.fetch-.*", re.DOTALL)
_MAX_PLAN = 64 * 1024 * 1024
_NAMED = 5
"""Paths that an error names."""
_KEPT = 100
"""Paths that a result names."""


class IncompleteError(TargetError):
    """Some of a job's results could not be fetched; the target answers."""


@dataclass(frozen=True)
class FetchedResults:
    """The job's result with what was fetched, and whether anything on the controller was written."""

    result: JobResult
    changed: bool


@dataclass(frozen=True)
class Ended:
    """A job that has ended, and the folder ``results`` that its results are fetched to."""

    job: Job
    result: JobResult
    results: Path


class WritesFiles(Protocol):
    """What says which files an application is to write: a JobRequest or the application itself."""

    @property
    def outputs(self) -> Sequence[str]: ...

    @property
    def metrics(self) -> str | None: ...


def declared_outputs(application: WritesFiles) -> dict[str, str]:
    """Return the outputs and the metrics file that the application is to write, with the key that says so.

    InputError for one that lies outside the working directory or has the name of a file of modak's own.
    """
    paths = dict.fromkeys(application.outputs, "application.outputs")
    if application.metrics is not None:
        paths[application.metrics] = "application.metrics"
    for path, key in paths.items():
        top = inner_path(path, key).partition("/")[0]
        if top == ATTEMPTS or _OWN.fullmatch(top):
            raise InputError(
                f"'{excerpt(path)}' is the name of a file that modak writes itself; choose another", key=key
            )
    return {inner_path(path, key): key for path, key in paths.items()}


def check_logs(request: JobRequest) -> None:
    """Raise InputError for a file of the job's output that is another one as well, here or in the job's folder."""
    options = request.options
    inputs = {inner_path(source.path, "application") for source in request.sources}
    separate = options.error is not None or not options.join_output
    for key, path, other in (
        ("job.output", options.output, ERROR if separate and options.error is None else None),
        ("job.error", options.error, OUTPUT if options.output is None else None),
    ):
        if path is None or path.startswith("/"):  # such a file stays on the target
            continue
        plain = inner_path(path, key)
        top = plain.partition("/")[0]
        if plain in inputs:
            raise InputError(f"'{excerpt(path)}' is an input of the job; choose another name", key=key)
        if plain == other or top == ATTEMPTS or (_OWN.fullmatch(top) and plain not in (OUTPUT, ERROR)):
            raise InputError(
                f"'{excerpt(path)}' is the name of a file that modak writes itself; choose another", key=key
            )


def fetch_results(transport: Transport, job: Job, result: JobResult, results: Path) -> FetchedResults:
    """Fetch the job's files to ``<results>/<run name>/`` and read its metrics.

    Of a job that completed each declared output must be there: JobError names one that is not. Of any other job comes
    what there is. What can never be fetched (a socket, a link that leads out of the results) is named in the result;
    TargetError names what could not be fetched this time, after everything else was.
    """
    return fetch_all(transport, [Ended(job, result, results)])[0]


def fetch_all(transport: Transport, ended: Sequence[Ended]) -> list[FetchedResults]:
    """Fetch the files of several jobs, each as ``fetch_results`` does; small ones come in one round trip.

    What is wrong with the results of some is raised when those of the others are there.
    """
    fetched: list[FetchedResults] = []
    faults: list[JobError | IncompleteError] = []
    for first in range(0, len(ended), TOGETHER):
        part = ended[first : first + TOGETHER]
        wanted = [_wanted(item) for item in part]
        lists = list_all(transport, wanted) if len(part) > 1 else [None]
        for item, want, listed in zip(part, wanted, lists, strict=True):
            try:
                fetched.append(_fetch(transport, item, want, listed))
            except (JobError, IncompleteError) as error:
                faults.append(error)
    if faults:
        raise type(faults[0])(all_of(faults))
    return fetched


def _wanted(item: Ended) -> Wanted:
    """Return what is to be listed of a job; files come with the list where none was fetched before."""
    outputs = [f"{WORK}/{output}" for output in declared_outputs(item.job.request)]
    logs = _logs(item.job, completed=item.result.state == "completed")
    is_first = not (item.results / item.job.request.name / RESULT).exists()
    return Wanted(item.job.spec.directory, [*outputs, *logs], is_first)


def _fetch(transport: Transport, item: Ended, wanted: Wanted, listed: Answer | None) -> FetchedResults:
    job, result = item.job, item.result
    path = item.results / job.request.name
    outputs = declared_outputs(job.request)
    with ResultsFolder(path) as folder:
        is_new = _keep_document(job.request, folder)
        outcome = Transfer(transport, wanted, folder).run(listed)
        # The job's folder on the target may be removed next. What lay here already may be what a run that was killed
        # had just written.
        folder.sync({PLAN, *(local_path(path) for path in outcome.listing.paths)})
        if outcome.failed:
            raise IncompleteError(f"the results of job {job.id} are not complete: {_list(outcome.failed)}; try again")
        result = result.model_copy(update={"results": str(path), "not_fetched": _sentences(outcome.skipped)})
        tried = {"tuning": read_tuning(transport, job), "restart": read_restart(transport, job)}
        result = result.model_copy(update=tried)
        if result.state == "completed":
            _check_written(job, outputs, outcome)
            result = result.model_copy(update={"metrics": _metrics(job.request, folder)})
        return FetchedResults(result, _keep(result, folder) or outcome.changed or is_new)


def _keep_document(request: JobRequest, folder: ResultsFolder) -> bool:
    """Write the job's document where none of the same job lies; return whether it was written.

    What lies there may be newer, and tell more of why. The copy on the target is not used: it may have been changed.
    """
    document = request.document
    if document is None or document.describes(folder.read(PLAN, _MAX_PLAN) or b""):
        return False
    folder.put(PLAN, document.text, 0o600)
    return True


def _keep(result: JobResult, folder: ResultsFolder) -> bool:
    """Write the result beside what was fetched; return whether that changed anything."""
    data = (result.model_dump_json(indent=2) + "\n").encode()
    if folder.read(RESULT, len(data)) == data:
        return False
    folder.put(RESULT, data, 0o600)
    folder.sync([RESULT])
    return True


def _check_written(job: Job, outputs: dict[str, str], outcome: Outcome) -> None:
    for output, key in outputs.items():
        path = f"{WORK}/{output}"
        if outcome.listing.has(path):
            continue
        text = f"job {job.id} completed without writing '{excerpt(output)}', which {key} declares"
        if path in outcome.listing.links:
            text += f": it is a symbolic link to '{excerpt(outcome.listing.links[path])}', which does not exist"
        if _is_full(outcome.space):
            text += "; the file system of the job's folder has no space left"
        raise JobError(text)


def _metrics(request: JobRequest, folder: ResultsFolder) -> dict[str, object] | None:
    if request.metrics is None:
        return None
    path = inner_path(request.metrics, "application.metrics")
    data = folder.read(path, MAX_BYTES)
    origin = f"{folder.path}/{excerpt(path)}"
    if data is None:
        raise JobError(f"{origin}: not a file of at most {MAX_BYTES // 1024**2} MiB, as metrics must be")
    return parse_metrics(data, origin)


def _is_full(space: str) -> bool:
    """Return whether df says that nothing is free; a line ends with size, used, free, percentage and mount point."""
    line = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+\d+%\s", space, re.ASCII)
    return line is not None and (line[3].startswith("-") or len(line[3].lstrip("0")) < 2)


def _sentences(reasons: dict[str, str]) -> list[str]:
    lines = [f"{excerpt(local_path(path))}: {why}" for path, why in sorted(reasons.items())]
    return lines if len(lines) <= _KEPT else [*lines[:_KEPT], f"and {len(lines) - _KEPT} more"]


def _list(reasons: dict[str, str]) -> str:
    lines = [f"'{excerpt(local_path(path))}': {why}" for path, why in sorted(reasons.items())]
    more = [f"and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
    return "; ".join([*lines[:_NAMED], *more])


def _logs(job: Job, *, completed: bool) -> Iterator[str]:
    array = options.array(job.spec, job.scheduler.name)
    suffixes = [f".{task}" for task in array.indices()] if array else [""]
    for path in (job.spec.output, job.spec.error):
        plain = posixpath.normpath(path or "")
        # What the user sends elsewhere on the target stays there.
        if plain.startswith(f"{job.spec.directory}/"):
            yield from (plain.removeprefix(f"{job.spec.directory}/") + suffix for suffix in suffixes)
    if not completed:
        yield _SCHEDULER_LOG
        # Each scheduler puts the task's number there in its own way.
        yield from (f"{_SCHEDULER_LOG}{mark}{task}" for task in (array.indices() if array else []) for mark in ".-")
