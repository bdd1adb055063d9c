"""What registries and libraries answer, as far as it is used: checked whole before any of it is.

OCI image specification 1.1 and Docker's image manifest, version 2, schema 2; what is unknown is left alone.
"""

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from modak_deploy.model.image import Digest
from modak_deploy.numbers import LARGEST

SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+/-]{0,127}$")]
Size = Annotated[int, Field(ge=0, le=LARGEST // 10_000)]
Labels = Annotated[dict[str, str], Field(max_length=10_000)]


class Part(BaseModel):
    """A part of an answer: strict in what is used, and open to the rest."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Layer(Part):
    """One layer: a file that is downloaded."""

    media_type: str = Field(default="", alias="mediaType")
    size: Size = 0
    digest: str = ""


class SifLayer(Part):
    """The only layer of an image in one file."""

    digest: Digest


class Pointer(Part):
    """Where another part of an image is found."""

    digest: Digest


class Platform(Part):
    """What a variant is for."""

    architecture: Label = ""
    os: Label = ""


class Variant(Part):
    """One image of an index."""

    digest: str
    platform: Platform | None = None


class Index(Part):
    """Variants of one image for several processors."""

    manifests: Annotated[list[Variant], Field(max_length=10_000)]


class Manifest(Part):
    """One image."""

    layers: Annotated[list[Layer], Field(max_length=10_000)] | None = None
    config: dict[str, Any] | None = None


class Inner(Part):
    """The part of a configuration that has the labels."""

    labels: Labels | None = Field(default=None, alias="Labels")


class Configuration(Part):
    """What is inside an image."""

    architecture: Label | None = None
    config: Inner | None = None


class Token(Part):
    """The answer of a server for logins; header fields are printable ASCII."""

    token: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{0,16384}$")] | None = None
    access_token: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{0,16384}$")] | None = None


class Hashed(Part):
    """An image of a library."""

    hash: str = ""
    size: Size | None = None


class LibraryAnswer(Part):
    """The answer of a library."""

    data: Hashed


T = TypeVar("T", bound=Part)


def parse_json(body: bytes) -> dict[str, Any]:
    """Return the object of a JSON document; ValueError for anything else."""
    try:
        content = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content


def parse(content: dict[str, Any], model: type[T]) -> T:
    """Return the part; ValueError names the first place at which it is none."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in fault["loc"])[:100]
        raise ValueError(f"{key if key.isprintable() else 'a key'}: {fault['msg'][:200]}") from None
