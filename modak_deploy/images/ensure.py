"""An image as a state: present on a target, pulled or built once and checked; or absent."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from modak_deploy.catalogue.recipe import Recipes
from modak_deploy.containers import registry
from modak_deploy.containers.base import COMPRESSIONS
from modak_deploy.containers.location import argument, pin
from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.extensions import RUNTIMES
from modak_deploy.images.build import make_build, run_build
from modak_deploy.images.pin import definition_for
from modak_deploy.images.registry import resolve
from modak_deploy.images.store import ImageStore, Listing
from modak_deploy.jobs.control import Jobs
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.execution import Image
from modak_deploy.model.image import Architecture, ImageEntry
from modak_deploy.model.reference import parse
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target
from modak_deploy.util.architectures import architecture
from modak_deploy.util.text import either, nearest


@dataclass(frozen=True)
class Wish:
    """How an image is wanted."""

    runtime: RuntimeName = "apptainer"
    compression: str | None = None
    """gzip, zstd, lz4 or none; what the runtime surely reads when absent."""
    microarchitecture: str | None = None
    """What a source build is compiled for, where the image does not say it by its digest."""
    keys: Sequence[str] = ()
    """Texts of public keys, PEM or PGP: one of them must have signed the image."""
    holder: str = ""
    """Folder of the job that needs it."""
    network: bool = False
    """Whether a build asks the package index itself instead of this machine."""
    timeout: float | None = None
    """Seconds to wait for a build."""

    def __post_init__(self) -> None:
        """Refuse a compression or a runtime that is not known."""
        if self.runtime not in RUNTIMES:
            entries = f"; use {either(RUNTIMES.names())}"
            raise InputError(f"runtime: '{self.runtime}' not found{nearest(self.runtime, RUNTIMES.names()) or entries}")
        if self.compression not in (None, *COMPRESSIONS):
            raise InputError(f"compression '{self.compression}' is not supported; use one of {', '.join(COMPRESSIONS)}")

    def packing(self, image: Image) -> str:
        """Return how the image's file is compressed."""
        return image.packing or self.compression or registry.get(self.runtime).compression

    def arguments(self, image: Image) -> str:
        """Return arguments for mksquashfs."""
        return COMPRESSIONS[self.packing(image)]


def check_name(name: str, catalogue: Mapping[str, ImageEntry]) -> None:
    """Raise InputError for a name without ':' and '/', which no reference is and which the catalogue does not have."""
    if name not in catalogue and not re.search(r"[:/]", name):
        hint = nearest(name, list(catalogue)) or f"; an image of a registry is written 'docker://{name}'"
        raise InputError(f"the catalogue has no image '{name}'{hint}")


class Images:
    """The images of one target, with the catalogue that tells how they are built."""

    def __init__(
        self,
        store: ImageStore,
        jobs: Jobs,
        target: Target,
        catalogue: Mapping[str, ImageEntry],
        *,
        recipes: Recipes | None = None,
        job: JobOptions | None = None,
        logs: Path = Path("results"),
    ) -> None:
        """``recipes`` are the shipped ones when absent; ``job`` holds the options of a build's job.

        The log of a build that failed is brought to ``logs``.
        """
        self.store = store
        self.jobs = jobs
        self.target = target
        self.catalogue = catalogue
        self.recipes = recipes
        self.job = job or JobOptions()
        self.logs = logs
        self.follow = False
        """Whether the reporter of ``jobs`` gets a build's log as it grows."""

    def is_built(self, name: str) -> bool:
        """Tell whether ``name`` is an image of the catalogue that is built; InputError for a name that nobody knows."""
        check_name(name, self.catalogue)
        return name in self.catalogue and self.catalogue[name].reference is None

    def named(self, name: str, microarchitecture: str | None = None, digest: str | None = None) -> Image:
        """Return a catalogue entry, a reference or a file on the target as a pinned image.

        With ``digest``, what it stood for at some time, nobody is asked what it stands for now.
        """
        if digest is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise InputError(f"the digest '{digest}' of the image '{name}' is not 'sha256:' and 64 hexadecimal digits")
        entry = self.catalogue.get(name)
        if entry is not None and entry.reference is None:
            digest = digest or definition_for(name, self.catalogue, microarchitecture, self.recipes).digest
            return Image(
                reference=f"build://{name}",
                digest=digest,
                entry=name,
                architecture=entry.architecture,
                accelerator=entry.accelerator,
                labels={"modak.digest": digest},
            )
        if entry is None:
            check_name(name, self.catalogue)
        reference = parse((entry.reference if entry else None) or name)
        if reference.scheme == "file":
            return Image(reference=str(reference), digest=digest or self.store.digest_of(reference.repository))
        pinned = digest or (entry.digest if entry else None) or reference.digest
        if entry is None:
            own = cast(Architecture, self._architecture())
            return Image(reference=name, digest=pinned or resolve(reference, own).digest, architecture=own)
        return Image(
            reference=entry.reference or name,
            digest=pinned or resolve(reference, entry.architecture).digest,
            entry=entry.name,
            architecture=entry.architecture,
            accelerator=entry.accelerator,
            labels=entry.labels,
        )

    def _architecture(self) -> str:
        """Return the target's architecture, for a reference that may stand for images of several."""
        done = self.store.transport.run("uname -m")
        return architecture(done.stdout.strip() if done.returncode == 0 else None)

    def look(self, image: Image, runtime: RuntimeName) -> bool:
        """Tell whether a pinned image is on the target; nothing is changed."""
        own = pin(image).scheme != "file"
        return self.store.has(argument(image, runtime, self.store.images), runtime, own=own)

    def present(self, image: Image, wish: Wish) -> Listing:
        """Bring a pinned image to the target by pulling or building it, unless it is there, and check it."""
        made = False
        if not self.look(image, wish.runtime):
            scheme = pin(image).scheme
            if scheme == "file":
                raise TargetError(f"the image {image.reference} not found")
            if scheme == "build":
                self._build(image, wish)
                made = True
        if pin(image).scheme in ("docker", "oras", "library"):
            pulled = self.store.pull(image, wish.runtime, holder=wish.holder, compression=wish.arguments(image))
            made = pulled.pulled
        return replace(self.store.check(image, wish.runtime, wish.keys), pulled=made)

    def absent(self, image: Image, runtime: RuntimeName) -> bool:
        """Remove a pinned image from the target, unless a job needs it; return whether it was there."""
        if pin(image).scheme == "file":
            raise InputError(f"the image {image.reference} is a file of its own, which was not brought here: it stays")
        return self.store.remove(argument(image, runtime, self.store.images), runtime)

    def _build(self, image: Image, wish: Wish) -> None:
        name = parse(image.reference).repository
        definition = definition_for(name, self.catalogue, wish.microarchitecture, self.recipes)
        if definition.digest != image.digest:
            raise InputError(
                f"the image '{name}' with the digest {image.digest} is not on {self.target.name} and cannot be made "
                f"again: its recipe or its base has changed since and gives {definition.digest}",
                hint="make the Plan again",
            )
        with tempfile.TemporaryDirectory(prefix="modak-image-") as folder:
            build = make_build(
                definition,
                self.target.model_copy(update={"images": self.store.images}),
                Path(folder),
                runtime=wish.runtime,
                compression=wish.packing(image),
                job=self.job,
                wheels=not wish.network,
            )
            try:
                run_build(build, self.jobs, self.logs, timeout=wish.timeout, follow=self.follow)
            except (JobError, TargetError):
                # Others build the same image in the same job; whoever sees its end first tidies up.
                if not self.look(image, wish.runtime):
                    raise
