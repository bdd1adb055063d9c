"""An image of the catalogue that nobody has built yet: its file's place, and what the build script makes it by."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.recipe import recipes_of
from modak_deploy.images.build import make_build
from modak_deploy.images.define import define
from modak_deploy.model.plan import Plan, sha256_of

FOLDER = "modak-images"
"""Where built images lie where the site says no folder for them: beside the job."""
JOB_FOLDER = "/modak-job-folder"
"""Stands in a Plan for the folder that a stand-alone script is submitted from, which only the job knows."""
_BUILT = re.compile(r"private://(?P<entry>.+)-[0-9a-f]{16}\.sif")


@dataclass(frozen=True)
class BuiltImage:
    """The image, and all that a script needs to build it."""

    entry: str
    file: str
    """The file's name, which tells its content."""
    folder: str | None
    """The site's folder for images; None where it is FOLDER beside the job."""
    texts: Mapping[str, str]
    """The build's files by their relative paths: definitions, locks, the script."""
    arguments: Sequence[str]
    """Arguments of the script after the image folder."""

    @property
    def name(self) -> str:
        """The image as the document names it."""
        return f"private://{self.file}"

    @property
    def mark(self) -> str:
        """A line that none of the files has."""
        return f"modak-end-{sha256_of(dict(self.texts))[:16]}"


def built_image(plan: Plan, catalogue: Catalogue, folder: str | None) -> BuiltImage | None:
    """Return what the chosen image is built from; None where it is there already, or there is none.

    ``catalogue`` has the images that it is built on, too. The base is named by its tag, and the build asks the package
    index itself for wheels of the recorded hashes: a document is answered without any network.
    """
    image = plan.chosen.image
    if image is None or image.entry is None or not image.reference.startswith("build://"):
        return None
    definition = define(catalogue.images[image.entry], catalogue.images, recipes_of(catalogue))
    with TemporaryDirectory(prefix="modak-") as name:
        top = Path(name)
        # Any Singularity can read an image that is compressed by gzip.
        build = make_build(definition, plan.target, top, runtime=plan.chosen.runtime, compression="gzip", wheels=False)
        texts = {
            path.relative_to(top).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(top.rglob("*"))
            if path.is_file() and path.name != "Containerfile"
        }
    return BuiltImage(image.entry, f"{definition.stem}.sif", folder, texts, build.request.argv[3:])


def built_entry(text: str, catalogue: Catalogue) -> str | None:
    """Return the catalogue's entry that an earlier answer named by its file; None where ``text`` is no such name."""
    match = _BUILT.fullmatch(text)
    entry = catalogue.images.get(match["entry"]) if match else None
    return entry.name if entry is not None and entry.reference is None else None
