"""Which runtime can be given which kind of image: one table for the Plan and for everything that carries it out."""

from collections.abc import Mapping, Sequence
from typing import Literal

from modak.errors import InputError
from modak.model.base import RuntimeName
from modak.model.reference import Reference

SourceKind = Literal["layers", "sif artefact", "library", "sif file", "squashfs file", "file", "build"]
"""What a reference leads to: ``docker://``, ``oras://``, ``library://``, a file by its ending, ``build://``."""
SOURCE_KINDS: Mapping[SourceKind, str] = {
    "layers": "images of layers (docker://)",
    "sif artefact": "SIF images of a registry (oras://)",
    "library": "images of a library (library://)",
    "sif file": "SIF files",
    "squashfs file": "squashfs files",
    "file": "image files",
    "build": "images that are built from a recipe",
}
_SIF: Sequence[SourceKind] = ("layers", "sif artefact", "library", "sif file", "file", "build")
SOURCES: Mapping[RuntimeName, Sequence[SourceKind]] = {
    # Apptainer itself mounts squashfs files too; modak verifies SIF files only.
    "apptainer": _SIF,
    "singularity": _SIF,
    # Both keep a store of their own. podman pulls oras:// artefacts as of 5.4, but cannot run a SIF file.
    "podman": ("layers", "build"),
    "docker": ("layers", "build"),
    # ch-image drops labels when it builds (0.31), so what it builds could not be verified.
    "charliecloud": ("layers", "squashfs file", "file"),
}
"""What each container runtime can be given; the order of the keys says nothing."""
SIGNATURES: frozenset[RuntimeName] = frozenset({"apptainer", "singularity"})
"""Runtimes by which the signature of an image can be verified."""
BUILDERS: tuple[RuntimeName, ...] = tuple(name for name, kinds in SOURCES.items() if "build" in kinds)
_ENDINGS: Mapping[str, SourceKind] = {".sif": "sif file", ".simg": "sif file", ".sqfs": "squashfs file"}


def kind_of(reference: Reference) -> SourceKind:
    """Return what a reference leads to."""
    if reference.scheme == "file":
        return next((kind for end, kind in _ENDINGS.items() if reference.repository.endswith(end)), "file")
    kinds: Mapping[str, SourceKind] = {
        "docker": "layers",
        "oras": "sif artefact",
        "library": "library",
        "build": "build",
    }
    return kinds[reference.scheme]


def fault_of_source(runtime: RuntimeName, reference: Reference) -> str | None:
    """Return why ``runtime`` cannot be given the image, as one clause; None where it can."""
    kind = kind_of(reference)
    if kind in SOURCES.get(runtime, ()):
        return None
    able = [name for name, kinds in SOURCES.items() if kind in kinds]
    return f"{runtime} does not support {SOURCE_KINDS[kind]}; use {_either(able)}"


def fault_of_signature(runtime: RuntimeName) -> str | None:
    """Return why a signature cannot be verified with ``runtime``, as one clause; None where it can."""
    if runtime in SIGNATURES:
        return None
    able = _either(sorted(SIGNATURES))
    return f"a signature is required (target.image_keys), and {runtime} cannot verify one; use {able}"


def check_source(runtime: RuntimeName, reference: Reference) -> None:
    """Raise InputError where ``runtime`` cannot be given the image."""
    if fault := fault_of_source(runtime, reference):
        raise InputError(f"the image '{reference}' cannot be used: {fault}")


def _either(names: Sequence[str]) -> str:
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
