# Copyright (c) 2026, the modak authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's own connection as a modak transport; the target needs a POSIX shell, and no Python."""

from __future__ import annotations

import re
import shlex
import shutil
import threading
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

try:
    from modak_deploy.errors import InputError, TargetError
    from modak_deploy.reported import absolute_path
    from modak_deploy.shell import enclose, quote
    from modak_deploy.terminal import excerpt
    from modak_deploy.transport.base import Completed, check_paths
    from modak_deploy.transport.rsync import RemoteShell
except ImportError:
    pass  # the actions say so before anything here is used

Result = TypeVar("Result")


class AnsibleTransport:
    """Runs commands over the connection of the task that an action plugin belongs to, as the user who logs in."""

    def __init__(self, action: ActionBase, host: str) -> None:
        if action._play_context.become:
            raise InputError(
                "become is not supported: jobs and their files belong to the user who logs in to the target, "
                "so set 'become: false' for this task, or 'apply: {become: false}' where a role is included; "
                "ansible_user says who logs in"
            )
        self._action = action
        self._host = host
        environment: dict[str, Any] = {}
        action._compute_environment_string(environment)
        self._prefix = "".join(f"export {name}={quote(str(value))}\n" for name, value in environment.items())

    @property
    def concurrent(self) -> bool:
        """Whether two threads may run commands at once: these connections start a process for each command."""
        name = str(getattr(self._action._connection, "transport", "")).rpartition(".")[2]
        return name in ("ssh", "local")

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        """See modak_deploy.transport.base.Transport."""
        line = enclose(self._prefix + command)
        if not stdin:
            # Without data Ansible gives ssh a terminal to read from, which never comes to an end.
            return self._guarded(lambda: self._execute(f"{line} </dev/null", None), timeout)
        if getattr(self._action._connection, "has_pipelining", False):
            return self._guarded(lambda: self._execute(line, stdin), timeout)
        return self._guarded(lambda: self._execute_with_file(line, stdin), timeout)

    def put(self, local: Path, remote: str) -> None:
        """See modak_deploy.transport.base.Transport."""
        check_paths(local.absolute(), remote)
        self._guarded(lambda: self._action._connection.put_file(str(local.absolute()), remote))

    def fetch(self, remote: str, local: Path) -> None:
        """See modak_deploy.transport.base.Transport."""
        check_paths(remote, local.absolute())
        self._guarded(lambda: self._action._connection.fetch_file(remote, str(local.absolute())))

    def remote_shell(self) -> RemoteShell | None:
        """Return the ssh command of this connection, as modak_deploy.transport.rsync wants it.

        None for a connection that is not ssh, or logs in with a password. Nothing here loosens the check of host keys:
        where the connection leaves it out, ssh's own configuration decides, and an unknown host is refused.
        """
        connection = self._action._connection
        if str(getattr(connection, "transport", "")).rpartition(".")[2] != "ssh":
            return None

        def option(name: str) -> str:
            value = connection.get_option(name)
            return "" if value is None else str(value)

        host = option("host")
        program = shutil.which(option("ssh_executable") or "ssh")
        password = option("password") or getattr(self._action._play_context, "password", None)
        if program is None or password or not host or host.startswith("-"):
            return None
        command = [program, "-o", "BatchMode=yes", *shlex.split(option("ssh_args"))]
        if option("port"):
            command += ["-p", option("port")]
        if option("private_key_file"):
            command += ["-i", str(Path(option("private_key_file")).expanduser())]
        if option("remote_user"):
            command += ["-l", option("remote_user")]
        extra = shlex.split(option("ssh_common_args")) + shlex.split(option("ssh_extra_args"))
        return RemoteShell([*command, *extra, "-T"], host)

    def _execute(self, line: str, stdin: bytes | None) -> Completed:
        # sudoable=False: no terminal, which would mix both outputs and end lines in its own way.
        done = self._action._low_level_execute_command(line, sudoable=False, in_data=stdin)
        return Completed(done["rc"], done["stdout"], done["stderr"])

    def _execute_with_file(self, line: str, stdin: bytes) -> Completed:
        """Feed standard input from a private file, over a connection that cannot carry it."""
        made = self._execute(enclose('umask 077; mktemp -d "${TMPDIR:-/tmp}/modak.XXXXXXXX"'), None)
        if made.returncode:
            raise TargetError(f"no temporary folder can be made on {self._host}: {excerpt(made.stderr)}")
        folder = absolute_path(made.stdout.strip(), "a temporary folder")
        try:
            with NamedTemporaryFile() as file:
                file.write(stdin)
                file.flush()
                self._action._connection.put_file(file.name, f"{folder}/input")
            return self._execute(f"{line} <{quote(folder)}/input", None)
        finally:
            self._execute(f"rm -rf {quote(folder)}", None)

    def _guarded(self, call: Callable[[], Result], timeout: float | None = None) -> Result:
        try:
            result = call() if timeout is None else self._in_time(call, timeout)
            self._action._no_connection = False
            return result
        except AnsibleError as error:
            self._action._no_connection = isinstance(error, AnsibleConnectionFailure)
            raise TargetError(f"{self._host} cannot be reached: {_reason(error)}") from None

    def _in_time(self, call: Callable[[], Result], timeout: float) -> Result:
        """Return what ``call`` returns; TargetError after ``timeout`` seconds, with the hung connection given up."""
        outcome: dict[str, Any] = {}

        def work() -> None:
            try:
                outcome["result"] = call()
            except BaseException as error:
                outcome["error"] = error

        thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            self._action._connection.reset()
            raise TargetError(f"{self._host} did not answer within {timeout:g} s")
        if "error" in outcome:
            raise outcome["error"]
        return outcome["result"]


def _reason(error: AnsibleError) -> str:
    """Return what ssh or another connection says, in one line and without Ansible's words around it."""
    text = " ".join(str(error).split())
    text = re.sub(
        r"^(Failed to connect to the host via \w+|Data could not be sent to remote host .*? over ssh):", "", text
    )
    return text.strip().removeprefix("ssh:").strip() or type(error).__name__
