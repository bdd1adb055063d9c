"""The results of a Job, from the end of its pod's log: an archive in base64, with its size and digest."""

import base64
import binascii
import hashlib
import re
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs.results.folder import InTheWay, ResultsFolder, UnsupportedName
from modak_deploy.jobs.results.links import kept_target
from modak_deploy.jobs.results.listing import MAX_DEPTH, MAX_ENTRIES, members
from modak_deploy.jobs.tuning import BYTES, FILES
from modak_deploy.providers.kubernetes import MAX_RETURNED, WORK, Workload
from modak_deploy.reported import MAX_PATH
from modak_deploy.terminal import excerpt
from modak_deploy.transport.local import encode

MAX_UNPACKED = 256 * 1024 * 1024
"""Bytes of the archive once it is unpacked."""
_FRAME = re.compile(
    rb"\nmodak-results-(?:begin (?P<size>[0-9]{1,10}) (?P<sha256>[0-9a-f]{64})\n(?P<data>[A-Za-z0-9+/=\n]*)"
    rb"modak-results-end\n|refused (?P<large>[0-9]{1,15})\n|(?P<failed>failed)\n|(?P<none>none)\n)\Z"
)


@dataclass
class Returned:
    """What a pod has printed: the program's output, and the archive of its results."""

    output: bytes
    archive: bytes | None
    """As tar has it; None where the program wrote no output."""
    written: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    records: list[str] = field(default_factory=list)
    """What the launcher wrote, of one process each."""
    recorded: int = 0
    """How many processes wrote a record."""


def parse_log(log: bytes) -> Returned:
    """Split a log into the program's output and the archive; the last frame counts, whatever a program prints.

    JobError where the results are too large or could not be packed, TargetError where they are damaged.
    """
    match = _frame(log)
    if match is None:
        raise TargetError(
            "the log of the pod does not end with the results",
            hint="its end may be lost: nodes keep 10 MiB of a log; use --work-claim for a program that prints much",
        )
    if match["large"] is not None:
        raise JobError(
            f"the results have {int(match['large'])} bytes, and a log takes {MAX_RETURNED}", hint="use --work-claim"
        )
    if match["failed"] is not None:
        raise JobError("the results could not be packed", hint="the image needs tar, gzip, base64 and sha256sum")
    output = log[: match.start()]
    if match["none"] is not None:
        return Returned(output, None)
    return Returned(output, _archive(match["data"], int(match["size"]), match["sha256"].decode()))


def without_results(log: bytes) -> bytes:
    """Return what the program has printed."""
    match = _frame(log)
    return log if match is None else log[: match.start()]


def _frame(log: bytes) -> "re.Match[bytes] | None":
    start = max(log.rfind(b"\nmodak-results-" + kind) for kind in (b"begin ", b"refused ", b"failed\n", b"none\n"))
    return _FRAME.match(log, start) if start >= 0 else None


def _archive(data: bytes, size: int, sha256: str) -> bytes:
    try:
        packed = base64.b64decode(data.replace(b"\n", b""), validate=True)
    except binascii.Error:
        packed = b""
    if size > MAX_RETURNED or len(packed) != size or hashlib.sha256(packed).hexdigest() != sha256:
        raise TargetError("the results arrived damaged from the cluster", hint="fetch them again")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        archive = unpacker.decompress(packed, MAX_UNPACKED)
    except zlib.error:
        raise TargetError("the results arrived damaged from the cluster", hint="fetch them again") from None
    if not unpacker.eof:
        raise TargetError(f"the results have more than {MAX_UNPACKED // 1024**2} MiB", hint="use --work-claim")
    return archive


def unpack(returned: Returned, workload: Workload, folder: ResultsFolder) -> None:
    """Write what is in the archive below the results, nothing but the outputs; skipped things are noted."""
    if returned.archive is None:
        return
    firsts: dict[str, tarfile.TarInfo] = {}
    left = MAX_UNPACKED
    for number, (tar, given) in enumerate(members(returned.archive)):
        path = given.name.removeprefix("./").rstrip("/")
        _check(path, [*workload.outputs, *([workload.records] if workload.records else [])], number)
        member = _first(firsts, given)
        if workload.records is not None and (path == workload.records or path.startswith(f"{workload.records}/")):
            _record(returned, tar, member)
            continue
        left -= member.size if member.isreg() else 0
        if left < 0:
            raise TargetError(f"the results have more than {MAX_UNPACKED // 1024**2} MiB", hint="use --work-claim")
        try:
            if member.isdir():
                folder.make_folder(path)
            elif member.isreg():
                folder.put(path, _content(tar, member), member.mode & 0o777)
            elif member.issym() and (target := kept_target(path, member.linkname, WORK)) is not None:
                folder.make_link(path, target)
            else:
                returned.skipped[path] = "it is not a file, a folder or a link within the results"
                continue
        except (UnsupportedName, InTheWay) as error:
            returned.skipped[path] = str(error)
        returned.written.append(path)


def _first(firsts: dict[str, tarfile.TarInfo], member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member itself, or of a second name the file or link that came before; ``firsts`` are those so far.

    tarfile looks through all members for each, and a few bytes of second names may stand for a disk full of files.
    """
    if not member.islnk():
        if member.isreg() or member.issym():
            firsts[member.name] = member
        return member
    if member.linkname not in firsts:
        raise TargetError("the results arrived damaged from the cluster", hint="fetch them again")
    return firsts[member.linkname]


def _record(returned: Returned, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Take a record of the launcher, within its bounds."""
    returned.recorded += member.isreg()
    if member.isreg() and member.size <= BYTES and len(returned.records) < FILES:
        returned.records.append(_content(tar, member).decode(errors="replace"))


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    try:
        reader = tar.extractfile(member)
        content = reader.read(MAX_UNPACKED) if reader is not None else None
    except (KeyError, tarfile.TarError, OSError, RecursionError):
        content = None
    if content is None or len(content) != member.size:
        raise TargetError("the results arrived damaged from the cluster", hint="fetch them again")
    return content


def _check(path: str, outputs: Sequence[str], number: int) -> None:
    parts = path.split("/")
    wanted = any(path == output or path.startswith(f"{output}/") for output in outputs)
    if not wanted or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise TargetError(f"the archive of the results has the path '{excerpt(path)}', which was not asked for")
    if number >= MAX_ENTRIES or len(parts) > MAX_DEPTH or len(encode(path)) > MAX_PATH:
        raise TargetError("the archive of the results has too many files, or too long paths")
