"""Copies of objects on the controller, in the user's cache folder: content that was fetched, and what it was."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from modak_deploy.model.base import Model
from modak_deploy.model.objects import Objects

CONTENT, RECORD = "content", "record.json"
_SURROUNDINGS: Mapping[str, Sequence[str]] = {
    "s3": ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "swift": ("OS_CLOUD", "OS_AUTH_URL", "OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_REGION_NAME"),
}
"""Variables of the environment that choose the storage, by scheme: a bucket of one name may be in several."""


class Copied(Model):
    """What is in a copy."""

    url: str
    etag: str
    """What the storage calls this content; another content has another one."""
    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")

    @property
    def content(self) -> str:
        """Name of the file with the content, which no other content ever gets."""
        return f"{CONTENT}.{self.sha256}"


def folder_of(objects: Objects, url: str) -> Path:
    """Return the folder of the copy of an object, which may not be there; each storage has its own."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    around = [os.environ.get(name) for name in _SURROUNDINGS.get(url.partition("://")[0], ())]
    key = json.dumps([url, objects.profile, objects.region, *around])
    return base / "modak" / "objects" / hashlib.sha256(key.encode()).hexdigest()


def copied(objects: Objects, url: str) -> Copied | None:
    """Return the record of an object's copy; None where there is none that is whole."""
    folder = folder_of(objects, url)
    try:
        record = Copied.model_validate_json((folder / RECORD).read_bytes())
        whole = (folder / record.content).stat().st_size == record.size
    except (OSError, ValidationError):
        return None
    return record if whole and record.url == url else None
