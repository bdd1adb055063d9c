"""What is looked at in images when a catalogue is validated: too slow, or too much, for each decision."""

from dataclasses import replace
from pathlib import Path

from modak.catalogue.catalogue import Catalogue
from modak.catalogue.imagefile import ImageFile
from modak.catalogue.recipe import recipes_of
from modak.diagnostics import Diagnostic
from modak.errors import InputError
from modak.model.image import ImageEntry
from modak.model.reference import parse
from modak.util.architectures import MACHINES
from modak.util.text import did_you_mean


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


def _about(path: Path, image: ImageEntry, problem: Diagnostic) -> Diagnostic:
    return replace(problem, text=f"the image '{image.name}': {problem.message}", source=str(path))


def _processor(image: ImageEntry) -> Diagnostic | None:
    from archspec.cpu import TARGETS

    name = image.microarchitecture
    if name is None:
        return None
    if name not in TARGETS:
        hint = did_you_mean(name, list(TARGETS))
        return Diagnostic(f"the microarchitecture '{name}' is not supported", "not-a-choice", hint_text=hint)
    if TARGETS[name].family.name != MACHINES[image.architecture]:
        return Diagnostic(f"it is for {image.architecture}, and '{name}' is a {TARGETS[name].family.name}")
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
