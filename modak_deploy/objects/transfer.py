"""Objects moved by the controller: each at most once, within a limit, with its checksum."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from modak_deploy.documents.objectcopies import RECORD, Copied, copied, folder_of
from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.objects import DEFAULT_LIMIT, Objects
from modak_deploy.objects.base import Head, Storage
from modak_deploy.util.files import PRIVATE, write_atomically

_STORAGES: Mapping[str, tuple[str, str]] = {
    "s3": ("modak_deploy.objects.s3", "S3"),
    "swift": ("modak_deploy.objects.swift", "Swift"),
}
"""Module and class by scheme; a storage's library is imported where one of its objects is named, and not before."""
_KEPT = 86400.0
"""Seconds from its last use in which content stays that is no longer the object's; a run may be reading it."""
Notice = Callable[[str], None]


@dataclass(frozen=True)
class Moved:
    """What became of one object."""

    path: str
    url: str
    size: int
    sha256: str
    changed: bool
    """Whether it was transferred, or would be; one that is there already is not."""


class _Storages:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._open: dict[str, Storage] = {}

    def of(self, url: str) -> tuple[Storage, str, str]:
        """Return the storage, the container and the name of an object."""
        scheme, _, rest = url.partition("://")
        container, _, name = rest.partition("/")
        if scheme not in self._open:
            module, kind = _STORAGES[scheme]
            make = cast("type[Storage]", getattr(import_module(module), kind))
            self._open[scheme] = make(self._objects.profile, self._objects.region)
        return self._open[scheme], container, name


def fetch_objects(objects: Objects | None, notice: Notice) -> list[Moved]:
    """Have a copy of each input on this machine, and return what they are.

    An object whose ETag is that of the copy is not transferred again. InputError where one is missing or all together
    exceed the limit, before anything is transferred; TargetError where the storage cannot be used.
    """
    if objects is None or not objects.inputs:
        return []
    storages = _Storages(objects)
    heads = {url: _existing(storages, url, path) for path, url in objects.inputs.items()}
    _check_limit(sum(head.size for head in heads.values()), objects, "inputs")
    moved = []
    for path, url in objects.inputs.items():
        record, head = copied(objects, url), heads[url]
        changed = record is None or (record.etag, record.size) != (head.etag, head.size)
        if record is None or changed:
            notice(f"fetching {url}, {head.size} bytes")
            record = _fetch(storages, objects, url, head)
        else:
            with suppress(OSError):
                os.utime(folder_of(objects, url) / record.content)
        moved.append(Moved(path, url, record.size, record.sha256, changed))
    return moved


def find_copies(objects: Objects | None, notice: Notice) -> list[Moved]:
    """Have a copy of each input, without asking a storage for one that is here already.

    The job that is looked for had what was fetched then; the object itself may have changed since, or be gone.
    """
    if objects is None:
        return []
    lacking = {path: url for path, url in objects.inputs.items() if copied(objects, url) is None}
    return fetch_objects(objects.model_copy(update={"inputs": lacking}), notice)


def check_outputs(objects: Objects | None) -> None:
    """Raise InputError or TargetError, before a job is run, where its results could not be stored as objects."""
    if objects is None:
        return
    storages = _Storages(objects)
    checked: set[tuple[str, str]] = set()
    for path, url in objects.outputs.items():
        storage, container, name = storages.of(url)
        if (storage.scheme, container) in checked:
            continue
        checked.add((storage.scheme, container))
        if not storage.has(container):
            text = f"{storage.scheme}://{container} not found, where {path} would be stored"
            raise InputError(text, key=f"application.objects.outputs.{path}", hint="create it")
        storage.head(container, name)


def store_objects(objects: Objects | None, results: Path, notice: Notice, *, check: bool = False) -> list[Moved]:
    """Store results as objects, unless an object has that content, and return what became of them.

    ``results`` is the folder with the fetched files. With ``check`` nothing is stored. InputError where a file is
    missing or all together exceed the limit; TargetError where the storage cannot be used.
    """
    if objects is None or not objects.outputs:
        return []
    storages = _Storages(objects)
    files = {path: _result(results, path) for path in objects.outputs}
    _check_limit(sum(file.stat().st_size for file in files.values()), objects, "outputs")
    moved = []
    for path, url in objects.outputs.items():
        storage, container, name = storages.of(url)
        with files[path].open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        size = files[path].stat().st_size
        head = storage.head(container, name)
        changed = head is None or (head.sha256, head.size) != (sha256, size)
        if changed:
            notice(f"{'would store' if check else 'storing'} {path} as {url}, {size} bytes")
        if changed and not check:
            storage.write(container, name, files[path], sha256)
            after = storage.head(container, name)
            # openstacksdk 4.7 does not say that Swift has refused it, and an older object may have the same size.
            if after is None or (after.sha256, after.size) != (sha256, size):
                raise TargetError(f"{url} has not the {size} bytes that were stored; deploy again")
        moved.append(Moved(path, url, size, sha256, changed))
    return moved


def _existing(storages: _Storages, url: str, path: str) -> Head:
    storage, container, name = storages.of(url)
    head = storage.head(container, name)
    if head is None:
        raise InputError(f"{url} not found", key=f"application.objects.inputs.{path}", code="file-not-found")
    return head


def _check_limit(size: int, objects: Objects, what: str) -> None:
    limit = objects.limit or DEFAULT_LIMIT
    if size > limit:
        text = f"the {what} are {size} bytes together, and no more than {limit} are moved"
        raise InputError(text, key="application.objects.limit", hint="raise it, or keep the data where the job runs")


def _result(results: Path, path: str) -> Path:
    file = results / path
    # A link that was fetched leads to another result; one that leads out of them is not the job's.
    if not file.is_file() or not file.resolve().is_relative_to(results.resolve()):
        reason = "it is a folder" if file.is_dir() else "the job has not written it"
        raise InputError(f"{path} cannot be stored: {reason}", key=f"application.objects.outputs.{path}")
    return file.resolve()


def _fetch(storages: _Storages, objects: Objects, url: str, head: Head) -> Copied:
    storage, container, name = storages.of(url)
    folder = folder_of(objects, url)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _written(folder, _bounded(storage.read(container, name, head.etag), head, url)) as (part, sha256):
            if head.sha256 not in (None, sha256):
                raise TargetError(f"{url} has the SHA-256 {sha256}, and its metadata says {head.sha256}")
            record = Copied(url=url, etag=head.etag, size=head.size, sha256=sha256)
            part.replace(folder / record.content)
        # The content has a name of its own, so that whoever reads the record meets the content that it tells of.
        write_atomically(folder / RECORD, record.model_dump_json() + "\n", mode=PRIVATE)
        _clean(folder, record)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from None
    return record


def _bounded(pieces: Iterator[bytes], head: Head, url: str) -> Iterator[bytes]:
    """Yield the pieces; TargetError where they are more or less than the storage said."""
    received = 0
    for piece in pieces:
        received += len(piece)
        if received > head.size:
            break
        yield piece
    if received != head.size:
        raise TargetError(f"{url}: the storage sent another size than the {head.size} bytes it announced; deploy again")


def _clean(folder: Path, record: Copied) -> None:
    """Remove parts of runs that were killed, and content that is no longer the object's."""
    for file in folder.iterdir():
        with suppress(OSError):
            if file.name not in (RECORD, record.content) and time.time() - file.stat().st_mtime > _KEPT:
                file.unlink()


@contextmanager
def _written(folder: Path, pieces: Iterator[bytes]) -> Iterator[tuple[Path, str]]:
    """Yield a new file with the pieces, which is removed unless it is renamed, and its SHA-256."""
    part = folder / f"part.{secrets.token_hex(8)}"
    digest = hashlib.sha256()
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        yield part, digest.hexdigest()
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
