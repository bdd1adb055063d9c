"""What the image steps on a target answer: checked whole where it is parsed, TargetError for what is not valid."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from modak_deploy import reported
from modak_deploy.containers.location import pin
from modak_deploy.errors import TargetError
from modak_deploy.jobs.remote import Answer
from modak_deploy.model.execution import Image
from modak_deploy.model.image import Architecture
from modak_deploy.terminal import excerpt

_SHA256 = re.compile(r"[0-9a-f]{64}")
_Labels = Annotated[dict[str, str], Field(max_length=10_000)]
_Size = Annotated[int, Field(ge=0, le=reported.MAX_INTEGER)]


@dataclass(frozen=True)
class Listing:
    """An image on a target, checked."""

    path: str
    sha256: str
    size: int
    pulled: bool = False
    """Whether it was pulled just now."""
    seconds: int | None = None
    """Seconds that the pull took."""
    architecture: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    signed: bool = False
    """Whether it carries a signature by one of the keys that were given."""


@dataclass(frozen=True)
class Collected:
    """One image file that was looked at for removal."""

    file: str
    size: int
    removed: bool
    reason: str


class _Part(BaseModel):
    """A part of what a runtime prints as JSON: strict in what is used, and open to the rest."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Config(_Part):
    labels: _Labels | None = Field(default=None, alias="Labels")


class _InStore(_Part):
    """One entry of ``podman image inspect`` or ``docker image inspect``."""

    architecture: str | None = Field(default=None, alias="Architecture")
    size: _Size = Field(default=0, alias="Size")
    config: _Config | None = Field(default=None, alias="Config")
    labels: _Labels | None = Field(default=None, alias="Labels")


class _Attributes(_Part):
    labels: _Labels | None = None


class _Data(_Part):
    attributes: _Attributes | None = None


class _Inspected(_Part):
    """``apptainer inspect --json``."""

    data: _Data | None = None


class _Metadata(_Part):
    """``ch/metadata.json``, which ch-image writes into an image."""

    arch: str | None = None
    labels: _Labels | None = None


_Model = TypeVar("_Model", bound=_Part)


def in_folder(path: str, answer: Answer, *, seconds: int | None = None) -> Listing:
    """Return the image file that ``hold`` or ``pull`` told of; ``seconds`` where it was pulled just now."""
    info = _fields(answer.text("info"))
    size = reported.integer(info["size"], "size of an image") if info.get("size") else 0
    return Listing(path, _sha256(info.get("sha256", "")), size, pulled=seconds is not None, seconds=seconds)


def pull_seconds(answer: Answer) -> int | None:
    """Return the seconds that a pull took; None where the image was there."""
    return answer.integer("pulled") if answer.text("pulled").strip() else None


def pulled_to_store(name: str, answer: Answer) -> Listing:
    """Return the image that podman or docker has, pulled now or before."""
    fields = answer.text("pulled").split()
    size = reported.integer(fields[1], "size of an image") if len(fields) > 1 else 0
    return Listing(name, "", size, pulled=fields[:1] == ["1"])


def digest(answer: Answer) -> str:
    """Return the digest of a file, ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{_sum(answer)[0]}"


def collected(answer: Answer) -> list[Collected]:
    """Return the files that were removed, or would be."""
    rows = [line.split("\t") for line in answer.text("files").splitlines() if line.count("\t") == 3]
    return [
        Collected(file, reported.integer(size, "size of an image"), what == "removed", reason)
        for what, size, file, reason in rows
    ]


def checked_in_store(image: Image, name: str, answer: Answer) -> Listing:
    """Return an image of podman's or docker's store that is what the Plan says."""
    content = _json(answer.text("inspect"))
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        raise TargetError(f"what the target reports of the image {name} is not valid: no JSON list of images")
    entry = _model(_InStore, content[0], name)
    labels = (entry.config.labels if entry.config else None) or entry.labels or {}
    _compare(image, name, entry.architecture, labels)
    return Listing(name, "", entry.size, architecture=entry.architecture, labels=labels)


def checked(image: Image, path: str, answer: Answer, keys: int) -> Listing:
    """Return an image file that is what the Plan says, and that one of ``keys`` public keys has signed."""
    reference = pin(image)
    sha256, size = _sum(answer)
    info = _fields(answer.text("info"))
    expected = (reference.digest or "").removeprefix("sha256:") if reference.scheme == "file" else info.get("sha256")
    if expected is None:
        raise TargetError(
            f"the image {path} has no record of what was pulled beside it", hint="remove it, and pull it again"
        )
    if sha256 != expected:
        raise TargetError(f"the image {path} was changed: its hash is {sha256} and should be {excerpt(expected)}")
    if reference.scheme != "file" and info.get("digest") != reference.digest:
        other = excerpt(str(info.get("digest")))
        raise TargetError(f"the image {path} is of {other}, and the Plan names {reference.digest}")
    signed = any(answer.text(f"signature.{n}").rstrip().endswith("code 0") for n in range(1, keys + 1))
    if keys and not signed:
        why = _last_error(answer.text(f"signature.{keys}"))
        raise TargetError(f"the image {path} carries no valid signature by {_keys_in_text(keys)}: {why}")
    ends = re.findall(r"\|[0-9]+-([0-9]{1,18})\s*\|", answer.text("list"))
    whole = max(map(int, ends), default=0)
    if size < whole:
        raise TargetError(f"the image {path} is truncated: it has {size} bytes and should have {whole}")
    architecture, labels = _inside(path, answer)
    inspected = answer.get("inspect")
    if inspected is not None and architecture is None and _json(inspected) is None:
        raise TargetError(f"the image {path} cannot be run: {_last_error(inspected)}")
    _compare(image, path, architecture, labels)
    return Listing(path, sha256, size, architecture=architecture, labels=labels, signed=signed)


def _sum(answer: Answer) -> tuple[str, int]:
    """Return the SHA-256 and the bytes of a file."""
    fields = answer.text("sum").split()
    if len(fields) < 2 or _SHA256.fullmatch(fields[0]) is None:
        raise TargetError(f"the target reports a checksum that is not valid: '{excerpt(answer.text('sum'))}'")
    return fields[0], reported.integer(fields[1], "size of an image")


def _sha256(text: str) -> str:
    if text and _SHA256.fullmatch(text) is None:
        raise TargetError(f"the target reports a checksum that is not valid: '{excerpt(text)}'")
    return text


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _json(text: str) -> Any:
    """Return the JSON in what a command printed, warnings before it left out; None where there is none."""
    try:
        return json.loads(text[text.index("[") if text.lstrip().startswith("[") else text.index("{") :])
    except (ValueError, RecursionError):
        return None


def _model(kind: type[_Model], content: object, name: str) -> _Model:
    try:
        return kind.model_validate(content if isinstance(content, dict) else {})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise TargetError(
            f"what the target reports of the image {name} is not valid: {excerpt(key)}: {first['msg']}"
        ) from None


def _inside(path: str, answer: Answer) -> tuple[str | None, dict[str, str]]:
    """Return the architecture and the labels that an image file carries."""
    if (metadata := answer.get("metadata")) is not None:
        # Of an image that was made by other means than ch-image nothing is known.
        by_charliecloud = _model(_Metadata, _json(metadata), path)
        valid = by_charliecloud.arch if by_charliecloud.arch in get_args(Architecture) else None
        return valid, by_charliecloud.labels or {}
    header = re.search(r"^Primary Architecture:\s*(\S{1,100})", answer.text("header"), flags=re.M)
    inspected = _model(_Inspected, _json(answer.text("inspect")), path)
    attributes = inspected.data.attributes if inspected.data else None
    return (header[1] if header else None), (attributes.labels if attributes else None) or {}


def _compare(image: Image, name: str, architecture: str | None, labels: dict[str, str]) -> None:
    if architecture is not None and architecture != image.architecture:
        other = excerpt(architecture)
        raise TargetError(f"the image {name} is for {other}, and the Plan needs one for {image.architecture}")
    for label, wanted in image.labels.items():
        if labels.get(label) != wanted:
            have = f"says '{excerpt(labels[label])}'" if label in labels else "is not there"
            raise TargetError(
                f"the image {name} is not the Plan's: its label '{label}' {have} and should be '{wanted}'"
            )


def _keys_in_text(number: int) -> str:
    return "the key that is demanded" if number == 1 else f"one of the {number} keys that are demanded"


def _last_error(text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if "FATAL" in line or "rror" in line]
    last = " ".join(lines[-1].split()) if lines else "the check gave no reason"
    return excerpt(last.partition("FATAL:")[2].strip() or last)
