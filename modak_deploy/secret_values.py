"""The values of ``secret_environment``: read on the controller, handed to the job in a private file, never shown."""

import os
import secrets
import selectors
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.model.application import Application, Secret
from modak_deploy.model.plan import Plan
from modak_deploy.paths import expanded
from modak_deploy.shell import quote
from modak_deploy.state import keyed_hash
from modak_deploy.util.files import is_file

_LONGEST = 100_000
"""Bytes of one value. Linux takes 131072 for one variable with its name (MAX_ARG_STRLEN)."""
_TOO_LONG = f"the value is longer than {_LONGEST} bytes"
_LINE_END = 2
"""Bytes of the line end that editors and commands add, at most."""
_SECONDS = 60.0
Variable = Callable[[str], object]
"""From the name of an Ansible variable to its value; KeyError where there is none."""


@dataclass(frozen=True)
class Reader:
    """Where values are read from."""

    search: Sequence[Path] = ()
    """Folders in which a relative file is looked for."""
    variable: Variable | None = None
    """None where there are no variables, as for the command modak."""
    commands: bool = False
    """Whether the user permits commands: a document alone must not run anything on the controller."""

    def read(self, application: Application) -> dict[str, str]:
        """Return the values by their names; InputError says which one cannot be read, and never what it is."""
        return {name: self._value(name, secret) for name, secret in sorted(application.secret_environment.items())}

    def _value(self, name: str, secret: Secret) -> str:
        key = f"application.secret_environment.{name}"
        if secret.variable is not None:
            value = self._of_variable(key, secret.variable)
        elif secret.file is not None:
            value = self._of_file(key, secret.file)
        else:
            value = self._of_command(key, secret.command)
        if not value:
            raise InputError("the value is empty", key=key)
        if "\0" in value:
            raise InputError("the value holds a NUL, which no environment can hold", key=key)
        if len(value.encode()) > _LONGEST:
            raise InputError(_TOO_LONG, key=key)
        return value

    def _of_variable(self, key: str, name: str) -> str:
        if self.variable is None:
            raise InputError(
                f"the variable '{name}' is known to Ansible only", key=key, hint="use 'file' or 'command' here"
            )
        try:
            value = self.variable(name)
        except KeyError:
            raise InputError(f"the variable '{name}' is not set", key=key) from None
        if not isinstance(value, str):
            raise InputError(f"the variable '{name}' must be text", key=key, hint="write its value in quotes")
        return str.__str__(value)

    def _of_file(self, key: str, name: str) -> str:
        path = expanded(name, key=key)
        tried = [path] if path.is_absolute() else [folder / path for folder in self.search or (Path(),)]
        file = next((candidate for candidate in tried if is_file(candidate)), None)
        if file is None:
            where = ", ".join(str(candidate.parent) for candidate in dict.fromkeys(tried))
            raise InputError(f"'{name}' not found", key=key, hint=f"searched in {where}")
        try:
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                raise InputError(f"{file} is open to other users", key=key, hint=f"run: chmod 600 {quote(str(file))}")
            with file.open("rb") as opened:
                data = opened.read(_LONGEST + _LINE_END)
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}", key=key) from None
        if data.startswith(b"$ANSIBLE_VAULT;"):
            raise InputError(
                f"{file} is encrypted by Ansible's vault", key=key, hint="use 'variable' with a variable from it"
            )
        return _line_of(key, data)

    def _of_command(self, key: str, command: Sequence[str]) -> str:
        if not self.commands:
            raise InputError(
                "a command on the controller is run only where its user permits it",
                key=key,
                hint="add -e secret_commands=true after reading the document",
            )
        try:
            code, data = _run(command)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"the command '{command[0]}' cannot be run: {reason}", key=key) from None
        except subprocess.TimeoutExpired:
            raise InputError(f"the command '{command[0]}' did not end within {_SECONDS:g} s", key=key) from None
        if len(data) > _LONGEST + _LINE_END:
            raise InputError(_TOO_LONG, key=key)
        if code:
            # What it printed may hold the value.
            raise InputError(f"the command '{command[0]}' ended with exit code {code}", key=key)
        return _line_of(key, data)


def _run(command: Sequence[str]) -> tuple[int, bytes]:
    """Return a command's exit code and what it printed, of which no more is read than a value may have.

    One that prints more is ended. TimeoutExpired when it does not end in time.
    """
    deadline = time.monotonic() + _SECONDS
    data = b""
    with (
        subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None  # noqa: S101
        try:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(data) <= _LONGEST + _LINE_END:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise subprocess.TimeoutExpired(command[0], _SECONDS)
                if not (block := os.read(process.stdout.fileno(), _LONGEST)):
                    return process.wait(max(0.0, deadline - time.monotonic())), data
                data += block
            process.kill()
        except BaseException:
            process.kill()
            raise
        return process.wait(), data


def _line_of(key: str, data: bytes) -> str:
    """Return the text without the one line end that editors and commands add."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError("the value is not UTF-8 text", key=key) from None
    return text.removesuffix("\n").removesuffix("\r")


def hashes(values: Mapping[str, str]) -> dict[str, str]:
    """Return the keyed hash of each value."""
    return {name: keyed_hash(name, value) for name, value in sorted(values.items())}


def hashes_of(plan: Plan, reader: Reader) -> dict[str, str]:
    """Return the keyed hashes of the secrets of the Plan's application, which are read now.

    Those of a Job of Kubernetes are in a Secret of the cluster, and are not read.
    """
    if not plan.application.secret_environment or plan.target.kind.holds_secrets:
        return {}
    return hashes(reader.read(plan.application))


def checked_values(plan: Plan, reader: Reader) -> dict[str, str]:
    """Return the values; InputError where one is no longer what the Plan was made for."""
    values = reader.read(plan.application)
    current = hashes(values)
    for name in current.keys() | plan.secrets.keys():
        if current.get(name) != plan.secrets.get(name):
            raise InputError(
                f"application.secret_environment.{name}: the value has changed since the plan was made",
                hint="make the plan again",
            )
    return values


def environment_file(values: Mapping[str, str]) -> bytes:
    """Return the shell lines that set the values.

    Random text goes first: the checksum by which a file's arrival is verified appears in Ansible's output with -vvv,
    and a short value could be guessed from the checksum of the value alone.
    """
    lines = [f"# {secrets.token_hex(32)}", *(f"export {name}={quote(value)}" for name, value in sorted(values.items()))]
    return ("\n".join(lines) + "\n").encode()
