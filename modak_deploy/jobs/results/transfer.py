"""Files, folders and links of a job, from the target to the results' folder: only what differs, each by its digest."""

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeGuard

from modak_deploy import shell
from modak_deploy.errors import InputError, TargetError
from modak_deploy.jobs.files import LARGE, digest
from modak_deploy.jobs.job import WORK
from modak_deploy.jobs.remote import Answer, Step, StepError, call, carry_out, carry_out_all
from modak_deploy.jobs.results import listing
from modak_deploy.jobs.results.folder import InTheWay, ResultsFolder, UnsupportedName
from modak_deploy.jobs.results.links import kept_target
from modak_deploy.jobs.results.listing import MAX_LISTING, File, Listing
from modak_deploy.reported import has_control
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport
from modak_deploy.transport.local import encode
from modak_deploy.transport.rsync import Rsync, rsync_over

PACKAGE = "modak_deploy.jobs"
"""Where the steps lie."""
BATCH = 16 * 1024 * 1024
"""Bytes of files, with what tar adds to each, in one answer."""
PIECE = 16
"""MiB of one file in one answer."""
_MIB = 1024 * 1024
EAGER = 1024 * 1024
"""Bytes of files that may come with their list."""
TOGETHER = 50
"""Jobs whose files are listed in one round trip, with bounds for each of them."""
_LISTING_TOGETHER = 1024 * 1024
_CONTENT_TOGETHER = 256 * 1024
_SPAN = 60.0
"""Seconds after which no further jobs are listed in one round trip."""
_TAR = 1024
"""Bytes of tar's header and padding, at most."""
_PATHS = 500
"""Names in one call of a shell function."""
_LINE = 64 * 1024
"""Bytes of them: half of what Linux takes as arguments at the least."""
_TRIES = 3
"""How often is looked again where files change meanwhile."""
_LIMIT = 3600.0
"""Seconds for the target to read all results once."""


@dataclass
class Outcome:
    """What became of a transfer."""

    listing: Listing
    changed: bool = False
    """Whether anything on the controller was written."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why something was left on the target, by path: trying again would not help."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why something could not be fetched now, by path."""
    space: str = ""
    """What df prints of the job's folder."""


def local_path(path: str) -> str:
    """Return where a path below the job's folder lies below the results."""
    return path.removeprefix(f"{WORK}/")


@dataclass(frozen=True)
class Wanted:
    """What is to be fetched of a job: ``paths`` below its folder on the target."""

    directory: str
    paths: Sequence[str]
    is_first: bool
    """Nothing was fetched before, so that small files may come with their list."""

    def step(self, *, limit: int = MAX_LISTING, content: int | None = None) -> Step:
        """Return the step that lists the files, in at most ``limit`` bytes, with about ``content`` bytes of them."""
        paths = [f"./{path}" for path in dict.fromkeys(self.paths)]
        stdin = "".join(f"{line}\n" for line in _calls("want", paths))
        arguments = [self.directory, str(limit), str(0 if not self.is_first else EAGER if content is None else content)]
        return Step("list_results", arguments, encode(stdin), ["pack"], PACKAGE)


def list_all(transport: Transport, wanted: Sequence[Wanted]) -> list[Answer | None]:
    """List the files of several jobs in one round trip; None for each that is to be listed alone."""
    steps = [[item.step(limit=_LISTING_TOGETHER, content=_CONTENT_TOGETHER)] for item in wanted]
    try:
        answers = carry_out_all(transport, steps, seconds=_SPAN, limit=_LIMIT)
    except StepError:
        return [None] * len(wanted)
    return [answer[0] if answer and _is_whole(answer[0]) else None for answer in answers]


def _is_whole(answer: Answer | TargetError) -> TypeGuard[Answer]:
    return isinstance(answer, Answer) and answer.text("listing").endswith("\0")


class Transfer:
    """One job's results on their way to the controller."""

    def __init__(self, transport: Transport, wanted: Wanted, folder: ResultsFolder) -> None:
        self._transport = transport
        self._wanted = wanted
        self._directory = wanted.directory
        self._paths = list(dict.fromkeys(wanted.paths))
        self._folder = folder
        self._rsync: Rsync | None = None

    def run(self, answer: Answer | None = None) -> Outcome:
        """Fetch what differs, and look again, a few times, where a file has changed meanwhile.

        ``answer`` is that of ``Wanted.step``, where it has been carried out.
        """
        changed = False
        for left in reversed(range(_TRIES)):
            answer = answer or carry_out(self._transport, [self._wanted.step()], limit=_LIMIT)[0]
            outcome = self._parse(answer)
            outcome.changed = changed
            self._take_content(answer, outcome)
            answer = None
            self._fetch_lacking(outcome)
            changed = outcome.changed
            if not left or not outcome.failed:
                break
        for path in outcome.listing.unreadable:
            outcome.failed[path] = "it cannot be read on the target"
        self._make_links(outcome)
        self._set_modes(outcome)
        return outcome

    def _parse(self, answer: Answer) -> Outcome:
        self._rsync = None if answer.get("rsync") is None else rsync_over(self._transport)
        listed = listing.parse(answer, self._paths)
        outcome = Outcome(listed, skipped=dict(listed.skipped), space=answer.text("space"))
        if listed.incomplete:
            outcome.failed["some folder"] = f"it cannot be read on the target{_first_line(answer.stderr)}"
        return outcome

    def _take_content(self, answer: Answer, outcome: Outcome) -> None:
        """Write the files that came whole with their list; the others are fetched as if none had."""
        for path in sorted(outcome.listing.folders):
            self._guarded(outcome, path, partial(self._folder.make_folder, local_path(path)))
        text = answer.get("content")
        if not text:
            return
        files = outcome.listing.files
        with suppress(TargetError, tarfile.TarError):  # the archive is cut off where there is more than was asked for
            for path, content in listing.contents(_cut(text, answer.text("encoding")), _sizes(files.values())):
                file = files[path]
                fits = not self._folder.holds(local_path(path), file.size, file.digest)
                if fits and len(content) == file.size and digest(content, file.digest) == file.digest:
                    self._guarded(outcome, path, partial(self._folder.put, local_path(path), content, file.mode))

    def _fetch_lacking(self, outcome: Outcome) -> None:
        files = sorted(outcome.listing.files.values(), key=lambda file: file.path)
        lacking = [file for file in files if not self._folder.holds(local_path(file.path), file.size, file.digest)]
        need, free = sum(file.size for file in lacking), self._folder.free()
        if need > free:
            raise InputError(
                f"the results need {need / _MIB:.0f} MiB, and there are {free / _MIB:.0f} MiB free in "
                f"{self._folder.path}"
            )
        alone = [file for file in lacking if file.size >= LARGE or file.path in outcome.listing.followed]
        packed = [file for file in lacking if file.size < LARGE and file.path not in outcome.listing.followed]
        for batch in _batches(packed):
            self._fetch_batch(batch, outcome)
        for file in alone:
            self._fetch_alone(file, outcome)

    def _fetch_batch(self, batch: Sequence[File], outcome: Outcome) -> None:
        """Fetch files as one archive."""
        stdin = "".join(f"{line}\n" for line in _calls("pack", [f"./{file.path}" for file in batch]))
        answer = self._call("read_results", [self._directory], stdin)
        asked = {file.path: file for file in batch}
        for path, content in listing.contents(_content(answer), {file.path: file.size for file in batch}):
            if (file := asked.get(path)) is not None and digest(content, file.digest) == file.digest:
                del asked[path]
                self._guarded(outcome, path, partial(self._folder.put, local_path(path), content, file.mode))
        said = _first_line(answer.stderr)
        for path in asked:
            outcome.failed[path] = f"it changed, or was damaged, while it was fetched{said}"

    def _fetch_alone(self, file: File, outcome: Outcome) -> None:
        """Fetch a large file, or one whose path is a link, which tar would pack as such."""
        path = local_path(file.path)
        part = self._folder.part()
        remote = f"{self._directory}/{file.path}"
        if file.path in outcome.listing.followed or has_control(file.path):
            self._folder.write(part, self._pieces(file))
        elif self._rsync is None or not self._rsync_from(remote, path, file.size):
            self._transport.fetch(remote, part)
        if part.stat().st_size != file.size or digest(part, file.digest) != file.digest:
            outcome.failed[file.path] = "it changed, or was damaged, while it was fetched"
        else:
            self._guarded(outcome, file.path, partial(self._folder.install, path, file.mode))

    def _rsync_from(self, remote: str, path: str, size: int) -> bool:
        part = self._folder.part()
        self._folder.copy(path, part, size)  # only what has changed since travels
        return self._rsync is not None and self._rsync.fetch(remote, part)

    def _pieces(self, file: File) -> Iterator[bytes]:
        """Yield the file's bytes, no more than it had when it was listed."""
        for skip in range(0, -(-file.size // _MIB), PIECE):
            line = shell.join(["piece", f"./{file.path}", str(skip), str(PIECE)])
            yield _content(self._call("read_results", [self._directory], f"{line}\n"))[: PIECE * _MIB]

    def _make_links(self, outcome: Outcome) -> None:
        for path, target in sorted(outcome.listing.links.items()):
            kept = kept_target(local_path(path), target, f"{self._directory}/{WORK}")
            if kept is None:
                outcome.skipped[path] = f"it is a symbolic link to '{excerpt(target)}', outside the results"
            else:
                self._guarded(outcome, path, partial(self._folder.make_link, local_path(path), kept))

    def _set_modes(self, outcome: Outcome) -> None:
        for path, mode in sorted(outcome.listing.folders.items()):
            outcome.changed |= self._folder.set_mode(local_path(path), mode)
        for file in sorted(outcome.listing.files.values(), key=lambda file: file.path):
            if file.path not in outcome.failed and file.path not in outcome.skipped:
                outcome.changed |= self._folder.set_mode(local_path(file.path), file.mode)

    def _guarded(self, outcome: Outcome, path: str, write: Callable[[], bool | None]) -> None:
        """Write something, and note whether that changed the results, or why it cannot be there."""
        try:
            outcome.changed |= write() is not False
        except UnsupportedName as error:
            outcome.skipped[path] = str(error)
        except InTheWay as error:
            outcome.failed[path] = str(error)

    def _call(self, step: str, arguments: Sequence[str], stdin: str) -> Answer:
        library = ["pack"]
        return call(
            self._transport, step, arguments, stdin=encode(stdin), package=PACKAGE, library=library, limit=_LIMIT
        )


def _sizes(files: Iterable[File]) -> dict[str, int]:
    return {file.path: file.size for file in files}


def _cut(text: str, encoding: str) -> bytes:
    """Return the bytes of a text that may have been cut off in the middle of one."""
    data = re.sub(r"\s+", "", text)
    return listing.decoded(data[: len(data) // 4 * 4], encoding)


def _calls(function: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield lines of shell that call ``function`` with all ``paths``."""
    line: list[str] = []
    size = 0
    for path in paths:
        if line and (len(line) >= _PATHS or size + len(path) > _LINE):
            yield f"{function} {shell.join(line)}"
            line, size = [], 0
        line.append(path)
        size += len(encode(path))
    if line:
        yield f"{function} {shell.join(line)}"


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    batch: list[File] = []
    size = 0
    for file in files:
        if batch and size + file.size + _TAR > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size + _TAR
    if batch:
        yield batch


def _content(answer: Answer) -> bytes:
    for encoding in ("base64", "hex"):
        if (text := answer.get(encoding)) is not None:
            return listing.decoded(text, encoding)
    raise TargetError("the results did not arrive from the target")


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if re.search(r"\S", line)), "")
    return f": {excerpt(line)}" if line else ""
