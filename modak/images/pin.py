"""What a Plan's image is to the last bit: registries are asked, definitions are written, and the digest is kept."""

from collections.abc import Mapping

from modak.errors import InputError, TargetError
from modak.images.define import Definition, define, for_microarchitecture
from modak.images.recipe import Recipes
from modak.images.reference import parse
from modak.images.registry import resolve
from modak.images.store import ImageStore
from modak.model.image import ImageEntry
from modak.model.plan import Image, Plan, Rejected


def pinned(
    plan: Plan, images: Mapping[str, ImageEntry], store: ImageStore | None = None, recipes: Recipes | None = None
) -> Plan:
    """Return the Plan with its image's digest, where the runtime is no native one and it has none yet.

    ``images`` is the catalogue; ``store`` is asked for the digest of a file on the target. An image that cannot be had
    is rejected with the reason, and the next best candidate takes its place, unless the user asked for that image or
    nothing else is left: then the reason is raised. The same tag gives the same digest until somebody moves it.
    """
    silent: dict[str, TargetError] = {}
    while True:
        image = plan.chosen.image
        if plan.chosen.runtime == "native" or image is None or image.digest is not None:
            return plan
        try:
            if (known := silent.get(parse(image.reference).registry)) is not None:
                raise known
            chosen = plan.chosen.model_copy(update={"image": pin_image(image, plan, images, store, recipes)})
            return plan.model_copy(update={"chosen": chosen})
        except (TargetError, InputError) as error:
            if plan.application.image is not None or not plan.alternatives:
                raise _named(error, image) from None
            if isinstance(error, TargetError) and "cannot be reached" in str(error):
                silent[parse(image.reference).registry] = error
            plan = _without_chosen(plan, str(error))


def _named(error: TargetError | InputError, image: Image) -> TargetError | InputError:
    name = image.entry or image.reference
    return error if name in str(error) else type(error)(f"the image '{name}' cannot be had: {error}")


def _without_chosen(plan: Plan, why: str) -> Plan:
    following, *others = plan.alternatives
    return plan.model_copy(
        update={
            "chosen": following.candidate,
            "prediction": following.prediction,
            "alternatives": others,
            "rejected": [*plan.rejected, Rejected(name=plan.chosen.name, reason=why)],
            "gain": None,
            "reason": f"it is the best whose image can be had: {plan.chosen.name} cannot, because {why}",
        }
    )


def pin_image(
    image: Image,
    plan: Plan,
    images: Mapping[str, ImageEntry],
    store: ImageStore | None = None,
    recipes: Recipes | None = None,
) -> Image:
    """Return one image with its digest."""
    reference = parse(image.reference)
    if reference.scheme == "build":
        definition = definition_for(reference.repository, images, microarchitecture_of(plan), recipes)
        return image.model_copy(
            update={"digest": definition.digest, "labels": {**image.labels, "modak.digest": definition.digest}}
        )
    if reference.scheme == "file":
        if store is None:
            raise InputError(f"the image '{image.reference}' has no digest: give it, as sha256sum prints it")
        return image.model_copy(update={"digest": store.digest_of(reference.repository)})
    return image.model_copy(update={"digest": resolve(reference, image.architecture).digest})


def definition_for(
    name: str,
    images: Mapping[str, ImageEntry],
    microarchitecture: str | None = None,
    recipes: Recipes | None = None,
    *,
    resolved: bool = True,
) -> Definition:
    """Return the definition of a catalogue entry; it and what it is built on are compiled for ``microarchitecture``.

    Its base is pinned to what its reference stands for now, unless ``resolved`` is False. InputError for an unknown
    name; TargetError where the base's registry cannot be reached.
    """
    if name not in images:
        raise InputError(f"the catalogue has no image '{name}'")
    made = []
    for entry in _chain(images[name], images):
        if entry.source == "opt-build" and microarchitecture is not None:
            entry = for_microarchitecture(entry, microarchitecture, images, recipes)
        made.append(_with_digest(entry) if resolved else entry)
    return define(made[0], {**images, **{entry.name: entry for entry in made}}, recipes)


def _chain(entry: ImageEntry, images: Mapping[str, ImageEntry]) -> list[ImageEntry]:
    """Return an image and the ones that it is built on, as far as the catalogue has them; InputError for a circle."""
    chain = [entry]
    while (base := chain[-1].base) is not None and base in images:
        if images[base] in chain:
            raise InputError(f"the image '{base}' is built on itself: give it another 'base'")
        chain.append(images[base])
    return chain


def _with_digest(entry: ImageEntry) -> ImageEntry:
    """Return an entry with the digest that its origin stands for now, if nobody has written it down."""
    if entry.origin is None or (origin := parse(entry.origin)).digest is not None:
        return entry
    return entry.model_copy(update={"origin": str(resolve(origin, entry.architecture).reference)})


def microarchitecture_of(plan: Plan) -> str | None:
    """Return the microarchitecture of the nodes that the Plan's job runs on, as far as it is known."""
    for partition in (*plan.target.partitions, *plan.facts.partitions):
        if partition.name == plan.job.partition and partition.node.microarchitecture:
            return partition.node.microarchitecture
    node = plan.target.node or plan.facts.node
    return node.microarchitecture
