"""Container images: what the catalogue knows of one, and what a reference and a digest look like."""

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from modak_deploy.model.base import Line, Memory, Model, Name, RuntimeName, VersionText

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""A registry's content address."""
ImageSource = Literal["base", "hub", "pip", "opt-build"]
"""``hub``: as its project publishes it; ``pip``: released wheels on a base; ``opt-build``: compiled for its
microarchitecture; ``base``: an operating system with compilers or an MPI library, to build on."""
Architecture = Literal["amd64", "arm64", "ppc64le"]
"""The names that image registries use."""
ImageAccelerator = Literal["nvidia", "amd"]


def definition_text(value: str) -> str:
    """Return text that may become part of a definition file; ValueError says why it may not.

    A line break would begin a section of an Apptainer definition, such as %setup, whose commands run on the host, or
    an instruction of a Containerfile. Readers differ in what ends a line (Python's splitlines takes form feeds, U+0085
    and U+2028 for it), so no control character and no separator is allowed. Apptainer since 1.2 substitutes what
    stands between double braces, everywhere in the file.
    """
    for character in value:
        if (kind := unicodedata.category(character)) in ("Cc", "Zl", "Zp", "Cs"):
            what = "line break" if value.splitlines() != [value] and character.isspace() else "control character"
            what = "lone surrogate" if kind == "Cs" else what
            raise ValueError(f"contains a {what}, U+{ord(character):04X}, which a definition file cannot hold")
    if braces := next((pair for pair in ("{{", "}}") if pair in value), None):
        raise ValueError(f"contains '{braces}', which Apptainer takes for a template")
    if len(value) > 4096:
        raise ValueError(f"has {len(value)} characters, and at most 4096 are allowed")
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


DefinitionText = Annotated[str, AfterValidator(definition_text)]
"""One line of printable text."""
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")]
LabelValue = Annotated[DefinitionText, AfterValidator(_filled)]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]


Packing = Literal["gzip", "zstd", "lz4", "none"]
"""Compression of an image file."""
MpiFamily = Literal["mpich", "openmpi", "mvapich", "intelmpi"]


class MpiLibrary(Model):
    """An MPI library, of an image or of a target."""

    family: MpiFamily
    version: VersionText


class ImageEntry(Model):
    """One image of the catalogue, whether a registry has it or it is built from its definition."""

    name: Name
    summary: LabelValue | None = None
    source: ImageSource
    framework: Name | None = None
    version: VersionText | None = None
    """The framework's version."""
    reference: Line | None = None
    """Where it is pulled from: ``docker://``, ``oras://``, ``library://`` or a file; absent for one that is built."""
    origin: Line | None = None
    """The ``docker://`` reference that a base is built on."""
    digest: Digest | None = None
    """What the reference stood for when it was resolved; absent where nobody has resolved it yet."""
    base: Name | None = None
    """The entry that it is built on."""
    distribution: Name | None = None
    """Operating system inside, such as ubuntu18.04 or debian12."""
    compilers: list[Name] = []
    """Graph compilers inside: xla, ngraph, glow, inductor, ..."""
    packages: dict[PackageName, VersionText] = {}
    """Python packages inside that decisions rest on, by normalised name."""
    libraries: list[Line] = []
    """Shared libraries inside that levers may preload, by soname."""
    python: VersionText | None = None
    glibc: VersionText | None = None
    architecture: Architecture = "amd64"
    microarchitecture: Name | None = None
    """The lowest one that it runs on, by archspec's name; for an opt-build the one that it is compiled for."""
    accelerator: ImageAccelerator | None = None
    toolkit: VersionText | None = None
    """CUDA's or ROCm's version inside."""
    driver: VersionText | None = None
    """Lowest driver on the host."""
    mpi: MpiLibrary | None = None
    runtimes: list[RuntimeName] | None = None
    """Runtimes that can run it; every container runtime when absent."""
    size: Memory | None = None
    """Bytes to download."""
    labels: dict[LabelName, LabelValue] = Field(default={})
    """Labels that the image must carry."""

    @model_validator(mode="after")
    def _whole(self) -> "ImageEntry":
        if (self.framework is None) != (self.version is None):
            raise ValueError("'framework' and 'version' belong together: give both or none")
        if self.source != "base" and self.framework is None:
            raise ValueError(f"an image of source '{self.source}' needs 'framework' and 'version'")
        if self.source == "hub" and self.reference is None:
            raise ValueError("an image of source 'hub' needs a 'reference'")
        if self.source in ("pip", "opt-build") and self.base is None:
            raise ValueError(f"an image of source '{self.source}' needs the 'base' that it is built on")
        if self.source == "opt-build" and self.microarchitecture is None:
            raise ValueError("an image of source 'opt-build' needs the 'microarchitecture' that it is compiled for")
        if self.origin is not None and (self.base is not None or self.reference is not None):
            raise ValueError(
                "an image has one of 'reference', 'origin' and 'base': it is pulled, or built on something"
            )
        if self.accelerator is None and (self.toolkit is not None or self.driver is not None):
            raise ValueError("'toolkit' and 'driver' need an 'accelerator'")
        return self
