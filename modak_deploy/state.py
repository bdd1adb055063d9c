"""What modak keeps on the controller for its user alone: the key of keyed hashes, and the Plans that it wrote."""

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from modak_deploy.errors import InputError
from modak_deploy.util.files import PRIVATE, create_once, write_atomically

_KEY = "secret.key"


def state_folder() -> Path:
    """Return the user's state folder for modak, which is made for its owner only where it is not there."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(base).expanduser() / "modak"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_private(folder)
    except OSError as error:
        raise InputError(f"the state folder {folder} cannot be used: {error.strerror}") from None
    return folder


def keyed_hash(*parts: str) -> str:
    """Return the HMAC-SHA-256 of ``parts`` under this user's key: it tells equal from other, and nothing else."""
    message = b"".join(len(data).to_bytes(8) + data for data in (part.encode() for part in parts))
    return hmac.new(_key(), message, hashlib.sha256).hexdigest()


def remember(file: Path, text: str) -> None:
    """Remember that modak wrote this ``text`` to ``file``."""
    write_atomically(_record_of(file), _digest(text) + "\n", mode=PRIVATE)


def is_own(file: Path, text: str) -> bool | None:
    """Return whether ``text``, which ``file`` holds, is what modak last wrote there; None where it never wrote it."""
    with suppress(OSError, UnicodeDecodeError):
        return hmac.compare_digest(_record_of(file).read_text(encoding="ascii").strip(), _digest(text))
    return None


def _record_of(file: Path) -> Path:
    name = hashlib.sha256(os.fsencode(file.absolute())).hexdigest()
    folder = state_folder() / "plans"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _key() -> bytes:
    path = state_folder() / _KEY
    try:
        if not path.exists():
            create_once(path, secrets.token_hex(32) + "\n")
        _check_private(path)
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise InputError(f"the key {path} cannot be used: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) != 32:
        raise InputError(
            "this is not a key of 64 hexadecimal digits", source=path, hint="remove it and a new one is made"
        )
    return key


def _check_private(path: Path) -> None:
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise InputError(f"{path} belongs to another user", hint="remove it or set XDG_STATE_HOME")
    # Others may list a folder, but must not write to it; a file they must not even read.
    if stat.S_IMODE(status.st_mode) & (0o022 if path.is_dir() else 0o077):
        raise InputError(f"{path} is open to other users", hint=f"run: chmod go-rwx {path}")
