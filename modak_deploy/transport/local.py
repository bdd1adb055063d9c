"""This machine as a target."""

import shutil
from pathlib import Path

from modak_deploy.errors import TargetError
from modak_deploy.transport import process
from modak_deploy.transport.base import Completed, check_paths


class LocalTransport:
    """Runs commands on this machine, as the user who runs modak."""

    concurrent = True
    """Whether two threads may run commands at once."""

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        """See ``Transport.run``. The command has a session of its own: Ctrl-C ends modak and not the command."""
        try:
            code, out, err = process.run(["/bin/sh", "-c", command], stdin=stdin, timeout=timeout)
        except OSError as error:
            raise TargetError(f"/bin/sh cannot be started on this machine: {error.strerror}") from None
        except process.TimedOut:
            raise TargetError(f"this machine did not answer within {timeout:g} s") from None
        return Completed(code, decode(out), decode(err))

    def put(self, local: Path, remote: str) -> None:
        """See ``Transport.put``."""
        _copy(local, Path(remote))

    def fetch(self, remote: str, local: Path) -> None:
        """See ``Transport.fetch``."""
        _copy(Path(remote), local)


def decode(data: bytes) -> str:
    """Return text from which ``encode`` makes the same bytes again, whatever they were."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that ``decode`` was given."""
    return text.encode("utf-8", "surrogateescape")


def _copy(source: Path, destination: Path) -> None:
    check_paths(source, destination)
    try:
        shutil.copyfile(source, destination)
    except OSError as error:
        name = error.filename or source
        raise TargetError(f"{source} cannot be copied to {destination}: {name}: {error.strerror or error}") from None
