"""A folder on the controller that nothing leads out of: each path is resolved below it, and no link is followed."""

import ctypes
import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from modak_deploy.errors import InputError
from modak_deploy.jobs.files import digest
from modak_deploy.terminal import excerpt
from modak_deploy.transport.local import encode

_PREFIX = ".fetch-"
_ABANDONED = 86400
"""Age in seconds of another run's unfinished files, after which they are removed."""
_NO_SUCH_NAME = frozenset({errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL})
"""What the controller's file system says of a name that it cannot hold, such as one that is not UTF-8 on macOS."""
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a file system says that has nothing to sync, or no way to: some say it of folders alone."""
_BLOCK = 1024 * 1024
"""Bytes that are copied at a time."""
_MANY = 100
"""Files and folders from which on the file system is synced as a whole."""
_IN_THE_WAY = frozenset({errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsupportedName(InputError):
    """The controller's file system cannot hold this name."""


class InTheWay(InputError):
    """Something of the user's is where a result belongs."""


class ResultsFolder:
    """The results of one job. Paths are relative, with ``/``, without ``..``; the caller has checked them.

    What the user made of the folder itself (a link to a larger disk) is honoured; below it, a symbolic link where a
    folder belongs is replaced by a folder. InputError where something cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mask = _umask()
        self._cached: tuple[tuple[bytes, ...], int] | None = None
        self._staging: tuple[str, int] | None = None
        self._above = {folder.parent for folder in (path, *path.parents) if folder == path or not folder.exists()}
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._failed("", error) from None
        self._remove_abandoned()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._forget()
        if self._staging is not None:
            os.close(self._staging[1])
            shutil.rmtree(self._staging[0], ignore_errors=True, dir_fd=self._fd)
        os.close(self._fd)

    def free(self) -> int:
        """Return the bytes that can still be written."""
        status = os.fstatvfs(self._fd)
        return status.f_bavail * status.f_frsize

    def read(self, path: str, limit: int) -> bytes | None:
        """Return what is in a file; None where there is none, or it has more than ``limit`` bytes."""
        handle = self._open(path)
        if handle is None:
            return None
        with os.fdopen(handle, "rb") as file:
            data = file.read(limit + 1)
        return data if len(data) <= limit else None

    def holds(self, path: str, size: int, value: str) -> bool:
        """Return whether there is a file with this size and digest."""
        handle = self._open(path)
        if handle is None:
            return False
        with os.fdopen(handle, "rb") as file:
            if os.fstat(handle).st_size != size:
                return False
            if value.startswith("cksum:"):
                return digest(file.read(), value) == value
            return hashlib.file_digest(file, "sha256").hexdigest() == value

    def set_mode(self, path: str, mode: int) -> bool:
        """Give a file or folder the mode of its original; return whether that changed it."""
        try:
            parent, name = self._parent(path, create=False)
            handle = os.open(name, _READ, dir_fd=parent)
        except OSError:
            return False
        try:
            before = os.fstat(handle)
            wanted = self._mode(mode, folder=stat.S_ISDIR(before.st_mode))
            if stat.S_IMODE(before.st_mode) == wanted:
                return False
            with suppress(OSError):  # not every file system has modes
                os.fchmod(handle, wanted)
            return os.fstat(handle).st_mode != before.st_mode
        finally:
            os.close(handle)

    def part(self) -> Path:
        """Return the path of a new private file, for what fetches a file by its path; ``install`` takes it."""
        name, handle = self._stage()
        try:
            os.close(os.open("part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=handle))
        except OSError as error:
            raise self._failed("", error) from None
        return self.path / name / "part"

    def copy(self, path: str, part: Path, size: int) -> None:
        """Copy a file to the file of ``part``, as far as it is there and leaves room for ``size`` bytes."""
        handle = self._open(path)
        if handle is None:
            return
        with os.fdopen(handle, "rb") as file:
            if os.fstat(handle).st_size + size <= self.free():
                self.write(part, iter(partial(file.read, _BLOCK), b""))

    def write(self, part: Path, pieces: Iterable[bytes]) -> None:
        """Write ``pieces`` to the file of ``part``."""
        try:
            with part.open("wb") as new:
                for piece in pieces:
                    new.write(piece)
        except OSError as error:
            raise self._failed("", error) from None

    def put(self, path: str, content: bytes, mode: int) -> None:
        """Write a file, whole or not at all."""
        try:
            handle = os.open(
                "part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=self._stage()[1]
            )
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        except OSError as error:
            raise self._failed(path, error) from None
        self.install(path, mode)

    def install(self, path: str, mode: int) -> None:
        """Move the file of ``part`` to its path."""
        staging = self._stage()[1]
        try:
            with suppress(PermissionError, NotImplementedError):  # not every file system has modes
                os.chmod("part", self._mode(mode), dir_fd=staging, follow_symlinks=True)
            parent, name = self._parent(path, create=True)
            try:
                os.rename("part", name, src_dir_fd=staging, dst_dir_fd=parent)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=parent)
                os.rename("part", name, src_dir_fd=staging, dst_dir_fd=parent)
        except OSError as error:
            raise self._failed(path, error) from None

    def sync(self, paths: Collection[str]) -> None:
        """Have files and folders outlast a power loss, with their names; InputError where the disk does not take them.

        ``paths`` are synced with all folders above them. Those that are not there, and links, have nothing to sync.
        """
        folders = {above for path in paths for above in _above(path)}
        if len(paths) + len(folders) < _MANY or not _sync_file_system(self._fd):
            for path in sorted(folders.union(paths)):  # in this order those of one folder follow one another
                self._sync(path)
        self._synced("", self._fd)
        for folder in self._above:
            with suppress(OSError):  # one that may be passed through, and not be read, is none that was just made
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    def _sync(self, path: str) -> None:
        try:
            parent, name = self._parent(path, create=False)
            handle = os.open(name, _READ, dir_fd=parent)
        except OSError:
            return
        try:
            self._synced(path, handle)
        finally:
            os.close(handle)

    def _synced(self, path: str, handle: int) -> None:
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise self._failed(path, error) from None

    def make_folder(self, path: str) -> bool:
        """Make a folder; return whether there was none."""
        try:
            parent, name = self._parent(path, create=True)
            return self._make(parent, name)
        except OSError as error:
            raise self._failed(path, error) from None

    def make_link(self, path: str, target: str) -> bool:
        """Make a symbolic link; return whether there was no such one."""
        try:
            parent, name = self._parent(path, create=True)
            with suppress(OSError):
                if os.readlink(name, dir_fd=parent) == encode(target):
                    return False
            with suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    os.rmdir(name, dir_fd=parent)
                else:
                    os.unlink(name, dir_fd=parent)
            os.symlink(encode(target), name, dir_fd=parent)
        except OSError as error:
            raise self._failed(path, error) from None
        return True

    def _mode(self, mode: int, *, folder: bool = False) -> int:
        """Return what the umask leaves of a mode; never setuid, setgid or sticky, and always the owner's own."""
        return (mode & 0o777 & ~self._mask) | (0o700 if folder else 0o600)

    def _open(self, path: str) -> int | None:
        """Open a regular file for reading; None where there is none."""
        try:
            parent, name = self._parent(path, create=False)
            handle = os.open(name, _READ, dir_fd=parent)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
        os.close(handle)
        return None

    def _parent(self, path: str, *, create: bool) -> tuple[int, bytes]:
        """Return the folder that a path lies in, open, and its last part; the caller leaves the folder open."""
        *folders, name = encode(path).split(b"/")
        if not name or any(part in (b"", b".", b"..") for part in [*folders, name]):
            raise ValueError(f"not a plain relative path: {path!r}")
        parts = tuple(folders)
        if self._cached is not None and self._cached[0] == parts:
            return self._cached[1], name
        self._forget()
        handle = os.dup(self._fd)
        try:
            for part in parts:
                if create:
                    self._make(handle, part)
                inner = os.open(part, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
        except BaseException:
            os.close(handle)
            raise
        self._cached = (parts, handle)
        return handle, name

    def _make(self, parent: int, name: bytes) -> bool:
        """Make a folder where there is none; a file or a link in its place goes."""
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return False
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        with suppress(FileExistsError):  # another run was faster
            os.mkdir(name, 0o777, dir_fd=parent)
        return True

    def _stage(self) -> tuple[str, int]:
        if self._staging is None:
            try:
                name = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self.path)).name
                self._staging = name, os.open(name, _FOLDER, dir_fd=self._fd)
            except OSError as error:
                raise self._failed("", error) from None
        return self._staging

    def _remove_abandoned(self) -> None:
        """Remove what a run that was killed a day ago or earlier has left."""
        for name in os.listdir(self._fd):  # noqa: PTH208 - an open folder
            if re.fullmatch(rf"{re.escape(_PREFIX)}\w+", name):
                with suppress(OSError):
                    if os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mtime < time.time() - _ABANDONED:
                        shutil.rmtree(name, ignore_errors=True, dir_fd=self._fd)

    def _forget(self) -> None:
        if self._cached is not None:
            os.close(self._cached[1])
            self._cached = None

    def _failed(self, path: str, error: OSError) -> InputError:
        shown = f"{self.path}/{excerpt(path)}" if path else str(self.path)
        if error.errno in _NO_SUCH_NAME:
            return UnsupportedName(f"the file system of {self.path} cannot hold this name: {error.strerror}")
        if path and error.errno in _IN_THE_WAY:
            return InTheWay(f"something else is at {shown}; move it away")
        return InputError(f"the result {shown} cannot be written: {error.strerror}")


def _above(path: str) -> list[str]:
    """Return the folders that a path lies in."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _sync_file_system(handle: int) -> bool:
    """Write a whole file system to its disk; False where that cannot be done, or did not end well."""
    try:
        syncfs = ctypes.CDLL(None).syncfs  # Linux alone has it; Python (3.14) offers sync(2) only, for all disks
    except (AttributeError, OSError):
        return False
    return bool(syncfs(handle) == 0)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
