"""What is looked at in images when a catalogue is validated: too slow, or too much, for each decision."""

from pathlib import Path

from modak.catalogue.catalogue import Catalogue
from modak.catalogue.imagefile import ImageFile
from modak.catalogue.recipe import recipes_of
from modak.errors import InputError
from modak.model.image import ImageEntry
from modak.model.reference import parse
from modak.util.architectures import MACHINES
from modak.util.text import nearest


def check_images(catalogue: Catalogue) -> None:
    """Raise InputError with all faults of images, each with its file: processors, references, ways to be built."""
    recipes = recipes_of(catalogue)
    faults: list[str] = []
    for path, file in catalogue.files("images", ImageFile):
        for image in file.images:
            if catalogue.images[image.name] != image:
                continue  # a later file has another in its place
            found = [_processor(image), _reference(image)]
            if image.reference is None and recipes.get(image.name) is None:
                found.append("it has neither a 'reference' nor a recipe to build it by")
            faults += [_fault(path, image, reason) for reason in found if reason is not None]
    if faults:
        raise InputError("\n".join(faults))


def _fault(path: Path, image: ImageEntry, reason: str) -> str:
    return f"{path}: the image '{image.name}': {reason}"


def _processor(image: ImageEntry) -> str | None:
    from archspec.cpu import TARGETS

    name = image.microarchitecture
    if name is None:
        return None
    if name not in TARGETS:
        return f"the microarchitecture '{name}' is not known{nearest(name, list(TARGETS))}"
    if TARGETS[name].family.name != MACHINES[image.architecture]:
        return f"it is for {image.architecture}, and '{name}' is a {TARGETS[name].family.name}"
    return None


def _reference(image: ImageEntry) -> str | None:
    if image.reference is None:
        return None
    try:
        reference = parse(image.reference)
    except InputError as error:
        return str(error)
    if image.digest is not None and reference.digest not in (None, image.digest):
        return f"its 'digest' is {image.digest}, and its reference names {reference.digest}"
    return None
