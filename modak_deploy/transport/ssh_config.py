"""The way to an SSH host: what ``~/.ssh/config`` says of it and of the hosts before it."""

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.numbers import digits

_CONNECT_TIMEOUT = 20.0
_ASKED = 60
"""Seconds for ssh to read its configuration, with the programs of Match exec."""
_JUMPS = 8
_USER_FILES = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
_GLOBAL_FILES = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"


@dataclass(frozen=True)
class Hop:
    """One host on the way, as the SSH configuration resolves it."""

    alias: str
    host: str
    port: int
    user: str
    key_name: str
    """The name that its host key goes by: HostKeyAlias, or the host's name."""
    timeout: float
    """Seconds to wait for the connection."""
    keys: list[str] = field(default_factory=list)
    only_these_keys: bool = False
    known_hosts: list[Path] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)
    proxy_command: str | None = None
    checked: bool = True
    """ssh itself, as configured, refuses this host when its key is not known."""
    strict: bool = False
    """ssh itself, as configured, does not ask either, and refuses it."""
    alive: int = 0
    """ServerAliveInterval in seconds, 0 for none."""
    has_timeout: bool = False
    """The configuration sets ConnectTimeout."""
    known_hosts_command: bool = False
    """The configuration sets KnownHostsCommand, whose keys ssh believes besides those of the files (OpenSSH 8.5)."""
    session_options: Mapping[str, str] = field(default_factory=dict)
    """Options that undo what the configuration sets and what no command of ours could be run with."""


def route(destination: str, user: str | None = None, port: int | None = None, config: Path | None = None) -> list[Hop]:
    """Return the hosts on the way to ``[user@]host[:port]``, that host last.

    InputError for a configuration or a destination that is no good.
    """
    hops = [_resolve(destination, user, port, config)]
    while jumps := hops[0].jumps:
        # Each jump host is reached through the one before it; only for the first one its own ProxyJump counts.
        hops = [*(_resolve(name, None, None, config) for name in jumps), *hops]
        if len(hops) > _JUMPS:
            raise InputError(f"ProxyJump for {destination} leads over more than {_JUMPS} hosts, or in a circle")
    return hops


def _resolve(destination: str, user: str | None, port: int | None, config: Path | None) -> Hop:
    name, given_user, given_port = split(destination)
    options = _options(name, user or given_user, str(port or given_port or ""), config)
    first = {key: values[0] for key, values in options.items()}
    host = first.get("hostname", name)
    number = _number(first.get("port", "22"), f"the port of {destination}")
    login = first.get("user") or getpass.getuser()
    timeout = first.get("connecttimeout", "none")
    jump, command = (None if first.get(key, "none") == "none" else first[key] for key in ("proxyjump", "proxycommand"))
    files = [
        *first.get("userknownhostsfile", _USER_FILES).split(),
        *first.get("globalknownhostsfile", _GLOBAL_FILES).split(),
    ]
    tokens = {"%%": "%", "%h": host, "%n": name, "%p": str(number), "%r": login}
    return Hop(
        alias=name,
        host=host,
        port=number,
        user=login,
        key_name=first.get("hostkeyalias", host),
        timeout=_CONNECT_TIMEOUT if timeout == "none" else _number(timeout, f"ConnectTimeout of {destination}"),
        keys=[key for key in map(_expand, options.get("identityfile", [])) if Path(key).is_file()],
        only_these_keys=first.get("identitiesonly", "no") == "yes",
        known_hosts=[Path(_expand(file)) for file in files if file != "none"],
        jumps=jump.split(",") if jump else [],
        proxy_command=re.sub("%[%hnpr]", lambda token: tokens[token[0]], command) if command else None,
        checked=first.get("stricthostkeychecking", "ask") in ("yes", "true", "ask"),
        strict=first.get("stricthostkeychecking", "ask") in ("yes", "true"),
        alive=_number(first.get("serveraliveinterval", "0"), f"ServerAliveInterval of {destination}"),
        has_timeout=timeout != "none",
        known_hosts_command=first.get("knownhostscommand", "none") != "none",
        session_options=_session_options(first),
    )


def _session_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return what a session needs besides; only what is set is named: OpenSSH before 8.7 knows just one of them."""
    undone = {
        "RemoteCommand": ("none", "none"),
        "StdinNull": ("no", "no"),
        "SessionType": ("default", "default"),
        "ForkAfterAuthentication": ("no", "no"),
    }
    return {name: own for name, (default, own) in undone.items() if options.get(name.lower(), default) != default}


def split(destination: str) -> tuple[str, str | None, str | None]:
    """Return host, user and port of ``[ssh://][user@]host[:port]``; an IPv6 address with a port stands in brackets."""
    user, _, rest = destination.strip().removeprefix("ssh://").rpartition("@")
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    else:
        host, port = rest, ""
    # What starts with a dash would be read as an option by ssh, here or in a ProxyCommand.
    if not host or re.search(r"\s", rest) or host.startswith("-") or user.startswith("-"):
        raise InputError(f"'{destination}' names no host", hint="write [user@]host[:port]")
    return host, user or None, port or None


def _options(name: str, user: str | None, port: str, config: Path | None) -> Mapping[str, list[str]]:
    """Return what the SSH configuration says of ``name``, by lower-case keyword; ``user`` and ``port`` win over it.

    OpenSSH itself is asked where it is there: it alone follows every Include and Match.
    """
    if program := shutil.which("ssh"):
        given = [
            *(["-F", str(config)] if config else []),
            *(["-l", user] if user else []),
            *(["-p", port] if port else []),
        ]
        options: dict[str, list[str]] = {}
        for line in _said_by([program, "-G", *given, "--", name]).removesuffix("\n").split("\n"):
            key, _, value = line.partition(" ")
            options.setdefault(key, []).append(value)
        return options
    return _options_by_paramiko(name, user, port, config)


def _said_by(command: list[str]) -> str:
    """Return what ``ssh -G`` prints; names of files need not be UTF-8."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_ASKED)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"ssh has not read its configuration within {_ASKED} s", hint="look at the programs of its 'Match exec'"
        ) from None
    except OSError as error:
        raise InputError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        raise InputError(f"the SSH configuration is not valid: {' '.join(os.fsdecode(done.stderr).split())}")
    return os.fsdecode(done.stdout)


def _options_by_paramiko(name: str, user: str | None, port: str, config: Path | None) -> Mapping[str, list[str]]:
    import paramiko

    path = config or Path("~/.ssh/config").expanduser()
    # Of several values the first one counts.
    given = "".join(f"{key} {value}\n" for key, value in (("User", user), ("Port", port)) if value)
    try:
        text = path.read_text() if config or path.is_file() else ""
        matches = paramiko.SSHConfig.from_text(f"Host *\n{given}{text}").lookup(name)
    except OSError as error:
        raise InputError(f"the SSH configuration {path} cannot be read: {error.strerror}") from None
    except (paramiko.ConfigParseError, UnicodeDecodeError) as error:
        raise InputError(f"the SSH configuration {path} is not valid: {error}") from None
    if re.search(r"(?im)^\s*include\b", text):
        raise InputError(f"the SSH configuration {path} uses Include, which needs the program ssh on this machine")
    return {key: list(value) if isinstance(value, list) else [value] for key, value in matches.items()}


def _expand(path: str) -> str:
    with suppress(RuntimeError):  # ~USER, and there is none of that name
        return str(Path(path.strip('"')).expanduser())
    return path


def _number(text: str, what: str) -> int:
    if (number := digits(text)) is None:
        raise InputError(f"{what} is '{text}', and not a number")
    return number
