"""Files that a command writes because ``--output`` names them."""

from collections.abc import Iterable
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.util.files import write_atomically


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Raise InputError where ``output`` is one of the files that the command reads, by whatever name."""
    for path in inputs:
        try:
            is_input = output.samefile(path)
        except OSError:  # one of them does not exist, or cannot be read: the command says so where it matters
            continue
        if is_input:
            raise InputError("this file is read, and would be overwritten", source=output, hint="name another output")


def write_output(output: Path, content: str | bytes, *, inputs: Iterable[Path] = (), mode: int = 0o666) -> None:
    """Write ``content`` to ``output``, whole or not at all; ``inputs`` are not overwritten.

    A link is followed, and what is no regular file, such as /dev/stdout or a pipe, is written to: a rename would put a
    file in its place.
    """
    check_output(output, inputs)
    try:
        if output.exists() and not output.is_file():
            output.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            write_atomically(output.resolve(), content, mode=mode)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=output) from None
