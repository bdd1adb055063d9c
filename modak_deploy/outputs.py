"""Files that a command writes because ``--output`` names them."""

import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.util.files import PRIVATE, is_file, is_folder, write_atomically

_LINKS = 40
"""Links that lead from one to the next, as Linux follows them."""
_HELD = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""Errors where the name of a file cannot be replaced; that of one that a container has mounted is busy."""


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Raise InputError where ``output`` is one of the files that the command reads, by whatever name."""
    for path in inputs:
        try:
            is_input = output.samefile(path)
        except OSError:  # one of them does not exist, or cannot be read: the command says so where it matters
            continue
        if is_input:
            raise InputError("this file is read, and would be overwritten", source=output, hint="name another output")


def is_stream(output: Path) -> bool:
    """Tell whether ``output`` is a device, a pipe or an open descriptor, which has no other file beside it."""
    try:
        return _descriptor(output) is not None or (output.exists() and not is_file(output) and not is_folder(output))
    except (OSError, RuntimeError):  # as of a folder of others, or links in a circle: writing says why
        return False


def write_output(output: Path, content: str | bytes, *, inputs: Iterable[Path] = (), mode: int = 0o666) -> None:
    """Write ``content`` to ``output``, whole or not at all where possible; ``inputs`` are not overwritten.

    A link is followed, and what is no regular file, such as /dev/stdout or a pipe, is written to: a rename would put a
    file in its place.
    """
    check_output(output, inputs)
    data = content.encode() if isinstance(content, str) else content
    try:
        number = _descriptor(output)
        if number is not None:
            sys.stdout.flush()  # what was printed before comes before it
            with open(number, "wb", closefd=False) as file:
                file.write(data)
        elif output.exists() and not output.is_file():
            output.write_bytes(data)
        else:
            _replace(output.resolve(), data, mode)
    except (OSError, RuntimeError) as error:  # Path.resolve raises a RuntimeError for links in a circle before 3.13
        raise InputError(f"cannot be written: {getattr(error, 'strerror', None) or error}", source=output) from None


def _descriptor(output: Path) -> int | None:
    """Return the descriptor of this process that ``output`` stands for, as /dev/stdout does; None for any other name.

    A shell may have opened a file for it. By the name of that file, what it held before would be lost, and what others
    write through the descriptor would go to a file without a name.
    """
    folders = (Path(f"/proc/{os.getpid()}/fd"), Path("/dev/fd"))
    for _ in range(_LINKS):
        folder = output.parent.resolve()
        if folder in folders and output.name.isdecimal() and output.exists():
            return int(output.name)
        if not output.is_symlink():
            break
        output = folder / output.readlink()
    return None


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Replace a file; write to one whose name cannot be replaced, except for what nobody but its owner may read."""
    try:
        write_atomically(path, data, mode=mode)
    except OSError as error:
        if mode == PRIVATE or error.errno not in _HELD or not path.is_file():
            raise
        path.write_bytes(data)
