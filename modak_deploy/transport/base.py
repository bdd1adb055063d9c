"""The protocol between everything that acts on a target and the way there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modak_deploy.errors import TargetError
from modak_deploy.reported import has_control
from modak_deploy.terminal import excerpt


@dataclass(frozen=True)
class Completed:
    """A command that ran to its end on the target.

    Both outputs are UTF-8; bytes that are not stand there as lone surrogates, so that the text can be turned back.
    """

    returncode: int
    stdout: str
    stderr: str


def check_paths(*paths: str | Path) -> None:
    """Raise TargetError for a path with control characters, whichever end it is on.

    Ansible writes a batch of lines for sftp: after a line break in a path, a line that begins with '!' is run by a
    shell on the controller.
    """
    for path in map(str, paths):
        if has_control(path):
            raise TargetError(f"the file '{excerpt(path)}' cannot be copied: its path holds control characters")


class Transport(Protocol):
    """A way to a target; each call is one round trip. Failing to get there raises TargetError, never a return code."""

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        """Run ``command`` with ``/bin/sh -c`` on the target and return how it ended; ``timeout`` is in seconds."""
        ...

    def put(self, local: Path, remote: str) -> None:
        """Copy one file to the absolute path ``remote`` on the target, whose folder exists."""
        ...

    def fetch(self, remote: str, local: Path) -> None:
        """Copy one file from the target."""
        ...
