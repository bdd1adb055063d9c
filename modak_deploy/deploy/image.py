"""The images of a target, opened for its jobs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from modak_deploy.catalogue.recipe import recipes_of
from modak_deploy.catalogue.site import catalogue_for
from modak_deploy.containers.location import locate
from modak_deploy.errors import InputError
from modak_deploy.images.ensure import Images, Wish
from modak_deploy.images.pin import microarchitecture_of, resolved
from modak_deploy.images.store import ImageStore, read_keys
from modak_deploy.jobs.control import Jobs
from modak_deploy.model.plan import Image, Plan
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target
from modak_deploy.transport.base import Transport


def open_images(
    transport: Transport,
    jobs: Jobs,
    target: Target,
    *,
    job: JobOptions,
    locations: Sequence[str],
    search: Sequence[Path],
    logs: Path,
    notice: Callable[[str], None],
) -> Images:
    """Return the images of a target; ``locations`` are those of the catalogue, ``logs`` takes those of builds."""
    catalogue = catalogue_for(locations, search)
    store = ImageStore(transport, locate(transport, target), notice=notice)
    return Images(store, jobs, target, catalogue.images, recipes=recipes_of(catalogue), job=job, logs=logs)


def image_of(plan: Plan, images: Images) -> Image:
    """Return the Plan's image with its digest; InputError where there is none any more."""
    image = resolved(plan, images.catalogue, images.store, images.recipes)
    if image is None:
        raise InputError("the plan's image is not available", hint="make the plan again")
    return image


def ensure_image(plan: Plan, images: Images, *, check: bool) -> bool:
    """Pull or build the Plan's image on the target unless it is there; return whether it had to be.

    With ``check`` nothing is changed.
    """
    if plan.chosen.image is None:
        return False
    image = image_of(plan, images)
    if check:
        return not images.look(image, plan.chosen.runtime)
    keys = read_keys(images.target.image_keys)
    wish = Wish(runtime=plan.chosen.runtime, microarchitecture=microarchitecture_of(plan), keys=keys)
    return images.present(image, wish).pulled
