"""What a target lists below a job's outputs: parsed, bounded, and each path checked against what was asked for."""

import base64
import binascii
import io
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from modak_deploy.errors import TargetError
from modak_deploy.jobs.remote import Answer
from modak_deploy.numbers import digits
from modak_deploy.reported import MAX_PATH
from modak_deploy.terminal import excerpt
from modak_deploy.transport.local import encode

MAX_ENTRIES = 200_000
"""Files, folders and links of one job."""
MAX_LISTING = 64 * 1024 * 1024
"""Bytes of their listing: 160 for each of their names, twice."""
MAX_DEPTH = 64
"""Folders below one another."""
_SUM = re.compile(r"(?P<sha256>[0-9a-f]{64})(?![0-9a-f])|(?P<crc>\d{1,10}) (?P<size>\d{1,19})(?!\d)", re.ASCII)
_ABOUT = re.compile(r"(?P<mode>[0-7]{1,5}),(?P<size>[0-9]{1,19})(,|\Z)")


@dataclass(frozen=True)
class File:
    """A file on the target, by its path below the job's folder."""

    path: str
    digest: str
    """SHA-256, or ``cksum:CRC:SIZE``."""
    size: int
    mode: int


@dataclass
class Listing:
    """What there is of the paths that were asked for; all paths are below the job's folder."""

    files: dict[str, File] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """Modes by path."""
    links: dict[str, str] = field(default_factory=dict)
    """Where they lead, by path."""
    followed: set[str] = field(default_factory=set)
    """Requested paths that are links themselves; what they lead to is listed in their place."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why something cannot be fetched, by path."""
    unreadable: list[str] = field(default_factory=list)
    incomplete: bool = False
    """Some folder could not be read."""

    @property
    def paths(self) -> set[str]:
        """All files, folders and links."""
        return {*self.files, *self.folders, *self.links}

    def has(self, path: str) -> bool:
        """Return whether something other than a link to nothing is at a requested path."""
        return any(path in part for part in (self.files, self.folders, self.skipped))


def parse(answer: Answer, wanted: Iterable[str]) -> Listing:
    """Return the listing in the answer of the step list_results; TargetError where it is none."""
    text = answer.text("listing")
    if not text.endswith("\0"):
        raise _too_much() if len(encode(text)) >= MAX_LISTING else _damaged("it was cut off")
    return _Parser(text.split("\0")[:-1], answer.text("encoding"), frozenset(wanted)).parse()


def decoded(text: str, encoding: str) -> bytes:
    """Return the bytes that the target encoded; TargetError where they are damaged."""
    try:
        if encoding == "base64":
            return base64.b64decode(re.sub(r"[\r\n]+", "", text), validate=True)
        return bytes.fromhex(text)
    except (binascii.Error, ValueError):
        raise TargetError("the results arrived damaged from the target") from None


class _Parser:
    """Takes one value of the listing after the other."""

    def __init__(self, values: Sequence[str], encoding: str, wanted: frozenset[str]) -> None:
        self._values = iter(values)
        self._encoding = encoding
        self._wanted = wanted
        self._count = 0
        self._listing = Listing()

    def parse(self) -> Listing:
        kinds = {
            "files": self._files,
            "odd": self._odd,
            "folders": self._folders,
            "links": self._links,
            "other": self._other,
            "followed": self._followed,
        }
        while (kind := self._next()) != "end":
            if kind not in kinds:
                raise _damaged(f"it holds '{excerpt(kind, 40)}'")
            kinds[kind]()
        self._listing.incomplete = self._next() != "0"
        return self._listing

    def _next(self) -> str:
        value = next(self._values, None)
        if value is None:
            raise _damaged("it was cut off")
        return value

    def _names(self) -> list[str]:
        count = digits(self._next(), MAX_ENTRIES)
        if count is None:
            raise _damaged("a number is missing")
        self._count += count
        if self._count > MAX_ENTRIES:
            raise _too_much()
        return [self._next() for _ in range(count)]

    def _files(self) -> None:
        names = self._names()
        sums, abouts = _by_name(names, self._next()), _by_name(names, self._next())
        for name in names:
            self._file(name, sums.get(name, ""), abouts.get(name, ""))

    def _odd(self) -> None:
        self._count += 1
        self._file(self._next(), self._next(), self._next())

    def _file(self, name: str, sum_text: str, about: str) -> None:
        if (path := self._path(name)) is None:
            return
        checksum, metadata = _SUM.match(sum_text), _ABOUT.match(about)
        if checksum is None or metadata is None:
            self._listing.unreadable.append(path)
            return
        size = int(metadata["size"])
        value = checksum["sha256"] or f"cksum:{int(checksum['crc'])}:{int(checksum['size'])}"
        self._listing.links.pop(path, None)
        self._listing.files[path] = File(path, value, size, int(metadata["mode"], 8))

    def _folders(self) -> None:
        names = self._names()
        abouts = _by_name(names, self._next())
        for name in names:
            if (path := self._path(name)) is not None:
                metadata = _ABOUT.match(abouts.get(name, ""))
                self._listing.links.pop(path, None)
                self._listing.folders[path] = int(metadata["mode"], 8) if metadata else 0o755

    def _links(self) -> None:
        names = self._names()
        targets = dict(_link_targets(decoded(self._next(), self._encoding)))
        for name in names:
            path = self._path(name)
            if path is None or path in self._listing.files or path in self._listing.folders:
                continue
            if (target := targets.get(path)) is None:
                self._listing.unreadable.append(path)
            else:
                self._listing.links[path] = target

    def _other(self) -> None:
        for name in self._names():
            if (path := self._path(name)) is not None:
                self._listing.skipped[path] = "it is not a file, folder or symbolic link"

    def _followed(self) -> None:
        if (path := self._path(self._next())) is not None:
            self._listing.followed.add(path)

    def _path(self, name: str) -> str | None:
        """Return the path below the job's folder, None for one that is not supported.

        TargetError for a path that nobody asked for: find does not print one, so the target is not to be trusted.
        """
        path = name.removeprefix("./")
        parts = path.split("/")
        if name == path or any(part in ("", ".", "..") for part in parts) or not self._is_wanted(parts):
            raise TargetError(f"the target lists the path '{excerpt(name)}', which was not asked for")
        if len(parts) > MAX_DEPTH or len(encode(path)) > MAX_PATH:
            self._listing.skipped[path] = f"it lies more than {MAX_DEPTH} folders or {MAX_PATH} bytes deep"
            return None
        return path

    def _is_wanted(self, parts: Sequence[str]) -> bool:
        return any("/".join(parts[:end]) in self._wanted for end in range(1, min(len(parts), MAX_DEPTH) + 1))


def _by_name(names: Sequence[str], text: str) -> Mapping[str, str]:
    """Return the lines that a program printed for ``names``, in their order; one that it could not read has none."""
    by_name: dict[str, str] = {}
    lines = iter(text.split("\n"))
    line = next(lines)
    for name in names:
        if line.endswith(name) and line[: -len(name)].endswith((" ", "*", ",")):
            by_name[name] = line[: -len(name)]
            line = next(lines, "")
    return by_name


def _link_targets(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield path and target of the symbolic links in tar archives that follow one another."""
    targets: dict[str, str] = {}
    for _tar, member in members(data):
        name = member.name.removeprefix("./")
        if member.issym():
            targets[name] = member.linkname
        elif member.islnk() and (target := targets.get(member.linkname.removeprefix("./"))) is not None:
            targets[name] = target  # a second name of the same link
        if name in targets:
            yield name, targets[name]


def members(data: bytes) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield archive and member of tar archives that follow one another; TargetError where they are damaged."""
    try:
        # The bytes of a name come back as Transport has them.
        with tarfile.open(
            fileobj=io.BytesIO(data), mode="r:", ignore_zeros=True, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for member in tar:
                yield tar, member
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError):
        raise TargetError("the results arrived damaged from the target") from None


def contents(data: bytes, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the files in tar archives, where they have the size that ``sizes`` says."""
    packed: dict[str, tarfile.TarInfo] = {}
    for tar, member in members(data):
        name = member.name.removeprefix("./")
        if member.isreg():
            packed[name] = member
        # A second name of a file is packed as a link to the first.
        file = packed.get(member.linkname.removeprefix("./")) if member.islnk() else packed.get(name)
        if name in sizes and file is not None and file.size == sizes[name]:
            reader = tar.extractfile(file)
            if reader is not None:
                yield name, reader.read(file.size)


def _damaged(why: str) -> TargetError:
    return TargetError(f"the listing of the results arrived damaged from the target: {why}")


def _too_much() -> TargetError:
    return TargetError(
        f"the outputs have more than {MAX_ENTRIES} files and folders, or too long names: pack them into an archive, or "
        "declare fewer of them"
    )
