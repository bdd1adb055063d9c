"""What is kept in a folder of the user's from one run to the next: bounded, and read only where it is whole.

Whatever goes wrong with it, a full disk or another user's file, the program goes on as if nothing had been kept.
"""

import contextlib
import hashlib
import os
import re
import stat
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

from . import clock, hardware
from .files import open_file

LIMIT = 2 << 30
"""Bytes of all entries together, at most."""
PART = 0.1
"""Part of the free disk that they take at most, counted as if they were not there."""
ENTRIES = 500
DOUBTFUL = 60.0
"""Seconds after which an entry that somebody began to read, without a word since, counts as what ended that process."""
ABANDONED = 3600.0
"""Seconds after which a file that is half written belongs to no process any more."""
_MAGIC = b"modak kept 1\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_NAME = re.compile(r"[0-9a-f]{8,64}-[0-9a-f]{8,64}")
_NEW, _READING = ".new-", ".reading"
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Refused(OSError):
    """A folder or file is not the user's alone."""


class Entry(NamedTuple):
    """One file."""

    used: float
    """When it was read or written for the last time."""
    size: int
    name: str


class Store:
    """Entries by their names, which tell what they are made of.

    All is done below the folder's descriptor, once that has been seen to be the user's: what is put in the folder's
    place meanwhile is not followed. A file is written under another name and renamed: no reader sees half of it.
    """

    def __init__(self, cache: str, folder: str, trouble: Callable[[str], None]) -> None:
        """``folder`` lies in ``cache``; ``trouble`` is given the reason, once, where the store is not used any more."""
        self._cache = cache
        self._folder = folder
        self._trouble = trouble
        self._over = not hasattr(os, "geteuid") or os.open not in os.supports_dir_fd or not hasattr(os, "O_DIRECTORY")

    def names(self) -> List[str]:
        """Return the names of all entries."""
        return [entry.name for entry in self._try(_entries) or ()]

    def get(self, name: str) -> Optional[bytes]:
        """Return an entry's content; None where there is none, or where it is damaged, which removes it.

        ``agreed`` is to follow once the content has proved to be sound: an entry that ends the process that reads it is
        not read a second time.
        """
        return self._try(_read, name)  # type: ignore[no-any-return]

    def agreed(self, name: str) -> None:
        """Note that what was read is sound."""
        self._try(_unlink, name + _READING)

    def put(self, name: str, data: bytes) -> None:
        """Keep a content, where there is room for it; those used last stay."""
        if not self._over:
            try:
                for path in (self._cache, os.path.join(self._cache, self._folder)):
                    os.makedirs(path, mode=0o700, exist_ok=True)
            except OSError as error:
                self._give_up(error)
        self._try(_write, name, data)

    def remove(self, name: str) -> None:
        """Remove an entry that is of no use."""
        self._try(_remove, name)

    def _try(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._over:
            return None
        try:
            with self._opened() as folder:
                return None if folder is None else function(folder, *arguments)
        except (OSError, MemoryError, ValueError) as error:
            self._give_up(error)
            return None

    def _give_up(self, error: BaseException) -> None:
        if not self._over:
            self._over = True
            self._trouble("{}: {}".format(type(error).__name__, error))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Optional[int]]:
        """Yield the folder's descriptor; None where there is no such folder.

        A link may lead to the cache, since users put it on a larger disk; none is followed from there on.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with contextlib.ExitStack() as stack:
            try:
                cache = os.open(self._cache, flags)
                stack.callback(os.close, cache)
                check_owner(os.fstat(cache), self._cache)
                folder = os.open(self._folder, flags | os.O_NOFOLLOW, dir_fd=cache)
                stack.callback(os.close, folder)
            except FileNotFoundError:
                yield None
                return
            check_owner(os.fstat(folder), self._folder)
            yield folder


def check_owner(status: os.stat_result, name: str) -> None:
    """Raise Refused where a file or folder is another user's, or others may write to it."""
    if status.st_uid != os.geteuid():
        raise Refused("{} belongs to another user".format(name))
    if status.st_mode & _OTHERS:
        raise Refused("others may write to {}".format(name))


def _entries(folder: int) -> List[Entry]:
    with os.scandir(folder) as files:
        names = [file.name for file in files]
    entries = []
    for name in names:
        if _NAME.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):  # removed by another job
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                entries.append(Entry(status.st_mtime, status.st_size, name))
    return entries


def _read(folder: int, name: str) -> Optional[bytes]:
    try:
        # Neither a link is followed, nor a pipe waited for.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open_file(handle, "rb") as file:
        status = os.fstat(handle)
        check_owner(status, name)
        size = status.st_size - _HEAD
        if not stat.S_ISREG(status.st_mode) or not 0 < size <= LIMIT or not _begin(folder, name):
            _remove(folder, name)
            return None
        free = hardware.free_memory()
        if free is not None and 2 * size > free:
            raise MemoryError("it takes {} MiB and {} MiB are free".format(2 * size >> 20, free >> 20))
        head, data = file.read(_HEAD), file.read(size)
        if head != _head(data):
            _remove(folder, name)
            return None
        os.utime(handle)
    return data


def _begin(folder: int, name: str) -> bool:
    """Mark an entry as being read; False where a process did so before and has not told since."""
    mark = name + _READING
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder))
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):
            began = os.stat(mark, dir_fd=folder, follow_symlinks=False).st_mtime
            return clock.wall() - began < DOUBTFUL  # else by another job at this moment
    return True


def _write(folder: int, name: str, data: bytes) -> None:
    if name in (entry.name for entry in _entries(folder)) or not _make_room(folder, len(data) + _HEAD):
        return
    new = _NEW + os.urandom(8).hex()
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open_file(handle, "wb") as file:
            file.write(_head(data))
            file.write(data)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            _unlink(folder, new)
        raise


def _make_room(folder: int, size: int) -> bool:
    """Remove what was used least recently until a further file may be written; return whether it may."""
    _remove_abandoned(folder)
    entries = sorted(_entries(folder))
    used = sum(entry.size for entry in entries)
    disk = os.fstatvfs(folder)
    most = min(LIMIT, int(PART * (disk.f_bavail * disk.f_frsize + used)))
    if size > most:
        return False
    while entries and (used + size > most or len(entries) >= ENTRIES):
        oldest = entries.pop(0)
        _remove(folder, oldest.name)
        used -= oldest.size
    return True


def _remove_abandoned(folder: int) -> None:
    with os.scandir(folder) as files:
        names = [file.name for file in files]
    for name in names:
        if name.startswith(_NEW) or (name.endswith(_READING) and name[: -len(_READING)] not in names):
            with contextlib.suppress(FileNotFoundError):
                if clock.wall() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > ABANDONED:
                    _unlink(folder, name)


def _remove(folder: int, name: str) -> None:
    _unlink(folder, name)
    _unlink(folder, name + _READING)


def _unlink(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _head(data: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(data).digest()
