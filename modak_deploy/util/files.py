"""Files that are written whole or not at all, and folders that are listed or cannot be read."""

import fcntl
import fnmatch
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE = 0o600
PRIVATE_SCRIPT = 0o700


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Replace ``path`` by a file with ``content``; its permissions are ``mode`` less the umask.

    A reader meets the old file or the new one, and a power loss undoes nothing once it is there. OSError or
    UnicodeError where it cannot be written; the old file stays.
    """
    with _written(path, content, mode) as temporary:
        temporary.replace(path)
    sync_names(path.parent)


def create_once(path: Path, content: str | bytes, *, mode: int = PRIVATE) -> None:
    """Create ``path`` with ``content``; where another process is faster, its file stays."""
    with _written(path, content, mode) as temporary:
        with suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    sync_names(path.parent)


def listed(folder: Path, pattern: str = "*") -> list[Path]:
    """Return what ``folder`` has of names like ``pattern``, in their order; nothing where it does not exist.

    OSError where it cannot be read: ``Path.glob`` returns nothing then (Python 3.11), as if it were empty.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208 - iterdir makes a path of each
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in sorted(fnmatch.filter(names, pattern))]


def exists(path: Path) -> bool:
    """Return whether something is at ``path``; True where that cannot be known, since reading it says why.

    ``Path.exists`` raises an OSError in a folder of others, and for a name that is too long (Python before 3.14).
    """
    try:
        return path.exists()
    except OSError:
        return True


def is_file(path: Path) -> bool:
    """Return whether a file is at ``path``; ``Path.is_file`` raises an OSError in a folder of others before 3.14."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Return whether a folder is at ``path``; ``Path.is_dir`` raises an OSError in a folder of others before 3.14."""
    return os.path.isdir(path)  # noqa: PTH112


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from changing a folder's files at the same time, where its file system has locks."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sync_names(folder: Path) -> None:
    """Have the names in a folder outlast a power loss, where its file system can: syncing a file is not enough."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _written(path: Path, content: str | bytes, mode: int) -> Iterator[Path]:
    """Yield a new file beside ``path``, which is removed where anything fails."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    # Not mkstemp: its files are 0600 whatever the umask says, and what others are to read must follow the umask.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
