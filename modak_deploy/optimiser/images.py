"""Does an image fit the application and the target? The answer is None or the reason why not, as one clause."""

import re
from dataclasses import replace

from packaging.version import Version

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.diagnostics import location_of
from modak_deploy.engines.registry import package_of
from modak_deploy.errors import InputError
from modak_deploy.model.application import Framework
from modak_deploy.model.image import ImageEntry, MpiLibrary
from modak_deploy.model.target import Facts
from modak_deploy.optimiser.conditions import below, satisfies
from modak_deploy.optimiser.options import Location
from modak_deploy.util.architectures import MACHINES, architecture

UNKNOWN = "named by the application; what is inside is not known"
"""Summary of an image that the catalogue does not have."""
_ABI = {"mpich": "mpich", "mvapich": "mpich", "intelmpi": "mpich", "openmpi": "openmpi"}
"""Families that can stand in for each other at run time: those of the MPICH ABI."""


def find(text: str, catalogue: Catalogue, key: str = "application.image") -> ImageEntry:
    """Return the catalogue's entry that ``text`` names or refers to, or a new one for a reference unknown to it.

    InputError names the ``key`` that the text is from.
    """
    if text in catalogue.images:
        return catalogue.images[text]
    if not re.search(r"[:/]", text):
        close = catalogue.nearest_image(text)
        hint = f"; did you mean '{close}'?" if close else ""
        raise InputError(f"the catalogue has no image '{text}'{hint}", key=key)
    from modak_deploy.model.reference import parse

    try:
        reference = parse(text)
    except InputError as error:
        raise error.mapped(lambda diagnostic: replace(diagnostic, path=location_of(key))) from None
    for entry in catalogue.images.values():
        if entry.reference is not None and str(parse(entry.reference)) == str(reference):
            return entry
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", reference.slug)[:60]
    return ImageEntry(
        name=name if name[:1].isalpha() else f"i-{name}",
        summary=UNKNOWN,
        source="base",
        reference=str(reference),
        digest=reference.digest,
    )


def for_processor(entry: ImageEntry, microarchitecture: str | None) -> ImageEntry:
    """Return an image of an unknown processor as one for ``microarchitecture``: many references have several."""
    from archspec.cpu import TARGETS

    if microarchitecture not in TARGETS:
        return entry
    return entry.model_copy(update={"architecture": architecture(TARGETS[microarchitecture].family.name)})


def fault_of(
    entry: ImageEntry, location: Location, framework: Framework | None, facts: Facts, ranks: int
) -> str | None:
    """Return why ``entry`` cannot be used at ``location``; None when it can."""
    return (
        _framework(entry, location, framework)
        or _processor(entry, location)
        or _accelerator(entry, location)
        or _mpi(entry, facts, location, ranks)
    )


def _framework(entry: ImageEntry, location: Location, framework: Framework | None) -> str | None:
    if framework is None or (entry.framework is None and not entry.packages):
        return None
    name = framework.name.lower()
    package = package_of(name)
    version = entry.version if entry.framework == name else location.version_of(package)
    if version is None:
        return f"the image has no {framework.name}"
    if framework.version is not None and not satisfies(version, framework.version):
        return f"{framework.name} {framework.version} is requested, but the image has {version}"
    return None


def _processor(entry: ImageEntry, location: Location) -> str | None:
    have = location.node.microarchitecture
    family = MACHINES[entry.architecture]
    if have is not None:
        from archspec.cpu import TARGETS

        if have in TARGETS and TARGETS[have].family.name != family:
            return f"the image is for {entry.architecture}, and the node's processor is {have}"
    return None if entry.microarchitecture is None else below(have, entry.microarchitecture)


def _accelerator(entry: ImageEntry, location: Location) -> str | None:
    gpus, present = location.gpus, location.node.accelerators
    if entry.accelerator is None:
        return f"the image has no software for GPUs, and the job asks for {gpus} per node" if gpus and present else None
    if not gpus:
        return f"the image is for GPUs of {entry.accelerator}, and the job asks for none"
    if not present:
        return "the node's GPUs are not known"
    if present[0].vendor != entry.accelerator:
        return f"the image is for GPUs of {entry.accelerator}, and the node's are of {present[0].vendor}"
    if entry.driver is None:
        return None
    if present[0].driver is None:
        return f"the image needs a driver of at least {entry.driver}, and the node's is not known"
    if Version(present[0].driver) < Version(entry.driver):
        toolkit = f" for its CUDA {entry.toolkit}" if entry.toolkit and entry.accelerator == "nvidia" else ""
        return f"the image needs a driver of at least {entry.driver}{toolkit}, and the node has {present[0].driver}"
    return None


def _mpi(entry: ImageEntry, facts: Facts, location: Location, ranks: int) -> str | None:
    if ranks == 1 or location.type != "hpc":
        return None
    if entry.mpi is None and entry.summary == UNKNOWN:
        return None
    if entry.mpi is None:
        return f"the image has no MPI, and the job has {ranks} ranks"
    if not facts.mpi:
        return f"the image has {_text(entry.mpi)}, and the target's MPI is not known"
    if any(_fits(entry.mpi, library) for library in facts.mpi):
        return None
    have = " and ".join(_text(library) for library in facts.mpi)
    return f"the image has {_text(entry.mpi)}, which does not go with the target's {have}"


def _fits(inside: MpiLibrary, outside: MpiLibrary) -> bool:
    if _ABI[inside.family] != _ABI[outside.family]:
        return False
    return inside.family != outside.family or Version(inside.version).major == Version(outside.version).major


def _text(library: MpiLibrary) -> str:
    return f"{library.family} {library.version}"
