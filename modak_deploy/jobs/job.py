"""A job on a target: what belongs to it, and where."""

import posixpath
from dataclasses import dataclass
from pathlib import PurePosixPath

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.jobs.folder import ADOPTED
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.reported import job_id
from modak_deploy.schedulers.base import JobSpec, Scheduler
from modak_deploy.transport.base import Completed

SCRIPT = "job.sh"
PLAN = "plan.json"
WORK = "work"
SECRETS = "state/secret_environment"
"""Shell lines that set the secret variables; it is for its owner only, and the job removes it once it has read it."""
OUTPUT = "output.log"
ERROR = "error.log"


@dataclass(frozen=True)
class Job:
    """A job that the scheduler has taken; TargetError for an id that is none."""

    id: str
    spec: JobSpec
    request: JobRequest
    scheduler: Scheduler
    submitted: float | None = None
    """Seconds since the epoch on the target."""
    attempt: int = 1
    """How often the job has been submitted, this time included."""

    def __post_init__(self) -> None:
        job_id(self.id)


def folder_name(request: JobRequest) -> str:
    """Return the name of the job's folder below ``<workspace>/runs``."""
    return f"{request.name}-{request.tag.removeprefix('modak-')[:16]}"


def check_workspace(request: JobRequest) -> str:
    """Return the target's workspace; InputError when it is neither absolute nor below the home."""
    workspace = request.target.workspace
    if not (workspace == "~" or workspace.startswith(("~/", "/"))):
        raise InputError(f"target.workspace '{workspace}' is neither an absolute path nor one below '~/'")
    return workspace


def specification(request: JobRequest, directory: str) -> JobSpec:
    """Return what the scheduler must know of a job in ``directory``, the job's absolute folder."""
    options = request.options
    separate = options.error is not None or not options.join_output
    output = _output(directory, options.output, OUTPUT)
    return JobSpec(
        name=request.name,
        tag=request.tag,
        directory=directory,
        script=f"{directory}/{SCRIPT}",
        output=output,
        error=error_beside(output, _output(directory, options.error, ERROR)) if separate else None,
        resources=request.resources,
        options=options,
        target=request.target,
        rank_start=request.rank_start,
    )


def error_beside(output: str, error: str) -> str | None:
    """Return the file for errors; None where it is that of the output, as many write it for Slurm.

    A shell that opened it twice would have each of them write over the other.
    """
    return None if posixpath.normpath(output) == posixpath.normpath(error) else error


def inner_path(path: str, key: str) -> str:
    """Return a path below the working directory in its plain form; InputError naming ``key`` for one that leads out."""
    plain = PurePosixPath(path)
    if plain.is_absolute() or ".." in plain.parts or not plain.parts:
        text = f"'{path}' is not below the job's working directory"
        raise InputError(text, key=key, hint="write a relative path")
    return str(plain)


def read_id(scheduler: Scheduler, text: str) -> str | None:
    """Return the id in the record of a submission; None when it holds none."""
    if text.startswith(ADOPTED):
        return text.removeprefix(ADOPTED).strip() or None
    try:
        return scheduler.parse_submit(Completed(0, text + "\n", ""))
    except (JobError, TargetError):
        return None


def _output(directory: str, path: str | None, default: str) -> str:
    if path is None:
        return f"{directory}/{default}"
    return path if path.startswith("/") else f"{directory}/{WORK}/{path}"
