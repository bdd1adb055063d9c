"""What travels to the job's folder: which files, what they hold, and which of them are there already."""

import hashlib
import io
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modak_deploy.errors import InputError
from modak_deploy.jobs import launching, restarting, supervising
from modak_deploy.jobs.job import PLAN, SCRIPT, SECRETS, WORK, inner_path
from modak_deploy.model.execution import Source
from modak_deploy.model.jobrequest import JobRequest

LARGE = 32 * 1024 * 1024
"""Bytes from which a file travels alone."""
DIGESTS = ".digests"
"""File of an archive that names the digests of the others."""
_KEY = "the plan's source"
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class LocalSource(Protocol):
    """A file of the request's and where it lies on the controller."""

    @property
    def source(self) -> Source: ...

    @property
    def local(self) -> Path: ...


@dataclass(frozen=True)
class Upload:
    """One file for the target: its path below the job's folder and what is in it."""

    path: str
    content: bytes | Path
    executable: bool = False

    def digest(self, like: str = "") -> str:
        """Return the content's digest, of the kind that the target's ``like`` is."""
        return digest(self.content, like)

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @property
    def alone(self) -> Path | None:
        """Return the file when it is too large to travel with others."""
        return self.content if isinstance(self.content, Path) and self.size >= LARGE else None

    def read(self) -> bytes:
        """Return the content."""
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


def source_uploads(request: JobRequest, sources: Sequence[LocalSource]) -> list[Upload]:
    """Return the files that the request names; InputError when one is not at hand or not as it was when it was made."""
    local = {item.source.path: item.local for item in sources}
    uploads = []
    for source in request.sources:
        path = inner_path(source.path, _KEY)
        file = local.get(source.path)
        if file is None:
            raise InputError(f"the file '{source.path}' of the Plan not found")
        try:
            actual = digest(file)
        except OSError as error:
            raise InputError(f"the file {file} cannot be read: {error.strerror}") from None
        if actual != source.sha256:
            raise InputError(f"the file {file} has changed since the plan was made: make the plan again")
        uploads.append(Upload(f"{WORK}/{path}", file, source.executable))
    return uploads + _programs(request) + _launch(request)


def paths_of(request: JobRequest) -> list[str]:
    """Return where the request's files lie, below the job's folder."""
    paths = [f"{WORK}/{inner_path(source.path, _KEY)}" for source in request.sources]
    return paths + [upload.path for upload in _programs(request) + _launch(request)]


def document_uploads(request: JobRequest) -> list[Upload]:
    """Return what tells why the job is run."""
    return [] if request.document is None else [Upload(PLAN, request.document.text)]


def secret_uploads(request: JobRequest, secrets: Callable[[], bytes] | None) -> list[Upload]:
    """Return the file of the job's secrets, read now; InputError where it has some and nobody gives them."""
    if not request.secret_environment:
        return []
    if secrets is None:
        raise InputError("the plan's application has a secret_environment, and its values were not given")
    return [Upload(SECRETS, secrets())]


def script_upload(script: str) -> Upload:
    """Return the job's script as a file."""
    return Upload(SCRIPT, script.encode(), executable=True)


def changed(uploads: Iterable[Upload], there: Mapping[str, str]) -> list[Upload]:
    """Return those of which the target, by the digests ``there``, has no copy."""
    return [
        upload
        for upload in uploads
        if upload.path not in there or upload.digest(there[upload.path]) != there[upload.path]
    ]


def batches(uploads: Iterable[Upload]) -> Iterator[list[Upload]]:
    """Yield the uploads in groups of about LARGE bytes, at least one group, which may be empty."""
    batch: list[Upload] = []
    size = 0
    for upload in uploads:
        if batch and size + upload.size > LARGE:
            yield batch
            batch, size = [], 0
        batch.append(upload)
        size += upload.size
    yield batch


def archive(uploads: Sequence[Upload]) -> bytes:
    """Return a tar archive with ``.digests``: readable for the owner only, and the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for upload in (*uploads, Upload(DIGESTS, digests(uploads))):
            info = tarfile.TarInfo(upload.path)
            info.mode = 0o700 if upload.executable else 0o600
            info.size = upload.size
            tar.addfile(info, io.BytesIO(upload.read()))
    return buffer.getvalue()


def digests(uploads: Iterable[Upload]) -> bytes:
    """Return the lines that the target prints for the uploads, with either kind of checksum that it may have."""
    lines = []
    for upload in uploads:
        data = upload.read()
        lines += [f"{digest(data, kind)} {len(data)} {upload.path}\n" for kind in ("", "cksum:")]
    return "".join(lines).encode("utf-8", "surrogateescape")


def digest(content: bytes | Path, like: str = "") -> str:
    """Return the SHA-256 of bytes or of a file; POSIX's checksum where ``like`` is one."""
    if like.startswith("cksum:"):
        data = content if isinstance(content, bytes) else content.read_bytes()
        return f"cksum:{_cksum(data)}:{len(data)}"
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cksum(data: bytes) -> int:
    """Return what POSIX's cksum prints: zlib's CRC over the bits of each byte reversed, started at zero."""
    length, size = len(data), b""
    while length:
        size += bytes([length & 0xFF])
        length >>= 8
    mirrored = zlib.crc32((data + size).translate(_REVERSED), 0xFFFFFFFF)
    return int(f"{mirrored:032b}"[::-1], 2)


def _launch(request: JobRequest) -> list[Upload]:
    """Return what works inside the application's interpreter."""
    travelling = {**launching.files(request), **restarting.files(request), **supervising.files(request)}
    return [Upload(path, content) for path, content in travelling.items()]


def _programs(request: JobRequest) -> list[Upload]:
    return [
        Upload(f"{WORK}/{inner_path(path, 'the launcher')}", content, executable=True)
        for path, content in request.programs.items()
    ]
