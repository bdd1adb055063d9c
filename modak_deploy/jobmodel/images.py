"""Which images a document permits: a catalogue with those that do not fit taken out, each for a reason."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.imagefile import preference
from modak_deploy.catalogue.recipe import recipes_of
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobmodel.imagebuild import JOB_FOLDER, built_entry
from modak_deploy.jobmodel.model import JobBody, Mpi, Training
from modak_deploy.jobmodel.site import Site
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.reference import parse
from modak_deploy.optimiser.conditions import satisfies


class Narrowed(Catalogue):
    """A catalogue with some of another's images."""

    def __init__(self, whole: Catalogue, images: Mapping[str, ImageEntry]) -> None:
        super().__init__(whole.sources)
        self._permitted = images
        # What is read of the files stays the same: it is read once for all documents that one process answers.
        self.__dict__ |= {"_levers": whole._levers, "_hardware": whole._hardware}

    @cached_property
    def images(self) -> Mapping[str, ImageEntry]:
        """Images by name."""
        return self._permitted


def reference_of(text: str | None, site: Site, catalogue: Catalogue) -> str | None:
    """Return the image that ``container_runtime`` names, in the spelling of modak."""
    if text is None:
        return None
    try:
        if (name := built_entry(text, catalogue)) is not None:
            return name
        if "/" not in text and text in catalogue.images:
            return text
        if (file := _local_file(text)) is not None:
            path = f"{site.images or JOB_FOLDER}/{file}"
            parse(path)
            return path
        return str(parse(text))
    except InputError as error:
        message = str(error).replace(f"{JOB_FOLDER}/", "")
        raise InputError(message, key="application.container_runtime") from None


def file_beside(text: str, site: Site) -> str | None:
    """Return the file beside the job that ``container_runtime`` names; None where it is another kind of image."""
    return None if site.images else _local_file(text)


def _local_file(text: str) -> str | None:
    """Return the file of an image that ``private://NAME``, a bare name or a relative path stands for."""
    if text.startswith("private://"):
        name = text.removeprefix("private://").strip("/")
    elif text.endswith((".sif", ".simg", ".sqfs")) and "://" not in text and not text.startswith(("/", "~")):
        name = text.removeprefix("./")
    elif re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", text, re.ASCII):
        name = text
    else:
        return None
    return name if name.endswith((".sif", ".simg", ".sqfs")) else f"{name}.sif"


def permitted(catalogue: Catalogue, job: JobBody, site: Site) -> Narrowed:
    """Return the catalogue with the images that the options permit; InfeasibleError when they permit none.

    Where no site is described its processors are taken to be as new as each image needs.
    """
    training = job.optimisation.training if job.optimisation else None
    mpi = job.optimisation.hpc.mpi if job.optimisation and job.optimisation.hpc else None
    recipes = recipes_of(catalogue)
    kept: dict[str, ImageEntry] = {}
    reasons: Counter[str] = Counter()
    for entry in catalogue.images.values():
        reason = _fault(entry, job, training, mpi)
        if entry.reference is None and recipes.get(entry.name) is None:
            reason = "it has neither a reference nor a recipe to build it by"
        if reason is None:
            floor = entry.microarchitecture if site.infrastructure is not None else None
            kept[entry.name] = entry.model_copy(update={"microarchitecture": floor})
        elif training is not None and entry.framework == training.config.ai_framework:
            reasons[reason] += 1
    framework = training.config.ai_framework if training else None
    if framework is not None and not _holding(kept, framework) and job.application.container_runtime is None:
        available = "; ".join(f"{number}: {reason}" for reason, number in sorted(reasons.items()))
        raise InfeasibleError(
            f"of the catalogue's images none of {framework} will do ({available or 'it has none'})",
            key="optimisation",
            hint="name an image by container_runtime, or describe the site's own in its catalogue",
        )
    return Narrowed(catalogue, kept)


def _holding(images: Mapping[str, ImageEntry], framework: str) -> bool:
    return any(entry.framework == framework for entry in images.values())


def _fault(entry: ImageEntry, job: JobBody, training: Training | None, mpi: Mpi | None) -> str | None:
    optimisation = job.optimisation
    if entry.source == "opt-build" and not (optimisation and optimisation.enable_opt_build):
        return "it is compiled for its processor, and enable_opt_build is false"
    glow = training.pytorch.glow if training and training.pytorch else None
    if glow is not None and entry.framework == "pytorch" and ("glow" in entry.compilers) != glow:
        return f"glow is {str(glow).lower()}, and it {'has' if not glow else 'has no'} Glow"
    if reason := _backend_fault(entry, training):
        return reason
    if mpi is not None and entry.mpi is not None and (reason := mpi_fault(entry, mpi)):
        return reason
    return None


def _backend_fault(entry: ImageEntry, training: Training | None) -> str | None:
    """Return why what Keras works on is not the version that is asked for."""
    if training is None or training.config.ai_framework != "keras" or entry.framework != "keras":
        return None
    for package, section in (("tensorflow", training.tensorflow), ("torch", training.pytorch)):
        version = section.version if section is not None else None
        have = entry.packages.get(package)
        if version is not None and (have is None or not satisfies(have, version)):
            return f"{package} {version} is requested, but it has {have or 'none'}"
    return None


def mpi_fault(entry: ImageEntry, mpi: Mpi) -> str | None:
    """Return why the image's MPI is not the one that is asked for."""
    have = entry.mpi
    if have is None:
        return "it has no MPI"
    if mpi.library not in (None, have.family):
        return f"{mpi.library} is requested, but it has {have.family} {have.version}"
    if mpi.version is not None and not satisfies(have.version, mpi.version):
        return f"{have.family} {mpi.version} is requested, but it has {have.version}"
    return None


def mpi_image(catalogue: Catalogue, mpi: Mpi) -> str | None:
    """Return the name of the preferred image for MPI programs with this library; None where there is none."""
    fitting = [
        entry
        for entry in catalogue.images.values()
        if entry.framework is None and entry.reference is not None and entry.mpi and mpi_fault(entry, mpi) is None
    ]
    return min(fitting, key=preference).name if fitting else None
