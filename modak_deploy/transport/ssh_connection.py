"""The connection that OpenSSH's client keeps for a transport, and the options that it is started with."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from modak_deploy.errors import InputError, ModakError, TargetError
from modak_deploy.shell import join, quote
from modak_deploy.terminal import visible
from modak_deploy.transport import process
from modak_deploy.transport.local import decode
from modak_deploy.transport.ssh_config import Hop
from modak_deploy.transport.ssh_errors import connection_error

KEEP_ALIVE = 15
"""Seconds between signs of life where the configuration sets none, so that a dead connection is noticed."""
PERSIST = 300
"""Seconds without a command after which the shared connection ends by itself, should modak be killed."""
_LOGIN_LIMIT = 120.0
"""Seconds for all logins on the way where nobody is asked, besides the ConnectTimeout of each host."""
_CONTROL_LIMIT = 10.0
_PREFIX, _OLD = "modak-ssh-", 86400
"""How the names of those folders begin, and after how many seconds without a connection one is left over."""
_SOCKET, ERRORS = "s", "e"
"""Files in the connection's private folder: the socket, and what ssh writes to its standard error."""
_SOCKET_LENGTH = 80
"""Characters of the socket's path: sun_path has 104 on BSD, and ssh appends 17 for a moment (muxserver_listen)."""
_DEBIAN_ALIVE = 300
"""What Debian's ssh sets for ServerAliveInterval with BatchMode (ssh_config(5) there); it is nobody's choice."""
FAILED = 255
"""ssh's own exit code for an error; a command may end with it too."""
CHECKS: Mapping[str, str] = {"StrictHostKeyChecking": "yes", "NoHostAuthenticationForLocalhost": "no"}
"""Options with which a host whose key is not in the files of host keys is refused, this machine as well."""
_SAID = 1024 * 1024
"""Bytes of ssh's standard error that are read."""


class SharedConnection:
    """One connection that ssh keeps in the background; sessions reach it over a socket in a private folder.

    It is started by a command of its own: where the first session does that (ControlMaster=auto), the process in the
    background keeps the standard error of that session open (bugzilla.mindrot.org 1988, fixed in OpenSSH 8.5).
    """

    def __init__(self, arguments: Sequence[str], hops: Sequence[Hop], folder: Path, *, interactive: bool) -> None:
        """Connect with the ssh command ``words``; TargetError or InputError tells why that is not possible.

        ``folder`` is private, and removed at the end.
        """
        hop = hops[-1]
        self.host = hop.alias
        self.name = f"{hop.alias} ({hop.user}@{hop.host} port {hop.port})"
        self.environment = {**os.environ} if interactive else {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
        self._folder = folder
        self._socket = self._folder / _SOCKET
        control = ["-o", f"ControlPath={as_option(self._socket)}"]
        # A session that does not find the connection must not make one of its own, and ask again: its proxy fails.
        # -T: no terminal, which would mix both outputs, whatever RequestTTY says.
        session = ["-T", *control, *as_options({"ControlMaster": "no", "ProxyCommand": f"exit {FAILED}"})]
        session += as_options(hop.session_options)
        self.options = [arguments[0], *session, *arguments[1:]]  # of two values the first counts
        self._end = weakref.finalize(self, _end_connection, self.options, self.host, self._folder, os.getpid())
        start = [*arguments, *control, *as_options({"ControlMaster": "yes", "ControlPersist": str(PERSIST)})]
        start += ["-T", "-N", "-f", "--", self.host]
        limit = None if interactive else _LOGIN_LIMIT + sum(hop.timeout for hop in hops)
        try:
            self._start(start, limit, interactive=interactive)
        except BaseException:
            self.close()
            raise

    def command(self, line: str) -> list[str]:
        """Return the command that runs a line on the target."""
        return [*self.options, "--", self.host, line]

    def is_open(self) -> bool:
        """Return whether the connection has not ended by itself: then its socket is gone."""
        return self._socket.exists()

    def is_alive(self) -> bool:
        """Return whether the process that keeps the connection answers."""
        try:
            return process.run([*self.options, "-O", "check", "--", self.host], timeout=_CONTROL_LIMIT)[0] == 0
        except (process.TimedOut, OSError):
            return False

    def was_gone(self, said: str) -> bool:
        """Return whether a session, which wrote ``said``, found nobody to take it, so that its command has not run.

        So it is where the process that keeps the connection was killed and left its socket: connect() is refused
        (muxclient() in mux.c, OpenSSH 6.8 to 10); a later loss has other messages. The target cannot write this
        line, since it does not know the socket's name.
        """
        return f"Control socket connect({self._socket}): Connection refused" in said and not self.is_alive()

    def said(self) -> str:
        """Return what the process that keeps the connection has written to its standard error."""
        with suppress(OSError), (self._folder / ERRORS).open("rb") as file:
            return decode(file.read(_SAID))
        return ""

    def close(self) -> None:
        """End the connection and remove its folder."""
        self._end()

    def _start(self, start: Sequence[str], limit: float | None, *, interactive: bool) -> None:
        deadline = None if limit is None else time.monotonic() + limit
        with (self._folder / ERRORS).open("ab") as errors:
            try:
                master = subprocess.Popen(
                    start,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=self.environment,
                    start_new_session=not interactive,  # without a terminal nothing can ask
                )
            except OSError as error:
                raise TargetError(f"ssh cannot be started: {error.strerror}") from None
        shown = 0
        try:
            while master.poll() is None:
                # In the background it is another process: this one ends once it is logged in.
                with suppress(subprocess.TimeoutExpired):
                    master.wait(0.1 if interactive or deadline is None else max(0.01, deadline - time.monotonic()))
                if interactive:  # what a server says before it asks for a password
                    said = self.said()
                    sys.stderr.write(visible(said[shown:]))
                    shown = len(said)
                if deadline is not None and time.monotonic() >= deadline and master.poll() is None:
                    raise TargetError(f"{self.name} cannot be reached: no login within {limit:g} s")
        finally:
            if master.poll() is None:
                master.kill()
                master.wait()
        if master.returncode or not self.is_open():
            raise self._error()

    def _error(self) -> ModakError:
        return connection_error(self.name, self.said())


def options_for(
    hops: Sequence[Hop],
    program: Sequence[str],
    errors: Path,
    *,
    interactive: bool,
    private_key: Path | None = None,
    known_hosts: Path | None = None,
) -> dict[str, str]:
    """Return the options of ssh that stand over the user's configuration on the way over ``hops``.

    What the hosts before the last one say goes to the file ``errors``.
    """
    hop = hops[-1]
    options = _login_options(hop, interactive=interactive)
    options |= {"ClearAllForwardings": "yes", "LogLevel": "ERROR"}
    if not hop.has_timeout:
        options["ConnectTimeout"] = f"{hop.timeout:.0f}"
    if hop.alive in (0, _DEBIAN_ALIVE):
        options["ServerAliveInterval"] = str(KEEP_ALIVE)
    if private_key is not None:
        options |= {"IdentityFile": as_option(private_key), "IdentitiesOnly": "yes"}
    if known_hosts is not None:
        options |= host_key_files(known_hosts)
        if hop.known_hosts_command:
            options["KnownHostsCommand"] = "none"
    if len(hops) > 1:
        options["ProxyCommand"] = _proxy(hops[:-1], program, errors, interactive=interactive)
    return options


def _login_options(hop: Hop, *, interactive: bool) -> dict[str, str]:
    """Return the options that keep a host's key checked: it may be asked about, never accepted silently."""
    strict = "yes" if hop.strict or not interactive else "ask"
    checked = {**CHECKS, "StrictHostKeyChecking": strict}
    return {**checked, **({} if interactive else {"BatchMode": "yes"})}


def host_key_files(known_hosts: Path) -> dict[str, str]:
    """Return the options by which a host's key has to be in this file."""
    return {"UserKnownHostsFile": as_option(known_hosts), "GlobalKnownHostsFile": "/dev/null"}


def _proxy(hops: Sequence[Hop], program: Sequence[str], errors: Path, *, interactive: bool) -> str:
    """Return the command that connects through ``hops``, the one that ssh makes of ProxyJump with two differences.

    ssh does not hand its options on to those hosts (ssh_config(5)): one whose key is not known would be let in where
    the configuration says so. And it drops what they say where ControlPersist is set (ssh_proxy_connect), which is the
    only text that tells why such a host cannot be reached.
    """
    command = ""
    for hop in hops:
        options = _login_options(hop, interactive=interactive)
        if command:
            options["ProxyCommand"] = command
        arguments = [*program, "-l", hop.user, "-p", str(hop.port), *as_options(options)]
        # ssh expands %h and %p of this command alone; those further in are for the ssh that runs them.
        command = f"{join(arguments).replace('%', '%%')} -W '[%h]:%p' -- {quote(hop.alias)}"
    return join(["/bin/sh", "-c", f"exec {command} 2>>{quote(str(errors))}"])  # the user's shell may be csh


def as_options(options: Mapping[str, str]) -> list[str]:
    """Return options as words of ssh's command line."""
    return [option for name, value in options.items() for option in ("-o", f"{name}={value}")]


def as_option(path: Path) -> str:
    """Return a file's name as a value in ssh's configuration."""
    text = str(path.absolute()).replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def private_folder() -> Path:
    """Return a new folder for its owner only, with a path that is short enough for a socket."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for parent in (runtime, tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp chooses the name
        # ssh expands ${NAME} in ControlPath, and nothing escapes that.
        if not re.fullmatch(r"/[\w./+-]*", parent, re.ASCII) or len(parent) > _SOCKET_LENGTH - len(
            f"/{_PREFIX}12345678/s"
        ):
            continue
        with suppress(OSError):
            _remove_old(Path(parent))
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    raise InputError("no folder for the connection's socket can be created in /tmp", hint="set XDG_RUNTIME_DIR")


def _remove_old(parent: Path) -> None:
    """Remove what modak left behind where it was killed a day ago or earlier, and whose connection has ended."""
    for folder in parent.glob(f"{_PREFIX}????????"):
        with suppress(OSError):
            about = folder.lstat()
            is_own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
            if is_own and time.time() - about.st_mtime > _OLD and not (folder / _SOCKET).exists():
                shutil.rmtree(folder)


def _end_connection(options: Sequence[str], host: str, folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a process that was forked off
        return
    if (folder / _SOCKET).exists():
        with suppress(process.TimedOut, OSError, TargetError):
            process.run([*options, "-O", "exit", "--", host], timeout=_CONTROL_LIMIT)
    shutil.rmtree(folder, ignore_errors=True)
