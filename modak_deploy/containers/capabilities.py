"""Which runtime can be given which kind of image: one place for the Plan and for everything that carries it out."""

from collections.abc import Mapping

from modak_deploy.containers import registry
from modak_deploy.containers.base import SOURCE_KINDS, Need, SourceKind
from modak_deploy.errors import InputError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.reference import Reference
from modak_deploy.util.text import either

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
    if kind in registry.get(runtime).sources:
        return None
    able = [name for name in RUNTIMES.builtin if kind in registry.get(name).sources]
    return f"{runtime} does not support {SOURCE_KINDS[kind]}; use {either(able)}"


def fault_of_signature(runtime: RuntimeName) -> str | None:
    """Return why a signature cannot be verified with ``runtime``, as one clause; None where it can."""
    if registry.get(runtime).verifies_signatures:
        return None
    able = either(name for name in RUNTIMES.builtin if registry.get(name).verifies_signatures)
    return f"a signature is required (target.image_keys), and {runtime} cannot verify one; use {able}"


def check_source(runtime: RuntimeName, reference: Reference) -> None:
    """Raise InputError where ``runtime`` cannot be given the image."""
    if fault := fault_of_source(runtime, reference):
        raise InputError(f"the image '{reference}' cannot be used: {fault}")


def without_gap(need: Need) -> str:
    """Return the built-in runtimes that have some release with what ``need`` is for, as a choice."""

    def has(name: str) -> bool:
        own = (other for other in registry.get(name).needs if other.accelerator == need.accelerator)
        return all(other.release is not None for other in own)

    return either(name for name in RUNTIMES.builtin if has(name))


def joining_ranks() -> str:
    """Return the built-in runtimes in whose containers the ranks of an MPI program find each other, as a choice."""
    return either(name for name in RUNTIMES.builtin if registry.get(name).joins_ranks)


def pushing() -> str:
    """Return the built-in runtimes that can push images, as a choice."""
    return either(name for name in RUNTIMES.builtin if registry.get(name).push_scheme is not None)
