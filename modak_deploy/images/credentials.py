"""Logins for registries, from where podman, docker and apptainer keep them; never shown, never on a command line."""

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modak_deploy.errors import InputError

_DOCKER_HUB = ("https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True)
class Login:
    """A user and a password; the password is not part of what prints."""

    user: str
    password: str = field(repr=False)


def login_for(registry: str, environment: Mapping[str, str] | None = None) -> Login | None:
    """Return the login for ``registry`` (host and port); None where none is kept.

    InputError for a file or a helper that cannot be read.
    """
    environment = os.environ if environment is None else environment
    for path in _files(environment):
        if path.is_file():
            login = _from_file(path, registry)
            if login is not None:
                return login
    return None


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environment.get("HOME") or Path.home())
    if path := environment.get("REGISTRY_AUTH_FILE"):
        yield Path(path)
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        yield Path(runtime, "containers", "auth.json")
    yield Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "containers", "auth.json")
    yield Path(environment.get("DOCKER_CONFIG") or home / ".docker", "config.json")
    yield home / ".apptainer" / "docker-config.json"
    yield home / ".singularity" / "docker-config.json"


def _from_file(path: Path, registry: str) -> Login | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path}, which keeps logins for registries, is not a JSON file that can be read") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}, which keeps logins for registries, does not hold a JSON object")
    helpers, kept = (_object(content, key, path) for key in ("credHelpers", "auths"))
    names = (registry, f"https://{registry}", *(_DOCKER_HUB if registry == "docker.io" else ()))
    for name in names:
        if name in helpers:
            return _from_helper(str(helpers[name]), name, path)
        entry = kept.get(name)
        if isinstance(entry, dict) and entry.get("auth"):
            return _decode(entry["auth"], path)
        if isinstance(entry, dict) and content.get("credsStore"):
            return _from_helper(str(content["credsStore"]), name, path)
    return None


def _object(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise InputError(f"{path}, which keeps logins for registries, has a '{key}' that is not a JSON object")
    return value


def _decode(text: Any, path: Path) -> Login:
    try:
        user, colon, password = base64.b64decode(str(text), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user = colon = password = ""
    if not colon or not user or re.search(r"[\x00-\x1f]", user + password):
        raise InputError(f"{path} holds a login that is not 'user:password' in base64: log in to that registry again")
    return Login(user, password)


def _from_helper(name: str, registry: str, path: Path) -> Login | None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise InputError(f"{path} names the credential helper {name!r}, which is not the name of a program")
    program = f"docker-credential-{name}"
    try:
        done = subprocess.run([program, "get"], input=registry, capture_output=True, text=True, timeout=60, check=False)
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
        return Login(str(answer["Username"]), str(answer["Secret"])) if answer else None
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} names the credential helper {program}, which does not answer") from None
