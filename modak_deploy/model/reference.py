"""References to images: reading them, writing them, and the file names that they get on a target."""

import re
from dataclasses import dataclass
from typing import Literal

from modak_deploy.errors import InputError

Scheme = Literal["docker", "oras", "library", "file", "build"]

_HOST = re.compile(r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:)|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_LIBRARY_PATH = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*(?:/[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ENTRY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_LIBRARY_DIGEST = re.compile(r"sha256\.([0-9a-f]{64})")

_FORMS = (
    "'docker://[HOST/]NAME[:TAG]', 'oras://HOST/NAME[:TAG]', 'library://HOST/ENTITY/COLLECTION/NAME[:TAG]', "
    "a file's absolute path"
)


@dataclass(frozen=True)
class Reference:
    """An image's name, taken apart; files and builds have no ``registry``."""

    scheme: Scheme
    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        """Return the whole reference, with the digest in the tag's place where it is known."""
        if self.scheme == "file":
            return self.repository
        if self.scheme == "build":
            return f"build://{self.repository}"
        name = f"{self.registry}/{self.repository}" if self.registry else self.repository
        if self.digest and self.scheme == "library":
            return f"library://{name}:{self.digest.replace(':', '.')}"
        if self.digest:
            return f"{self.scheme}://{name}@{self.digest}"
        return f"{self.scheme}://{name}:{self.tag or 'latest'}"

    @property
    def slug(self) -> str:
        """Name for files, one per repository and tag: owner and registry are in it."""
        if self.scheme == "file":
            return re.sub(r"\.(sif|sqfs|simg)$", "", self.repository.rsplit("/", 1)[-1])
        parts = [w for w in (self.registry, self.repository, self.tag) if w and w != "docker.io"]
        return re.sub(r"[^A-Za-z0-9._-]", "_", "_".join(parts))

    def pinned(self, digest: str) -> "Reference":
        """Return the same image by its content."""
        return Reference(self.scheme, self.registry, self.repository, self.tag, digest)


def parse(text: str) -> Reference:
    """Read a reference; InputError says what is wrong with it and which forms there are."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        if text.startswith("/"):
            return _file(text, text)
        if text.startswith((".", "~")) or text.endswith((".sif", ".sqfs", ".simg")):
            raise _bad(text, "a file is given by its absolute path")
        scheme, rest = "docker", text
    if scheme == "file":
        return _file(text, rest)
    if scheme == "build":
        if not _ENTRY.fullmatch(rest):
            raise _bad(text, "after 'build://' stands the name of a catalogue entry")
        return Reference("build", "", rest)
    if scheme == "shub":
        raise _bad(text, "Singularity Hub has closed; take the image from a registry")
    if scheme == "docker":
        return _oci(text, rest, "docker", default_registry="docker.io")
    if scheme == "oras":
        return _oci(text, rest, "oras", default_registry=None)
    if scheme == "library":
        return _library(text, rest)
    raise _bad(text, f"'{scheme}://' is not known")


def _bad(text: str, why: str) -> InputError:
    return InputError(f"image reference {text!r}: {why}; write {_FORMS}")


def _file(text: str, path: str) -> Reference:
    if not path.startswith("/") or path.endswith("/") or re.search(r"[\x00-\x1f\x7f,:]", path):
        raise _bad(text, "a file is given by its absolute path, without ',', ':' or control characters")
    if ".." in path.split("/"):
        raise _bad(text, "a file's path has no '..'")
    return Reference("file", "", path)


def _split(text: str, rest: str) -> tuple[str, str | None, str | None]:
    """Return name, tag and digest."""
    name, at, digest = rest.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _bad(text, "after '@' stands 'sha256:' and 64 hexadecimal digits")
    head, _, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _bad(text, f"{tag!r} is not a tag")
    return (f"{head}/{last}" if head else last), tag or None, digest or None


def _check_port(text: str, host: str) -> None:
    if (port := re.search(r":(\d+)$", host)) and not 0 < int(port[1]) < 65536:
        raise _bad(text, f"{port[1]} is not a port, which is 1 to 65535")


def _oci(text: str, rest: str, scheme: Literal["docker", "oras"], default_registry: str | None) -> Reference:
    name, tag, digest = _split(text, rest.removeprefix("//"))
    registry, slash, repository = name.partition("/")
    if not slash or not _HOST.fullmatch(registry):
        if default_registry is None:
            raise _bad(text, "it begins with the registry's host")
        registry, repository = default_registry, name
    _check_port(text, registry)
    if registry in ("index.docker.io", "registry-1.docker.io"):
        registry = "docker.io"
    if registry == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    if not _REPOSITORY.fullmatch(repository):
        raise _bad(text, f"{repository!r} is not a repository's name (lower-case letters, digits, '.', '_', '-', '/')")
    return Reference(scheme, registry, repository, tag or (None if digest else "latest"), digest)


def _library(text: str, rest: str) -> Reference:
    host, repository = "", rest
    if rest.startswith("/"):  # library:///entity/collection/name has no host
        repository = rest.lstrip("/")
    elif _HOST.fullmatch(rest.partition("/")[0]) and rest.count("/") > 2:
        host, _, repository = rest.partition("/")
        _check_port(text, host)
    name, colon, tag = repository.partition(":")
    if not _LIBRARY_PATH.fullmatch(name):
        raise _bad(text, f"{name!r} is not a library's ENTITY/COLLECTION/NAME")
    digest = None
    if hashed := _LIBRARY_DIGEST.fullmatch(tag):
        digest, tag = f"sha256:{hashed[1]}", ""
    elif colon and not _TAG.fullmatch(tag):
        raise _bad(text, f"{tag!r} is not a tag")
    return Reference("library", host, name, tag or (None if digest else "latest"), digest)
