"""The job's folder on the target: looked at, filled, removed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path, PurePosixPath

from modak_deploy import reported
from modak_deploy.errors import TargetError
from modak_deploy.jobs import files, folder
from modak_deploy.jobs.files import Upload, digest
from modak_deploy.jobs.folder import Records
from modak_deploy.jobs.job import WORK, check_workspace, folder_name
from modak_deploy.jobs.remote import STEP_LIMIT, Answer, Step, call, carry_out, carry_out_all, token
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers.base import JobSpec, Scheduler
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport
from modak_deploy.transport.local import encode
from modak_deploy.transport.rsync import Rsync, rsync_over

_AT_LENGTH = 3600.0
"""Seconds for a step that reads or carries many bytes."""
_SPAN = 60.0
"""Seconds after which no further jobs are looked at in one round trip."""


@dataclass(frozen=True)
class JobFolder:
    """A job's folder as it was when it was looked at."""

    directory: str
    exists: bool
    now: float
    """The target's time, in seconds since the epoch."""
    records: Records
    there: dict[str, str] = field(default_factory=dict)
    """Digests of the files that were asked for and are there, by path."""
    tagged: Sequence[str] | None = None
    """Jobs with the tag that the scheduler knows; None when it was not asked."""


def look(
    transport: Transport, request: JobRequest, paths: Iterable[str] = (), *, ask: Scheduler | None = None
) -> JobFolder:
    """Look at the job's folder on the target, at the files ``paths`` in it, and at what the scheduler ``ask`` knows.

    One round trip; nothing is changed.
    """
    (answer,) = carry_out(transport, [_look_step(request, paths, ask)], limit=_AT_LENGTH)
    return _job_folder(answer, request, ask)


def look_all(transport: Transport, wanted: Sequence[tuple[JobRequest, Iterable[str]]]) -> list[JobFolder]:
    """Look at the folders of several jobs as ``look`` does, in as few round trips as that takes."""
    job_folders: list[JobFolder] = []
    while left := wanted[len(job_folders) :]:
        if len(left) == 1:
            job_folders.append(look(transport, *left[0]))
            continue
        steps = [[_look_step(request, paths, None)] for request, paths in left]
        answers = carry_out_all(transport, steps, seconds=_SPAN, limit=_AT_LENGTH)
        if not answers[0]:
            raise TargetError("the answer to the step 'look' was cut off on the way")
        for (request, _), answered in zip(left, answers, strict=True):
            if not answered:
                break
            if isinstance(answered[0], TargetError):
                raise answered[0]
            job_folders.append(_job_folder(answered[0], request, None))
    return job_folders


def _look_step(request: JobRequest, paths: Iterable[str], ask: Scheduler | None) -> Step:
    find = ask.find_command(request.tag, request.name) if ask else ""
    arguments = [check_workspace(request), folder_name(request), find]
    return Step("look", arguments, encode("".join(f"{path}\n" for path in paths)))


def _job_folder(answer: Answer, request: JobRequest, ask: Scheduler | None) -> JobFolder:
    tagged = None
    if ask:
        tagged = ask.parse_find(answer.completed("found", "found_code"), request.tag)
    records = folder.parse(dict(answer.parts))
    directory = _directory(answer, request)
    if not request.tag.startswith(records.tag or ""):  # one that was cut short is damaged, and not another job's
        raise TargetError(f"{directory} is the folder of another job")
    exists, now = answer.get("exists") is not None, reported.time(answer.text("now"))
    return JobFolder(directory, exists, now, records, _digests(answer), tagged)


def _directory(answer: Answer, request: JobRequest) -> str:
    """Return the job's folder, whose name becomes part of commands, paths and the job's script.

    TargetError where it is not what the workspace asks for: of it the target adds the home alone.
    """
    directory = reported.absolute_path(answer.text("directory"), "a folder for the job")
    workspace = check_workspace(request)
    asked = f"{workspace.removeprefix('~').rstrip('/')}/runs/{folder_name(request)}"
    if directory != asked if workspace.startswith("/") else not directory.endswith(asked):
        raise TargetError(f"the target reports the folder '{excerpt(directory)}' for the job, and not '{asked}'")
    return directory


def stage(transport: Transport, spec: JobSpec, uploads: Sequence[Upload]) -> None:
    """Make the job's folder and bring the files there, each whole or not at all.

    Nothing is brought when the job has been submitted meanwhile. TargetError when a file arrives damaged.
    """
    by_rsync = False
    for batch in files.batches(upload for upload in uploads if upload.alone is None):
        (answer,) = carry_out(transport, [stage_step(spec, batch)], limit=_AT_LENGTH)
        if not check_staged(answer, batch):
            return
        by_rsync = answer.get("rsync") is not None
    rsync = rsync_over(transport) if by_rsync else None
    for upload in uploads:
        if (local := upload.alone) is not None:
            new = _put(transport, rsync, local, spec.directory, upload.path)
            mode = "700" if upload.executable else "600"
            arguments = [spec.directory, new, upload.path, mode]
            _verify([upload], call(transport, "place", arguments, limit=_AT_LENGTH))


def is_small(uploads: Sequence[Upload]) -> bool:
    """Return whether the uploads travel in one step, which others may follow in the same round trip."""
    return all(upload.alone is None for upload in uploads) and sum(upload.size for upload in uploads) <= files.LARGE


def stage_step(spec: JobSpec, uploads: Sequence[Upload], mark: str | None = None) -> Step:
    """Return the step that brings files to the job's folder; it leaves ``state/staged.<mark>`` there."""
    folders = [str(PurePosixPath(path).parent) for path in (spec.output, spec.error) if path is not None]
    return Step("stage", [spec.directory, spec.tag, mark or token(), *folders], files.archive(uploads))


def check_staged(answer: Answer, uploads: Sequence[Upload]) -> bool:
    """Return whether the files are there; False when the job has been submitted meanwhile, and nothing was brought."""
    if answer.get("late") is not None:
        return False
    _verify(uploads, answer)
    return True


def _put(transport: Transport, rsync: Rsync | None, local: Path, directory: str, path: str) -> str:
    """Bring a large file to the job's folder, and return under which name it arrived there."""
    if rsync is not None:
        # The same name at each try, so that rsync finds what came of the one before.
        new = f"state/large.{digest(path.encode())[:16]}"
        if rsync.put(local, f"{directory}/{new}"):
            return new
    new = f"state/large.{token()}"
    transport.put(local, f"{directory}/{new}")
    return new


def remove(transport: Transport, directory: str, tag: str, *, has_job: bool, wait: float) -> bool:
    """Remove the job's folder; TargetError when it does not say that it is this job's.

    Another run that submits the job is waited for, for ``wait`` seconds.
    ``has_job`` tells whether a job of that folder is recorded: where none is, and another run has submitted one
    meanwhile, nothing is removed and False returned.
    """
    arguments = [directory, tag, token(), "yes" if has_job else "", str(ceil(wait))]
    answer = call(transport, "remove", arguments, library=["lock", "leftover"], limit=wait + STEP_LIMIT)
    return answer.get("appeared") is None


def _digests(answer: Answer) -> dict[str, str]:
    lines = (line.split(" ", 2) for line in answer.text("files").split("\n"))
    return {fields[2]: fields[0] for fields in lines if len(fields) == 3}


def _verify(uploads: Iterable[Upload], answer: Answer) -> None:
    there = _digests(answer)
    for upload in files.changed(uploads, there):
        name = upload.path.removeprefix(f"{WORK}/")
        raise TargetError(f"the file '{name}' arrived damaged on the target")
