"""Large files by rsync, over a transport that knows the ssh command to its target."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from modak_deploy.errors import TargetError
from modak_deploy.shell import join
from modak_deploy.terminal import excerpt
from modak_deploy.transport.base import Transport, check_paths
from modak_deploy.transport.process import run

SILENCE = 300
"""Seconds without a byte after which a copy is given up."""
PARTIAL = "large.partial"
"""Folder beside the copy on the target that keeps what came of one that was cut off."""
_NOT_USABLE = frozenset({1, 2, 4, 127, 255})
"""Exit codes when the two ends do not come to an understanding: options or versions that differ, a login that is not
clean, no rsync for ssh's shell, no login without the transport's own means."""
_SILENT = (b"(0 bytes received so far)", b"safe_write failed")
"""What rsync says where the other end was gone at once: before or after the greeting is written, which safe_write alone
does (io.c of 3.5.0). Without rsync over there 86 of 300 calls ended with 127, the others with 12 and one of these."""


@dataclass(frozen=True)
class RemoteShell:
    """The ssh command that logs in to a target as its transport does, and asks nothing."""

    command: Sequence[str]
    """The program and its options; the host is no part of it."""
    host: str


@runtime_checkable
class HasRemoteShell(Protocol):
    """What a transport may offer besides ``Transport``."""

    def remote_shell(self) -> RemoteShell | None:
        """Return how rsync reaches the target with the same user, keys and host keys; None where it cannot."""
        ...


@dataclass(frozen=True)
class Rsync:
    """rsync to one target. Who uses it compares digests: nothing rests on sizes or times."""

    program: str
    shell: RemoteShell

    def put(self, local: Path, remote: str) -> bool:
        """Copy one file to the absolute path ``remote``, and go on where an earlier try was cut off.

        False when rsync is not usable with this target, and nothing has happened; TargetError when the copy failed.
        """
        return self._run([f"--partial-dir={PARTIAL}"], str(local.absolute()), self._location(remote))

    def fetch(self, remote: str, local: Path) -> bool:
        """Copy one file from the target; what ``local`` holds already need not travel. Ends as ``put`` does."""
        return self._run([], self._location(remote), str(local.absolute()))

    def _location(self, path: str) -> str:
        return f"[{self.shell.host}]:{path}" if ":" in self.shell.host else f"{self.shell.host}:{path}"

    def _run(self, options: Sequence[str], source: str, destination: str) -> bool:
        check_paths(source, destination)
        # --protect-args: no shell reads the path over there. rsync splits the command of -e at blanks outside quotes.
        command = [self.program, "--protect-args", "--ignore-times", f"--timeout={SILENCE}", *options]
        command += ["-e", join(self.shell.command), "--", source, destination]
        try:
            # In its session, which has no terminal, nothing can ask for a password.
            code, _, error = run(command, environment={**os.environ, "SSH_ASKPASS_REQUIRE": "never"}, interrupted=True)
        except OSError as failure:
            raise TargetError(f"{self.program} cannot be started: {failure.strerror}") from None
        if code in _NOT_USABLE or any(text in error for text in _SILENT):
            return False
        if code:
            said = error.decode("utf-8", "replace").strip().splitlines() or [f"exit code {code}"]
            raise TargetError(f"rsync cannot copy {source} to {destination}: {excerpt(said[0])}")
        return True


def rsync_over(transport: Transport) -> Rsync | None:
    """Return rsync for the transport's target; None where this machine has none, or the transport knows no way."""
    program = shutil.which("rsync")
    shell = transport.remote_shell() if program and isinstance(transport, HasRemoteShell) else None
    return Rsync(program, shell) if program and shell else None
