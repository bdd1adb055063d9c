"""Copies of objects on the controller, in the user's cache folder: content that was fetched, and what it was."""

import hashlib
import os
from pathlib import Path

from pydantic import Field, ValidationError

from modak_deploy.model.base import Model

CONTENT, RECORD = "content", "record.json"


class Copied(Model):
    """What is in a copy."""

    url: str
    etag: str
    """What the storage calls this content; another content has another one."""
    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


def folder_of(url: str) -> Path:
    """Return the folder of the copy of an object, which may not be there."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "modak" / "objects" / hashlib.sha256(url.encode()).hexdigest()


def copied(url: str) -> Copied | None:
    """Return the record of an object's copy; None where there is none that is whole."""
    folder = folder_of(url)
    try:
        record = Copied.model_validate_json((folder / RECORD).read_bytes())
        whole = (folder / CONTENT).stat().st_size == record.size
    except (OSError, ValidationError):
        return None
    return record if whole and record.url == url else None
