"""Files, folders and links of a job, from the target to the results' folder: only what differs, each by its digest."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from modak import shell
from modak.errors import InputError, TargetError
from modak.jobs.files import LARGE, digest
from modak.jobs.job import WORK
from modak.jobs.remote import Answer, call
from modak.jobs.results import listing
from modak.jobs.results.folder import InTheWay, ResultsFolder, UnsupportedName
from modak.jobs.results.links import kept_target
from modak.jobs.results.listing import MAX_LISTING, File, Listing
from modak.reported import has_control
from modak.terminal import excerpt
from modak.transport.base import Transport
from modak.transport.local import encode
from modak.transport.rsync import Rsync, rsync_over

PACKAGE = "modak.jobs"
"""Where the steps lie."""
BATCH = 16 * 1024 * 1024
"""Bytes of files, with what tar adds to each, in one answer."""
PIECE = 16
"""MiB of one file in one answer."""
_MIB = 1024 * 1024
_TAR = 1024
"""Bytes of tar's header and padding, at most."""
_WORDS = 500
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


class Transfer:
    """One job's results on their way to the controller."""

    def __init__(self, transport: Transport, directory: str, paths: Sequence[str], folder: ResultsFolder) -> None:
        self._transport = transport
        self._directory = directory
        self._paths = list(dict.fromkeys(paths))
        self._folder = folder
        self._rsync: Rsync | None = None

    def run(self) -> Outcome:
        """Fetch what differs, and look again, a few times, where a file has changed meanwhile."""
        changed = False
        for left in reversed(range(_TRIES)):
            outcome = self._list()
            outcome.changed = changed
            self._fetch_lacking(outcome)
            changed = outcome.changed
            if not left or not outcome.failed:
                break
        for path in outcome.listing.unreadable:
            outcome.failed[path] = "it cannot be read on the target"
        self._make_links(outcome)
        self._set_modes(outcome)
        return outcome

    def _list(self) -> Outcome:
        words = [f"./{path}" for path in self._paths]
        stdin = "".join(f"{line}\n" for line in _calls("want", words))
        arguments = [self._directory, str(MAX_LISTING)]
        answer = self._call("list_results", arguments, stdin)
        self._rsync = None if answer.get("rsync") is None else rsync_over(self._transport)
        found = listing.parse(answer, self._paths)
        outcome = Outcome(found, skipped=dict(found.skipped), space=answer.text("space"))
        if found.incomplete:
            outcome.failed["some folder"] = f"it cannot be read on the target{_first_line(answer.stderr)}"
        return outcome

    def _fetch_lacking(self, outcome: Outcome) -> None:
        for path in sorted(outcome.listing.folders):
            self._guarded(outcome, path, partial(self._folder.make_folder, local_path(path)))
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
            with part.open("wb") as new:
                for content in self._pieces(file):
                    new.write(content)
        elif self._rsync is None or not self._rsync_from(remote, file, path):
            self._transport.fetch(remote, part)
        if part.stat().st_size != file.size or digest(part, file.digest) != file.digest:
            outcome.failed[file.path] = "it changed, or was damaged, while it was fetched"
        else:
            self._guarded(outcome, file.path, partial(self._folder.install, path, file.mode))

    def _rsync_from(self, remote: str, file: File, path: str) -> bool:
        part = self._folder.part()
        self._folder.copy(path, part)  # only what has changed since travels
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


def _calls(function: str, words: Iterable[str]) -> Iterator[str]:
    """Yield lines of shell that call ``function`` with all ``words``."""
    line: list[str] = []
    size = 0
    for word in words:
        if line and (len(line) >= _WORDS or size + len(word) > _LINE):
            yield f"{function} {shell.join(line)}"
            line, size = [], 0
        line.append(word)
        size += len(encode(word))
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
