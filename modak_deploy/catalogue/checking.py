"""What is looked at in images and instance types when a catalogue is validated: too much for a decision."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.imagefile import ImageFile
from modak_deploy.catalogue.instances import InstanceEntry, InstanceFile
from modak_deploy.catalogue.recipe import recipes_of
from modak_deploy.diagnostics import Diagnostic
from modak_deploy.errors import InputError
from modak_deploy.model.image import Architecture, ImageEntry
from modak_deploy.model.reference import parse
from modak_deploy.util.architectures import MACHINES
from modak_deploy.util.text import did_you_mean


def check_images(catalogue: Catalogue) -> None:
    """Raise InputError with all problems of images, each with its file: processors, references, ways to be built."""
    recipes = recipes_of(catalogue)
    diagnostics: list[Diagnostic] = []
    for path, file in catalogue.files("images", ImageFile):
        for image in file.images:
            if catalogue.images[image.name] != image:
                continue  # a later file has another in its place
            problems = [_processor(image), _reference(image)]
            if image.reference is None and recipes.get(image.name) is None:
                problems.append(Diagnostic("either a 'reference' or a recipe to build it is required", "missing-key"))
            diagnostics += [_about(path, image, problem) for problem in problems if problem is not None]
    if diagnostics:
        raise InputError(diagnostics)


def check_instances(catalogue: Catalogue) -> None:
    """Raise InputError with all problems of instance types, each with its file: processors, accelerators, dates."""
    diagnostics: list[Diagnostic] = []
    for path, file in catalogue.files("instances", InstanceFile):
        for entry in file.instances:
            name = f"the instance type '{entry.name}'"
            diagnostics += [_with_subject(path, name, problem) for problem in _of_instance(entry, catalogue)]
    if diagnostics:
        raise InputError(diagnostics)


def _of_instance(entry: InstanceEntry, catalogue: Catalogue) -> Iterator[Diagnostic]:
    if problem := _microarchitecture(entry.microarchitecture, entry.architecture):
        yield problem
    for accelerator in entry.accelerators:
        if accelerator.model not in catalogue.accelerators:
            hint = did_you_mean(accelerator.model, list(catalogue.accelerators))
            text = f"the accelerator '{accelerator.model}' is not in the catalogue"
            yield Diagnostic(text, "not-found", hint_text=hint)
    for price in entry.prices:
        try:
            date.fromisoformat(price.date)
        except ValueError:
            yield Diagnostic(f"the date '{price.date}' of a price is not valid", "invalid-value")


def _about(path: Path, image: ImageEntry, problem: Diagnostic) -> Diagnostic:
    return _with_subject(path, f"the image '{image.name}'", problem)


def _with_subject(path: Path, subject: str, problem: Diagnostic) -> Diagnostic:
    return replace(problem, text=f"{subject}: {problem.message}", source=str(path))


def _processor(image: ImageEntry) -> Diagnostic | None:
    return None if image.microarchitecture is None else _microarchitecture(image.microarchitecture, image.architecture)


def _microarchitecture(name: str, architecture: Architecture) -> Diagnostic | None:
    from archspec.cpu import TARGETS

    if name not in TARGETS:
        hint = did_you_mean(name, list(TARGETS))
        return Diagnostic(f"the microarchitecture '{name}' is not supported", "not-a-choice", hint_text=hint)
    if TARGETS[name].family.name != MACHINES[architecture]:
        return Diagnostic(f"it is for {architecture}, and '{name}' is a {TARGETS[name].family.name}")
    return None


def _reference(image: ImageEntry) -> Diagnostic | None:
    if image.reference is None:
        return None
    try:
        reference = parse(image.reference)
    except InputError as error:
        return error.diagnostics[0]
    if image.digest is not None and reference.digest not in (None, image.digest):
        return Diagnostic(f"its 'digest' is {image.digest}, and its reference names {reference.digest}")
    return None
