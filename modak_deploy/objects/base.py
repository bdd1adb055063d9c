"""What an object storage is to modak."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from modak_deploy.errors import InputError, TargetError
from modak_deploy.terminal import excerpt

CHECKSUM = "modak-sha256"
"""Key of an object's metadata with the SHA-256 of its content, by which it is recognised as stored already."""
PIECE = 1024 * 1024
"""Bytes that are written to a copy at a time."""


@dataclass(frozen=True)
class Head:
    """What a storage says of an object without its content."""

    etag: str
    size: int
    sha256: str | None = None
    """From its metadata, where modak stored it."""


class Storage(ABC):
    """One object storage, with the credentials of its usual places."""

    scheme: ClassVar[str]
    """With which the URLs of its objects begin."""
    package: ClassVar[str]
    """The Python package that it needs, as pip takes it."""

    def __init__(self, profile: str | None, region: str | None) -> None:
        self.profile, self.region = profile, region

    @abstractmethod
    def head(self, container: str, name: str) -> Head | None:
        """Return what is known of an object; None where there is none."""

    @abstractmethod
    def has(self, container: str) -> bool:
        """Return whether there is such a container, as far as the credentials may ask."""

    @abstractmethod
    def read(self, container: str, name: str, etag: str) -> Iterator[bytes]:
        """Yield the content of an object that has this ETag."""

    @abstractmethod
    def write(self, container: str, name: str, file: Path, sha256: str) -> None:
        """Store a file as an object, with its checksum in the object's metadata."""


def missing(package: str, scheme: str) -> InputError:
    """Return the error for a library that is not installed."""
    return InputError(
        f"objects of {scheme} need the Python package {package.partition('<')[0]}",
        key="application.objects",
        hint=f"run: pip install '{package}'",
    )


@contextmanager
def reported(errors: tuple[type[Exception], ...], url: str, what: str) -> Iterator[None]:
    """Turn a library's errors into a TargetError that names the object, and no credential."""
    try:
        yield
    except errors as error:
        raise TargetError(f"{url} {what}: {excerpt(' '.join(str(error).split()), 300)}") from None


def text_of(value: Any) -> str:
    """Return a value of a storage's answer as text."""
    return value if isinstance(value, str) else ""
