"""Folders in which frameworks keep the code that they compile from one run to the next."""

import contextlib
import hashlib
import os
import stat
import sys
from typing import Iterator, List, Tuple

from . import clock, hardware
from .store import PART, check_owner

try:
    import fcntl
except ImportError:  # Windows, where no folder is kept
    pass

LIMIT = 1 << 30
"""Bytes of all such folders together, from which on the oldest files are removed."""
LEAST = 256 << 20
"""Bytes that must be free."""
FILES = 20_000
DAY = 86_400.0
"""Seconds between two looks at what there is; no file that is younger is removed, as a process may be using it."""
_STAMP = ".looked"


def folder(cache: str, framework: str, version: str) -> str:
    """Return the folder for what a version of a framework compiles on this processor; OSError where there is none.

    Code that is compiled for the processor at hand may end the process on another node of the cluster. What is there is
    run, so that nobody else may have written it.
    """
    if not hasattr(os, "geteuid"):
        raise OSError("nobody can tell whose folder it is")
    processor = [hardware.cpu_model(), *sorted(hardware.cpu_features())]
    text = "\n".join([sys.version, version, *processor])
    name = "{}-{}".format(framework, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16])
    os.makedirs(cache, mode=0o700, exist_ok=True)
    check_owner(os.stat(cache), cache)
    # By the name of the folder JAX tells what it has compiled (0.10), and that may lead through a job's own and back.
    path = os.path.realpath(cache)
    for part in ("compiled", name):
        path = os.path.join(path, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError("{} is no folder".format(path))
        check_owner(status, path)
    _check_disk(path)
    _look(os.path.dirname(path))
    return path


def _check_disk(path: str) -> None:
    """Raise OSError for a disk on which a compiler fails, or what it makes: that would pass for the lever's."""
    disk = os.statvfs(path)
    if disk.f_bavail * disk.f_frsize < LEAST:
        raise OSError("there are less than {} MiB free".format(LEAST >> 20))
    if disk.f_flag & getattr(os, "ST_NOEXEC", 0):
        raise OSError("nothing may be run from that disk")


def _look(top: str) -> None:
    """Once a day, remove the oldest files where there are too many; see that files can be locked, as frameworks do."""
    handle = os.open(os.path.join(top, _STAMP), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(handle)
        check_owner(status, _STAMP)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process looks
            return
        if status.st_size == 0:
            os.write(handle, b"\n")
        elif clock.wall() - status.st_mtime > DAY:
            os.utime(handle)
            _remove_oldest(top)
    finally:
        os.close(handle)


def _remove_oldest(top: str) -> None:
    files = sorted(_files(top))
    used = sum(size for _, size, _ in files)
    disk = os.statvfs(top)
    most = min(LIMIT, int(PART * (disk.f_bavail * disk.f_frsize + used)))
    if used <= most and len(files) <= FILES:
        return
    left = len(files)
    for changed, size, path in files:
        if (used <= most // 2 and left <= FILES // 2) or clock.wall() - changed < DAY:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        used, left = used - size, left - 1


def _files(top: str) -> Iterator[Tuple[float, int, str]]:
    for parent, _, names in os.walk(top):
        paths: List[str] = [os.path.join(parent, name) for name in names if name != _STAMP]
        for path in paths:
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                yield status.st_mtime, status.st_size, path
