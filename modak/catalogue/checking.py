"""What is looked at in images and instance types when a catalogue is validated: too much for a decision."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from modak.catalogue.catalogue import Catalogue
from modak.catalogue.imagefile import ImageFile
from modak.catalogue.instances import InstanceEntry, InstanceFile
from modak.catalogue.recipe import recipes_of
from modak.errors import InputError
from modak.model.image import Architecture, ImageEntry
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


def check_instances(catalogue: Catalogue) -> None:
    """Raise InputError with all faults of instance types, each with its file: processors, accelerators, dates."""
    faults: list[str] = []
    for path, file in catalogue.files("instances", InstanceFile):
        for entry in file.instances:
            faults += [
                f"{path}: the instance type '{entry.name}': {reason}" for reason in _of_instance(entry, catalogue)
            ]
    if faults:
        raise InputError("\n".join(faults))


def _of_instance(entry: InstanceEntry, catalogue: Catalogue) -> Iterator[str]:
    if reason := _target_fault(entry.microarchitecture, entry.architecture):
        yield reason
    for accelerator in entry.accelerators:
        if accelerator.model not in catalogue.accelerators:
            hint = nearest(accelerator.model, list(catalogue.accelerators))
            yield f"the accelerator '{accelerator.model}' is not in the catalogue{hint}"
    for price in entry.prices:
        try:
            date.fromisoformat(price.date)
        except ValueError:
            yield f"the price's date '{price.date}' is no day"


def _fault(path: Path, image: ImageEntry, reason: str) -> str:
    return f"{path}: the image '{image.name}': {reason}"


def _processor(image: ImageEntry) -> str | None:
    return None if image.microarchitecture is None else _target_fault(image.microarchitecture, image.architecture)


def _target_fault(name: str, architecture: Architecture) -> str | None:
    from archspec.cpu import TARGETS

    if name not in TARGETS:
        return f"the microarchitecture '{name}' is not known{nearest(name, list(TARGETS))}"
    if TARGETS[name].family.name != MACHINES[architecture]:
        return f"it is for {architecture}, and '{name}' is a {TARGETS[name].family.name}"
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
