"""Results brought back: outputs, metrics, logs and the Plan, each whole, by digest, and only when it changed."""

import base64
import binascii
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import mkstemp
from typing import Any, NoReturn

from modak.errors import InputError, JobError, TargetError
from modak.jobs.attempts import ATTEMPTS
from modak.jobs.files import LARGE, digest
from modak.jobs.job import ERROR, OUTPUT, PLAN, WORK, Job, inner_path
from modak.jobs.remote import Answer, call
from modak.model.job import JobResult
from modak.model.plan import Plan
from modak.schedulers import options
from modak.transport.base import Transport
from modak.transport.local import encode
from modak.transport.rsync import Rsync, rsync_over

EACH = 1024 * 1024
"""Largest file, in bytes, that travels in the answer itself."""
SUM = 4 * 1024 * 1024
"""Most bytes of files in one answer."""
_LIMIT = 3600.0
"""Seconds for the target to read all results once."""
_SCHEDULER_LOG = "scheduler.log"
RESULT = "job.json"
"""What became of the job, as far as the controller saw it."""
_OWN = (PLAN, OUTPUT, ERROR, RESULT, _SCHEDULER_LOG)
_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}|cksum:\d+:\d+) (?P<size>\d+) (?P<path>.+)")


@dataclass(frozen=True)
class Brought:
    """The job's result with what was brought, and whether a file on the controller was written."""

    result: JobResult
    changed: bool


@dataclass(frozen=True)
class _File:
    """One file on the target, by its path below the job's folder."""

    path: str
    digest: str
    size: int

    def local(self, place: Path) -> Path:
        return place / self.path.removeprefix(f"{WORK}/")

    def is_at(self, place: Path) -> bool:
        local = self.local(place)
        return local.is_file() and local.stat().st_size == self.size and digest(local, self.digest) == self.digest


def declared(plan: Plan) -> dict[str, str]:
    """Return the outputs and the metrics file that the application is to write, with the key that says so.

    InputError for one that lies outside the working directory or has the name of a file of modak's own.
    """
    application = plan.application
    paths = dict.fromkeys(application.outputs, "application.outputs")
    if application.metrics is not None:
        paths[application.metrics] = "application.metrics"
    for path, key in paths.items():
        if inner_path(path, key) in _OWN or inner_path(path, key).split("/")[0] == ATTEMPTS:
            raise InputError(f"{key} '{path}' has the name of a file of modak's own: give it another one")
    return {inner_path(path, key): key for path, key in paths.items()}


def bring(transport: Transport, job: Job, result: JobResult, results: Path) -> Brought:
    """Bring the job's files into ``<results>/<run name>/`` and read its metrics.

    Of a job that completed each declared output must be there: JobError names one that is not. Of any other job comes
    what there is.
    """
    place = results / job.plan.name
    outputs = declared(job.plan)
    logs = [] if _is_kept(job.plan, place) else [PLAN]
    logs += _logs(job, completed=result.state == "completed")
    there, changed = _transfer(transport, job.spec.directory, [*(f"{WORK}/{path}" for path in outputs), *logs], place)
    result = result.model_copy(update={"results": str(place)})
    if result.state != "completed":
        return Brought(result, _keep(result, place) or changed)
    for path, key in outputs.items():
        inner = f"{WORK}/{path}"
        if not any(file.path == inner or file.path.startswith(f"{inner}/") for file in there):
            raise JobError(f"job {job.id} completed without writing '{path}', which {key} declares")
    metrics = job.plan.application.metrics
    values = None if metrics is None else read_metrics(place / inner_path(metrics, "application.metrics"))
    result = result.model_copy(update={"metrics": values})
    return Brought(result, _keep(result, place) or changed)


def _is_kept(plan: Plan, place: Path) -> bool:
    """Whether a Plan of the same job lies here; it may be newer than the job's own, and tell more of why."""
    try:
        return Plan.model_validate_json((place / PLAN).read_bytes()).tag() == plan.tag()
    except (OSError, ValueError):
        return False


def _keep(result: JobResult, place: Path) -> bool:
    """Write the result beside what was brought; return whether that changed anything."""
    path = place / RESULT
    text = result.model_dump_json(indent=2) + "\n"
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return False
        place.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{RESULT}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise InputError(f"the job's result cannot be kept as {path}: {error.strerror}") from None
    return True


def read_metrics(file: Path) -> dict[str, Any]:
    """Return what an application's metrics file says; JobError when that is no JSON object."""

    def no_number(text: str) -> NoReturn:
        raise ValueError(f"{text} is no number in JSON")

    try:
        values = json.loads(file.read_bytes(), parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise JobError(f"the metrics file {file} is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise JobError(f"the metrics file {file} holds a JSON {type(values).__name__}: it must hold an object")
    return values


def _logs(job: Job, *, completed: bool) -> Iterator[str]:
    array = options.array(job.spec, job.scheduler.name)
    suffixes = [f".{task}" for task in array.indices()] if array else [""]
    for path in (job.spec.output, job.spec.error):
        # What the user sends elsewhere on the target stays there.
        if path is not None and path.startswith(f"{job.spec.directory}/"):
            yield from (path.removeprefix(f"{job.spec.directory}/") + suffix for suffix in suffixes)
    if not completed:
        yield _SCHEDULER_LOG
        # Each scheduler puts the task's number there in its own way.
        yield from (f"{_SCHEDULER_LOG}{mark}{task}" for task in (array.indices() if array else []) for mark in ".-")


def _transfer(transport: Transport, directory: str, paths: Sequence[str], place: Path) -> tuple[list[_File], bool]:
    """Bring ``paths``, files and folders, and return the files that there are, and whether any was written here."""
    changed = False
    while True:
        lines = [*(f"want {path}" for path in paths), *_have(paths, place)]
        stdin = encode("".join(f"{line}\n" for line in lines))
        answer = call(transport, "results", [directory, str(EACH), str(SUM)], stdin=stdin, limit=_LIMIT)
        there = [_parse(line) for line in answer.text("files").splitlines()]
        lacking = {file.path: file for file in there if not file.is_at(place)}
        if not lacking:
            return there, changed
        arrived = list(_unpack(answer))
        for path, content in arrived:
            if (file := lacking.pop(path, None)) is not None:
                _put(file, content, place)
                changed = True
        if not arrived or not any(file.size <= EACH for file in lacking.values()):
            rsync = _rsync(transport, answer, lacking.values())
            for file in lacking.values():
                _fetch(transport, rsync, directory, file, place)
            return there, True


def _have(paths: Iterable[str], place: Path) -> Iterator[str]:
    """Yield a line for each file that has been brought before."""
    for path in paths:
        local = place / path.removeprefix(f"{WORK}/")
        for file in sorted(local.rglob("*")) if local.is_dir() else [local]:
            inner = f"{path}/{file.relative_to(local).as_posix()}" if local.is_dir() else path
            if file.is_file() and "\n" not in inner:
                yield f"have {digest(file)} {file.stat().st_size} {inner}"


def _parse(line: str) -> _File:
    match = _LINE.fullmatch(line)
    if match is None or ".." in PurePosixPath(match["path"]).parts:
        raise TargetError(f"the job wrote a file whose name cannot be brought back: {line[:200]!r}")
    return _File(match["path"], match["digest"], int(match["size"]))


def _unpack(answer: Answer) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the files in an answer."""
    try:
        if (text := answer.get("base64")) is not None:
            data = base64.b64decode("".join(text.split()), validate=True)
        elif (text := answer.get("hex")) is not None:
            data = bytes.fromhex(text)
        else:
            return
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name.removeprefix("./"), file.read()
    except (binascii.Error, ValueError, tarfile.TarError, EOFError):
        raise TargetError("the results arrived damaged from the target") from None


def _put(file: _File, content: bytes, place: Path) -> None:
    if digest(content, file.digest) != file.digest:
        raise TargetError(f"the result '{file.path}' arrived damaged from the target, or is still being written")
    local = file.local(place)
    with _new_file(local) as new:
        new.write_bytes(content)


def _rsync(transport: Transport, answer: Answer, files: Iterable[_File]) -> Rsync | None:
    """Return rsync where both ends have it and a file is worth another login."""
    worth = answer.get("rsync") is not None and any(file.size >= LARGE for file in files)
    return rsync_over(transport) if worth else None


def _fetch(transport: Transport, rsync: Rsync | None, directory: str, file: _File, place: Path) -> None:
    local, remote = file.local(place), f"{directory}/{file.path}"
    with _new_file(local) as new:
        large = rsync if file.size >= LARGE else None
        if large is not None and local.is_file():
            shutil.copyfile(local, new)  # only what has changed since travels
        if large is None or not large.fetch(remote, new):
            transport.fetch(remote, new)
        if digest(new, file.digest) != file.digest:
            raise TargetError(f"the result '{file.path}' arrived damaged from the target, or is still being written")


@contextmanager
def _new_file(local: Path) -> Iterator[Path]:
    """Give a file beside ``local`` to be renamed to it; it is gone afterwards when it was not."""
    try:
        local.parent.mkdir(parents=True, exist_ok=True)
        handle, name = mkstemp(dir=local.parent, prefix=f".{local.name[:100]}.")
        os.close(handle)
    except OSError as error:
        raise InputError(f"the result {local} cannot be written: {error.strerror}") from None
    new = Path(name)
    try:
        yield new
        # Private while it is being written, then as the user's other files.
        new.chmod(0o666 & ~_umask())
        new.replace(local)
    except OSError as error:
        raise InputError(f"the result {local} cannot be written: {error.strerror}") from None
    finally:
        new.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
