"""What a Plan's image is to the last bit: registries are asked, definitions are written, and the digest is kept."""

from collections.abc import Mapping

from modak_deploy.catalogue.recipe import Recipes
from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.define import Definition, define, for_microarchitecture
from modak_deploy.images.registry import resolve
from modak_deploy.images.store import ImageStore
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.plan import Image, Plan
from modak_deploy.model.reference import parse


class Unavailable(Exception):
    """The image of a Plan is not available, so that the optimiser has to decide again without it."""

    def __init__(self, image: Image, cause: TargetError | InputError) -> None:
        super().__init__(str(cause))
        self.image = image
        self.cause = cause

    @property
    def is_silence(self) -> bool:
        """Whether the registry cannot be reached, so that no other image of it is available either."""
        return isinstance(self.cause, TargetError) and "cannot be reached" in str(self.cause)

    def error(self) -> TargetError | InputError:
        """Return the error for the user, which names the image."""
        name = self.image.entry or self.image.reference
        if f"'{name}'" in str(self.cause):
            return self.cause
        return type(self.cause)(f"the image '{name}' is not available: {self.cause}")


def resolved(
    plan: Plan, images: Mapping[str, ImageEntry], store: ImageStore | None = None, recipes: Recipes | None = None
) -> Image | None:
    """Return the Plan's image with its digest; None where the runtime is the native one.

    ``images`` is the catalogue; ``store`` is asked for the digest of a file on the target. Raise Unavailable for an
    image that cannot be resolved. The same tag gives the same digest until somebody moves it.
    """
    image = plan.chosen.image
    if plan.chosen.runtime == "native" or image is None or image.digest is not None:
        return image
    try:
        return pin_image(image, plan, images, store, recipes)
    except (TargetError, InputError) as error:
        raise Unavailable(image, error) from None


def registry_of(entry: ImageEntry, images: Mapping[str, ImageEntry]) -> str | None:
    """Return the registry that must be asked before an image of the catalogue can be used; None where none must.

    That is its own, or the one of what it is built on; an image whose digest is in the catalogue needs no question.
    """
    last = entry if entry.reference is not None else _chain(entry, images)[-1]
    reference = last.reference or last.origin
    if reference is None or last.digest is not None or parse(reference).digest is not None:
        return None
    return parse(reference).registry or None


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
            raise InputError(f"the image '{image.reference}' has no digest", hint="give it, as sha256sum prints it")
        return image.model_copy(update={"digest": store.digest_of(reference.repository)})
    # That of an index stays: it is what the reference says, and the runtime takes the variant for its processor.
    resolved = resolve(reference, image.architecture)
    return image.model_copy(update={"digest": reference.digest or resolved.digest})


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
            raise InputError(f"the image '{base}' is built on itself", hint="give it another 'base'")
        chain.append(images[base])
    return chain


def _with_digest(entry: ImageEntry) -> ImageEntry:
    """Return an entry with the digest of what it is built on or pulled from now, if nobody has written it down."""
    text = entry.origin or entry.reference
    if text is None or entry.digest is not None or (reference := parse(text)).digest is not None:
        return entry
    if reference.scheme != "docker":
        return entry  # nothing can be built on it, as its definition says
    pinned = resolve(reference, entry.architecture)
    return entry.model_copy(update={"origin": str(pinned.reference)} if entry.origin else {"digest": pinned.digest})


def microarchitecture_of(plan: Plan) -> str | None:
    """Return the microarchitecture of the nodes that the Plan's job runs on, as far as it is known."""
    for partition in (*plan.target.partitions, *plan.facts.partitions):
        if partition.name == plan.job.partition and partition.node.microarchitecture:
            return partition.node.microarchitecture
    node = plan.target.node or plan.facts.node
    return node.microarchitecture
