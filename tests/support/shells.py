"""A login to this machine that rsync can use as it uses ssh."""

import shutil
from pathlib import Path

import pytest

from modak_deploy.transport.local import LocalTransport
from modak_deploy.transport.rsync import RemoteShell

_LOGIN = """#!/bin/sh
# login HOST COMMAND...: as ssh does it, the words become one line for a shell.
printf '%s\\n' "$*" >>"{log}"
shift
PATH={path} exec sh -c "$*"
"""


needs_rsync = pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")


class Reached(LocalTransport):
    """This machine with a login for rsync; its other ways to carry a file are counted.

    The login finds programs in ``path``.
    """

    def __init__(self, folder: Path, path: str = "/usr/local/bin:/usr/bin:/bin") -> None:
        self.carried = 0
        self.log = folder / "log in"
        self._login = folder / "log in 'here'.sh"
        self._login.write_text(_LOGIN.format(log=self.log, path=path))
        self._login.chmod(0o700)

    @property
    def logins(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def remote_shell(self) -> RemoteShell:
        return RemoteShell([str(self._login)], "here")

    def put(self, local: Path, remote: str) -> None:
        self.carried += 1
        super().put(local, remote)

    def fetch(self, remote: str, local: Path) -> None:
        self.carried += 1
        super().fetch(remote, local)
