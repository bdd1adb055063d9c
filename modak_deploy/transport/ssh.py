"""A target reached over SSH without Ansible, by OpenSSH's own client over one shared connection.

ssh itself reads the user's configuration, so that ProxyJump, certificates, GSSAPI, hardware keys and one-time passwords
work as in the user's shell. It asks on the terminal where there is one, and never elsewhere (BatchMode). A host whose
key is not known is refused or asked about, whatever the configuration says. Where there is no program ``ssh``,
``transport_to`` returns paramiko's transport.
"""

import os
import re
import secrets
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.errors import InputError, TargetError
from modak_deploy.shell import enclose, quote
from modak_deploy.terminal import excerpt
from modak_deploy.transport import process
from modak_deploy.transport.base import Completed, check_paths
from modak_deploy.transport.local import decode
from modak_deploy.transport.rsync import RemoteShell
from modak_deploy.transport.ssh_config import route
from modak_deploy.transport.ssh_connection import (
    ERRORS,
    FAILED,
    SharedConnection,
    as_options,
    options_for,
    private_folder,
)
from modak_deploy.transport.ssh_errors import connection_error

if TYPE_CHECKING:
    from modak_deploy.transport.paramiko_ssh import ParamikoTransport

SESSIONS = 8
"""Commands that run at once over one connection: sshd refuses more than MaxSessions, 10 by default (sshd_config(5))."""
_NOISE = 1024 * 1024
"""Bytes that a login may print before what was asked for."""


def transport_to(
    host: str,
    *,
    user: str | None = None,
    port: int | None = None,
    config: Path | None = None,
    private_key: Path | None = None,
    known_hosts: Path | None = None,
) -> "SshTransport | ParamikoTransport":
    """Return the transport to ``[user@]host[:port]``: OpenSSH's client, or paramiko where that is not installed."""
    if shutil.which("ssh"):
        return SshTransport(host, user=user, port=port, config=config, private_key=private_key, known_hosts=known_hosts)
    from modak_deploy.transport.paramiko_ssh import ParamikoTransport

    return ParamikoTransport(
        host, user=user, port=port, config=config, private_key=private_key, known_hosts=known_hosts
    )


class SshTransport:
    """Runs commands on ``[user@]host[:port]``, where ``host`` may be an alias of the SSH configuration.

    The connection is made at the first use and made anew after it broke. Close it, or use it in a ``with``.
    """

    concurrent = True
    """Whether two threads may run commands at once: each has a session of its own."""

    def __init__(
        self,
        host: str,
        *,
        user: str | None = None,
        port: int | None = None,
        config: Path | None = None,
        private_key: Path | None = None,
        known_hosts: Path | None = None,
        interactive: bool | None = None,
    ) -> None:
        """Take what stands over the SSH configuration for this host; ``private_key`` keeps the agent's keys out.

        ``interactive`` says whether ssh may ask on the terminal; by default where there is one.
        """
        self._destination = host
        self._user = user
        self._port = port
        self._config = config
        self._private_key = private_key
        self._known_hosts = known_hosts
        self._interactive = _has_terminal() if interactive is None else interactive
        self._lock = threading.Lock()
        self._sessions = threading.BoundedSemaphore(SESSIONS)
        self._shared: SharedConnection | None = None

    def __enter__(self) -> "SshTransport":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the next call makes a new one."""
        with self._lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        """See ``Transport.run``."""

        def session(shared: SharedConnection) -> tuple[int, bytes, bytes]:
            line = shared.command(enclose(command))
            return process.run(line, stdin=stdin, timeout=timeout, environment=shared.environment)

        try:
            shared, (code, out, err) = self._session(session)
        except process.TimedOut:
            raise TargetError(f"{self._destination} did not answer within {timeout:g} s") from None
        except OSError as error:
            raise TargetError(f"ssh cannot be started: {error.strerror}") from None
        self._check(shared, code, err)
        return Completed(code, decode(out), decode(err))

    def put(self, local: Path, remote: str) -> None:
        """See ``Transport.put``."""
        check_paths(local, remote)
        line = enclose(f"umask 077; cat >{quote(remote)}")

        def session(shared: SharedConnection) -> tuple[int, bytes, bytes]:
            with local.open("rb") as file:
                return process.run(shared.command(line), stdin=file, environment=shared.environment)

        try:
            shared, (code, _, err) = self._session(session)
        except OSError as error:
            raise TargetError(f"{local} cannot be read: {error.strerror}") from None
        self._check(shared, code, err)
        if code:
            raise TargetError(f"{local} cannot be copied to {self._destination}:{remote}: {_last_line(err, code)}")

    def fetch(self, remote: str, local: Path) -> None:
        """See ``Transport.fetch``."""
        check_paths(remote, local)
        boundary = f"--{secrets.token_hex(12)}"
        path = quote(remote)
        line = f"size=$(wc -c <{path}) && printf '\\n%s %d\\n' {boundary} \"$size\" && exec cat {path}"
        try:
            with local.open("wb") as file:
                part = _Announced(file, boundary)
                shared, (code, _, err) = self._session(
                    lambda shared: process.run(
                        shared.command(enclose(line)), sink=part.take, environment=shared.environment
                    )
                )
        except OSError as error:
            raise TargetError(f"{local} cannot be written: {error.strerror}") from None
        if not part.is_whole:
            self._check(shared, code, err)
            why = part.error or _last_line(err, code)
            raise TargetError(f"{self._destination}:{remote} cannot be copied to {local}: {why}")

    def remote_shell(self) -> RemoteShell | None:
        """See ``modak_deploy.transport.rsync``: rsync takes a session of the shared connection."""
        shared = self._connected()
        return RemoteShell(shared.options, shared.host)

    def _session(
        self, session: Callable[["SharedConnection"], tuple[int, bytes, bytes]]
    ) -> tuple["SharedConnection", tuple[int, bytes, bytes]]:
        """Do ``session`` over the connection; once more over a new one where that one was gone before it began."""
        with self._sessions:
            shared = self._connected()
            ended = session(shared)
            if ended[0] == FAILED and shared.was_gone(decode(ended[2])):
                self._drop(shared)
                shared = self._connected()
                ended = session(shared)
        return shared, ended

    def _drop(self, shared: "SharedConnection") -> None:
        """End a connection that no longer works; the next session makes a new one."""
        with self._lock:
            if self._shared is shared:
                self._shared = None
        shared.close()

    def _connected(self) -> "SharedConnection":
        with self._lock:
            if self._shared is not None and not self._shared.is_open():
                self._shared.close()
                self._shared = None
            if self._shared is None:
                self._shared = self._connect()
            return self._shared

    def _connect(self) -> "SharedConnection":
        program = shutil.which("ssh")
        if program is None:
            raise TargetError("the program 'ssh' not found on this machine", hint="install OpenSSH's client")
        for path, what in ((self._private_key, "private key"), (self._known_hosts, "known hosts")):
            if path is not None and not path.is_file():
                raise InputError(f"the {what} {path} for {self._destination} is not a file")
        hops = route(self._destination, self._user, self._port, self._config)
        arguments = [program, *(["-F", str(self._config)] if self._config else [])]
        folder = private_folder()
        options = options_for(
            hops,
            arguments,
            folder / ERRORS,
            interactive=self._interactive,
            private_key=self._private_key,
            known_hosts=self._known_hosts,
        )
        arguments += as_options(options)
        if self._user or self._port or hops[-1].alias != self._destination:
            arguments += ["-l", hops[-1].user, "-p", str(hops[-1].port)]
        return SharedConnection(arguments, hops, folder, interactive=self._interactive)

    def _check(self, shared: "SharedConnection", code: int, err: bytes) -> None:
        """Raise TargetError where it was ssh that failed, and not the command that ended with the same code."""
        if code != FAILED:
            return
        said = decode(err)
        if not shared.is_alive():
            said = f"{said}\n{shared.said()}"
            self._drop(shared)
            raise connection_error(shared.name, said, default="the connection was lost while the command ran")
        if re.search(r"^mux_client|Session open refused|ControlSocket .* already exists", said, re.MULTILINE):
            raise connection_error(shared.name, said)


class _Announced:
    """The content of a file after a line with a boundary and its size; what a login prints before is left out."""

    def __init__(self, file: object, boundary: str) -> None:
        self._file = file
        self._line = re.compile(rb"\n" + re.escape(boundary.encode()) + rb" (\d{1,18})\n")
        self._before = b""
        self._left: int | None = None
        self.error = ""

    @property
    def is_whole(self) -> bool:
        """Whether all bytes that were announced have come."""
        return self._left == 0 and not self.error

    def take(self, block: bytes) -> bool:
        """Take the next bytes; False when no more are needed."""
        if self._left is None:
            self._before += block
            match = self._line.search(self._before)
            if match is None:
                if len(self._before) > _NOISE:
                    self.error = "the login prints too much"
                return not self.error
            self._left, block, self._before = int(match[1]), self._before[match.end() :], b""
        try:
            self._file.write(block[: self._left])  # type: ignore[attr-defined]
        except OSError as error:
            self.error = error.strerror or "it cannot be written"
            return False
        self._left -= min(self._left, len(block))
        return True


def _has_terminal() -> bool:
    """Return whether ssh can ask somebody: there is a terminal, and modak is not in its background."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return sys.stdin is not None and sys.stdin.isatty() and os.tcgetpgrp(terminal) == os.getpgrp()
    except (OSError, ValueError):
        return False
    finally:
        os.close(terminal)


def _last_line(err: bytes, code: int) -> str:
    lines = [line for line in decode(err).splitlines() if line.strip()]
    return excerpt(lines[-1]) if lines else f"exit code {code}"
