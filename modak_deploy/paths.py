"""Paths on the controller as users write them in documents, options and variables."""

from pathlib import Path

from modak_deploy.errors import InputError


def expanded(text: str | Path, *, key: str = "") -> Path:
    """Return a path with ``~`` and ``~USER`` replaced; InputError where this machine has no such user's home folder.

    ``Path.expanduser`` raises RuntimeError there.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        home = str(text).partition("/")[0]
        raise InputError(f"'{text}': {home} is no user's home folder on this machine", key=key) from None
