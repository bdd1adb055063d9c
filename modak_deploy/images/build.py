"""Building an image: a job like any other, submitted once, watched, and going on where it was broken off."""

import hashlib
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from modak_deploy.containers.base import COMPRESSIONS
from modak_deploy.containers.capabilities import check_source
from modak_deploy.documents import LocalSource
from modak_deploy.errors import InputError, JobError
from modak_deploy.images.define import Definition
from modak_deploy.images.registry import is_loopback
from modak_deploy.images.wheels import CONFIGURATION, fetch
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.execution import Image, Source
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.reference import parse
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target, usual_scheduler
from modak_deploy.util.digest import sha256_of

_TAIL = 256 * 1024
"""Bytes at the end of a build's log in which the reason is looked for."""
_ROOM = 2 * 1024**3
"""Bytes that a build takes besides four times what it is given."""
_KEPT = {
    "account", "partition", "qos", "wall_time", "memory", "memory_per_core", "gpus", "constraint", "node_list",
    "exclusive", "environment", "modules", "pre_execution",
}  # fmt: skip
"""What a build's job has in common with the job that wants the image."""


@dataclass(frozen=True)
class Build:
    """A job that builds an image and the ones below it, and the files that it needs."""

    request: JobRequest
    sources: Sequence[LocalSource]
    image: Image


def stages(definition: Definition) -> list[Definition]:
    """Return the definitions to build, the lowest first."""
    chain = [definition]
    while chain[0].base is not None:
        chain.insert(0, chain[0].base)
    return chain


def make_build(
    definition: Definition,
    target: Target,
    folder: Path,
    *,
    runtime: RuntimeName = "apptainer",
    compression: str = "zstd",
    job: JobOptions | None = None,
    wheels: bool = True,
) -> Build:
    """Write all that the build needs to ``folder`` and return its job on ``target``.

    With ``wheels`` this machine's pip fetches the Python packages; otherwise the build asks the package index itself.
    """
    if compression not in COMPRESSIONS:
        raise InputError(f"compression '{compression}' is not supported; use one of {', '.join(COMPRESSIONS)}")
    check_source(runtime, parse(f"build://{definition.entry.name}"))
    chain = stages(definition)
    for stage in chain:
        _write(stage, folder / stage.stem, wheels)
    (folder / "build.sh").write_text(_script(), encoding="utf-8")
    sources = [_source(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    size = sum(item.source.size for item in sources)
    bottom = parse(chain[0].entry.origin or chain[0].entry.reference or "library/scratch")
    argv = [
        "sh",
        "build.sh",
        # The job's folder is <workspace>/runs/<name>, and the application starts in work/ below it.
        target.images if target.images and posixpath.isabs(target.images) else f"../../../{target.images or 'images'}",
        runtime,
        COMPRESSIONS[compression],
        str(4 * size + _ROOM),
        "1" if is_loopback(bottom.registry) else "0",
        *(part for stage in chain for part in (stage.stem, stage.entry.name, stage.digest)),
    ]
    request = _request(definition, target, argv, [item.source for item in sources], job or JobOptions())
    image = Image(
        reference=f"build://{definition.entry.name}",
        digest=definition.digest,
        entry=definition.entry.name,
        architecture=definition.entry.architecture,
        accelerator=definition.entry.accelerator,
        labels={"modak.digest": definition.digest},
    )
    return Build(request, sources, image)


def run_build(build: Build, jobs: Jobs, logs: Path, *, timeout: float | None = None, follow: bool = False) -> JobResult:
    """Build, unless it is done or under way; return how it ended, with the log in ``logs`` where it ended badly.

    A build that has ended before in any other way than completed is started anew: the images below that were finished
    are kept, and so is what its compilers had cached. JobError names the reason.
    """
    present = jobs.present(build.request, build.sources)
    if not present.made and not jobs.is_alive(present.job):
        present = _anew(build, jobs, present, timeout)
    return _finish(build, jobs, present, logs, timeout, follow)


def _anew(build: Build, jobs: Jobs, dead: Present, timeout: float | None) -> Present:
    """Return the build's job, submitted anew where ``dead``, which is in no queue, has not completed.

    A job that was killed together with its script, or whose node died, has written down no end; ``wait`` returns it as
    lost after some seconds. Another controller may meanwhile have started the build: its job stays.
    """
    (result,) = jobs.wait([dead], timeout=timeout)
    if result.state == "completed":
        return dead
    matches = jobs.find(build.request)
    if matches is not None and matches.id == dead.job.id:
        ended = result.state.replace("_", " ")
        jobs.notice(f"job {dead.job.id}, which built the image '{build.image.entry}', ended as {ended}: building anew")
        jobs.absent(build.request)
    return jobs.present(build.request, build.sources)


def _finish(build: Build, jobs: Jobs, present: Present, logs: Path, timeout: float | None, follow: bool) -> JobResult:
    (result,) = jobs.wait([present], timeout=timeout, follow=follow)
    if result.state != "completed":
        fetched = jobs.fetch_results(present.job, result, logs)
        log = Path(fetched.result.results or logs) / "output.log"
        raise JobError(
            f"the image '{build.image.entry}' was not built: {_reason(log, result)}", hint=f"the log is {log}"
        )
    jobs.absent(build.request)
    return result


def _reason(log: Path, result: JobResult) -> str:
    """Return why a build ended: what its tools said where it failed by itself, and what ended it otherwise."""
    if result.state != "failed":
        why = f"job {result.id} ended as {result.state.replace('_', ' ')}: {result.reason or 'nobody says why'}"
        return f"{why}; the next build goes on with what was finished"
    lines = _last_lines(log)
    own = [line.removeprefix("modak: ") for line in lines if line.startswith("modak: ")]
    if full := [line for line in lines if re.search(r"no space left on device|disk quota exceeded", line, re.I)]:
        return f"no space left for it: {full[-1]}"
    if own and " was not built: " not in own[-1]:
        return own[-1]
    for mark in ("FATAL:", "ERROR:", "E: ", "Error: ", "error: ", "fatal: "):
        if matches := [line for line in lines if mark in line]:
            return matches[-1]
    why = result.reason or f"it ended as {result.state}"
    return f"{why}; the log ends with: {' | '.join(lines[-3:])}" if lines else why


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a log that have text, each as one line that a terminal takes for nothing else."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read(_TAIL).decode("utf-8", "replace")
    except OSError:
        return []
    lines = ("".join(c if c.isprintable() else " " for c in line).strip() for line in re.split(r"[\r\n]+", text))
    return [" ".join(line.split())[:300] for line in lines if line]


def _write(definition: Definition, folder: Path, wheels: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.def").write_text(definition.texts["apptainer"], encoding="utf-8")
    (folder / "Containerfile").write_text(definition.texts["containerfile"], encoding="utf-8")
    for name, text in definition.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    if "requirements.txt" in definition.files:
        (folder / "pip").mkdir(exist_ok=True)
        if wheels:
            fetch(definition, folder / "pip")
        (folder / "pip" / "pip.conf").write_text(CONFIGURATION if wheels else "[global]\n", encoding="utf-8")


def _script() -> str:
    folder = files("modak_deploy.images").joinpath("sh")
    shared = [files("modak_deploy.jobs").joinpath("sh", f"{name}.sh") for name in ("common", "lock")]
    texts = [*shared, *(folder.joinpath(f"{name}.sh") for name in ("work", "watch", "store", "build"))]
    return "#!/bin/sh\nboundary=modak:\n" + "\n".join(text.read_text("utf-8") for text in texts)


def _source(path: Path, folder: Path) -> LocalSource:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    relative = path.relative_to(folder).as_posix()
    return LocalSource(Source(path=relative, sha256=digest, size=path.stat().st_size), path)


def reserved(options: JobOptions, name: str) -> JobOptions:
    """Return the options of a build's job, made from those of the job that wants the image.

    A build is one process with all the cores that one node of that job would have. What says where, for whom and how
    long stays; arrays, dependencies, scratch folders and what runs after the application are that job's alone.
    """
    per_node = options.ranks_per_node or -(-(options.ranks or 1) // options.nodes)
    kept = options.model_dump(include=_KEPT, exclude_unset=True)
    cores = per_node * (options.cores_per_rank or options.threads or 1)
    return JobOptions(**kept, name=name, ranks=1, cores_per_rank=cores if cores > 1 else None, mpi_launcher="none")


def _request(
    definition: Definition, target: Target, argv: list[str], sources: list[Source], options: JobOptions
) -> JobRequest:
    name = f"image-{definition.entry.name}"[:63].rstrip(".-_")
    request = JobRequest(
        name=name,
        tag="",
        scheduler=usual_scheduler(target.type),
        target=target,
        options=reserved(options, name),
        argv=argv,
        sources=sources,
    )
    return replace(request, tag=_tag(request))


def _tag(request: JobRequest) -> str:
    """Return the job's tag: the same for all who build this image in the same way on the target."""
    what = {
        "name": request.name,
        "scheduler": request.scheduler,
        "target": request.target.identity(),
        "job": request.options.model_dump(mode="json", exclude={"retry"}),
        "sources": [source.model_dump(mode="json") for source in request.sources],
        "argv": list(request.argv),
    }
    return f"modak-{sha256_of(what)[:16]}"
