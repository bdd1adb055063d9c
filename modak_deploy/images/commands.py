"""What the commands of ``modak image`` do, apart from how they are called."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modak_deploy.answers import answer
from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.plan import Image, Plan
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target

if TYPE_CHECKING:
    from modak_deploy.catalogue.recipe import Recipes
    from modak_deploy.images.define import Definition
    from modak_deploy.images.ensure import Images, Wish
    from modak_deploy.images.store import ImageStore, Listing
    from modak_deploy.jobs.control import Jobs
    from modak_deploy.schedulers.base import QueueState


@dataclass(frozen=True)
class Destination:
    """Where a command works: a target and the way to it."""

    target: Target
    images: "Images"

    @property
    def store(self) -> "ImageStore":
        """The image folder there."""
        return self.images.store


@contextmanager
def destination_of(
    document: Path | None, config: Path | None, images: str | None, catalogue: Sequence[Path] = ()
) -> Iterator[Destination]:
    """Yield the target that a deployment document describes, or this machine; ``images`` is its image folder."""
    from modak_deploy.containers.location import locate
    from modak_deploy.documents import load_deployment
    from modak_deploy.images.store import ImageStore
    from modak_deploy.jobs.control import Jobs
    from modak_deploy.transport.connect import check_reachable, connect

    target, job = Target(name="localhost"), JobOptions()
    if document is not None:
        deployment = load_deployment(document)
        target, job = deployment.target, deployment.job
        check_reachable(target, "'modak image'", source=document)
    if images is not None:
        target = target.model_copy(update={"images": images})
    with ExitStack() as stack:
        transport = connect(target, config, stack)
        printing = Printing()
        store = ImageStore(transport, locate(transport, target), limit=None, notice=printing.progress)
        jobs = Jobs(transport, reporter=printing)
        yield Destination(target, _there(store, jobs, target, job, catalogue))


def show(name: str, catalogue: Sequence[Path]) -> None:
    """Print what is known of an image, and what its registry says of it."""
    from modak_deploy.images.ensure import check_name
    from modak_deploy.images.registry import resolve
    from modak_deploy.model.reference import parse

    names = _entry_names(catalogue)[0]
    check_name(name, names)
    entry = names.get(name)
    values: dict[str, Any] = entry.model_dump(mode="json", exclude_defaults=True) if entry else {}
    if entry is not None and entry.reference is None:
        values |= {"reference": f"build://{name}", **_build_summary(name, catalogue)}
    else:
        reference = parse(entry.reference if entry and entry.reference else name)
        if reference.scheme in ("file", "build"):
            raise InputError(f"'{name}' is in no registry: modak image verify looks at files")
        result = resolve(reference, entry.architecture if entry else "amd64")
        values |= {"reference": str(result.reference), "digest": result.digest, "size": result.size}
        values["labels"] = {**values.get("labels", {}), **result.labels}
    answer(values, _text(values))


def define(name: str, catalogue: Sequence[Path], target: str | None, output: Path | None, form: str) -> None:
    """Print an image's definition, or write it with its files to the folder ``output``."""
    definition = _definition(name, catalogue, target, resolved=False)
    if output is None:
        text = definition.texts["containerfile" if form == "containerfile" else "apptainer"]
        answer({"digest": definition.digest, "form": form, "text": text}, text)
        return
    texts = {
        "image.def": definition.texts["apptainer"],
        "Containerfile": definition.texts["containerfile"],
        **definition.files,
    }
    try:
        output.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (output / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or output} cannot be written: {error.strerror}") from None
    value = {"digest": definition.digest, "folder": output, "files": sorted(texts)}
    answer(value, f"{definition.digest} in {output}: {', '.join(sorted(texts))}")


def build(name: str, destination: Destination, wish: "Wish", *, follow: bool) -> None:
    """Build an image on the target, and print what it is there."""
    destination.images.follow = follow
    if not destination.images.is_built(name):
        raise InputError(f"'{name}' is published by its project and not built here: use modak image pull")
    image = destination.images.named(name, wish.microarchitecture)
    _print_image(image, destination.images.present(image, wish))


def pull(name: str, destination: Destination, wish: "Wish") -> None:
    """Bring an image to the target, and print what it is there."""
    if destination.images.is_built(name):
        raise InputError(f"'{name}' is built, and not in a registry: use modak image build")
    image = destination.images.named(name)
    _print_image(image, destination.images.present(image, wish))


def verify(name: str, destination: Destination, wish: "Wish", keys: Sequence[Path]) -> None:
    """Check an image on the target: one of the catalogue, a reference, a file there, or the one of a Plan's file."""
    from modak_deploy.documents.jsontext import read_model
    from modak_deploy.images.store import read_keys

    wanted = read_keys([str(key) for key in keys] or destination.target.image_keys)
    runtime = wish.runtime
    if name.endswith(".json"):
        plan = read_model(Path(name), Plan)
        if plan.chosen.image is None:
            raise InputError(f"the Plan in {name} runs natively: it has no image")
        image, runtime = plan.chosen.image, plan.chosen.runtime
    else:
        image = destination.images.named(name, wish.microarchitecture)
    _print_image(image, destination.store.check(image, runtime, wanted))


def push(source: str, reference: str, destination: Destination, runtime: RuntimeName) -> None:
    """Send an image of the target to a registry, and print the reference that names its content."""
    from modak_deploy.model.reference import parse

    pushed = str(destination.store.push(source, parse(reference), runtime).reference)
    answer({"reference": pushed}, pushed)


def collect(destination: Destination, days: int, *, dry: bool) -> None:
    """Remove what nobody needs, and print what became of each image."""
    rows = destination.store.collect(days, dry=dry)
    lines = []
    for row in rows:
        what = ("would remove" if dry else "removed") if row.removed else "kept"
        lines.append(f"{what} {row.file} ({row.size / 2**20:.0f} MB): {row.reason}")
    freed = sum(row.size for row in rows if row.removed)
    lines.append(f"{freed / 2**20:.0f} MB {'would be freed' if dry else 'freed'} in {destination.store.images}")
    value = {"images": rows, "freed": freed, "folder": destination.store.images, "check": dry}
    answer(value, "\n".join(lines))


class Printing:
    """Tells on standard error what becomes of a build; its log goes to standard output."""

    def state(self, job: object, state: "QueueState") -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        print(f"build: {state.state}{f' ({state.reason})' if state.reason else ''}", file=sys.stderr)

    def notice(self, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        print(f"build: {text}", file=sys.stderr)

    def progress(self, text: str) -> None:
        """Tell how far a pull is."""
        print(text, file=sys.stderr)

    def output(self, job: object, text: str) -> None:
        """See modak_deploy.jobs.settings.Reporter."""
        sys.stdout.write(text)
        sys.stdout.flush()


def _there(store: "ImageStore", jobs: "Jobs", target: Target, job: JobOptions, folders: Sequence[Path]) -> "Images":
    from modak_deploy.images.ensure import Images

    images, recipes = _entry_names(folders)
    return Images(store, jobs, target, images, recipes=recipes, job=job, logs=Path("results").absolute())


def _entry_names(folders: Sequence[Path]) -> tuple[Mapping[str, ImageEntry], "Recipes"]:
    from modak_deploy.catalogue.catalogue import load_catalogue
    from modak_deploy.catalogue.recipe import recipes_of

    catalogue = load_catalogue(list(folders))
    return catalogue.images, recipes_of(catalogue)


def _definition(name: str, folders: Sequence[Path], target: str | None, *, resolved: bool = True) -> "Definition":
    from modak_deploy.images.pin import definition_for

    images, recipes = _entry_names(folders)
    return definition_for(name, images, target, recipes, resolved=resolved)


def microarchitecture(name: str | None) -> str | None:
    """Return archspec's name for this machine where ``name`` is 'host', and ``name`` otherwise."""
    if name != "host":
        return name
    import archspec.cpu

    return str(archspec.cpu.host().name)


def _build_summary(name: str, folders: Sequence[Path]) -> dict[str, Any]:
    """Return digest and labels; without its registry the base has no digest yet, and so the image has none."""
    try:
        definition = _definition(name, folders, None)
    except TargetError as error:
        definition = _definition(name, folders, None, resolved=False)
        labels = {key: value for key, value in definition.labels.items() if key != "modak.digest"}
        return {"digest": f"not known: {error}", "labels": labels}
    return {"digest": definition.digest, "labels": dict(definition.labels)}


def _print_image(image: Image, result: "Listing") -> None:
    values: dict[str, Any] = {
        "path": result.path,
        "reference": image.reference,
        "digest": image.digest,
        "sha256": result.sha256 or None,
        "size": result.size,
        "architecture": result.architecture,
        "signed": result.signed,
        "labels": result.labels,
    }
    there = {key: value for key, value in values.items() if value not in (None, {}, "")}
    answer(there, _text(there))


def _text(values: Mapping[str, Any]) -> str:
    lines = []
    for key, value in values.items():
        if isinstance(value, dict):
            lines += [f"{key}.{name}: {inner}" for name, inner in sorted(value.items())]
        else:
            lines.append(f"{key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return "\n".join(lines)
