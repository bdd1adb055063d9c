"""Objects of an object storage that an application reads and writes."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from modak_deploy.model.base import Line, Memory, Model

DEFAULT_LIMIT = 10 * 1024**3
"""Bytes that are moved in each direction where ``limit`` does not say how many."""


def _check_path(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or path == PurePosixPath() or str(path) != value:
        raise ValueError(f"'{value[:80]}' is not a path of a file below the working directory, such as data/train.npz")
    return value


ObjectUrl = Annotated[
    str,
    StringConstraints(
        pattern=r"^(s3|swift)://[A-Za-z0-9][A-Za-z0-9._-]{1,254}/[^\x00-\x20\x7f]{0,1022}[^\x00-\x20\x7f/]$"
    ),
]
"""An object of S3, ``s3://BUCKET/KEY``, or of Swift, ``swift://CONTAINER/OBJECT``."""
FilePath = Annotated[Line, AfterValidator(_check_path)]
"""A file, relative to the job's working directory."""


class Objects(Model):
    """Objects of S3 or Swift; the controller moves them, so that no credential reaches the target."""

    inputs: dict[FilePath, ObjectUrl] = {}
    """Objects that the job reads, by the file in its working directory; they are fetched before the Plan is made."""
    outputs: dict[FilePath, ObjectUrl] = {}
    """Objects that results are stored as after the job has completed, by the file among ``outputs`` or ``metrics``."""
    limit: Memory | None = None
    """Bytes that are moved at most, of all inputs together and of all outputs together; 10 GiB when absent."""
    profile: Line | None = None
    """AWS profile, or a cloud of ``clouds.yaml``; credentials are read only from the provider's usual sources."""
    region: Line | None = None
    """The provider's region; that of the profile or the environment when absent."""
