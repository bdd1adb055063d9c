"""The catalogue: the shipped data, and what a site adds to it or puts in its place.

The models of hardware, instance types, workloads and sites are imported where such a file is read: most Plans read
none, and to make these 24 classes takes 3 % of a Plan's processor time.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from modak_deploy.catalogue.imagefile import ImageFile, ImageIndex
from modak_deploy.catalogue.lever import Group, Lever, LeverFile
from modak_deploy.catalogue.recipefiles import contents_beside
from modak_deploy.documents import check, read_document
from modak_deploy.errors import InputError
from modak_deploy.model.image import ImageEntry
from modak_deploy.util.files import is_file, is_folder, listed
from modak_deploy.util.text import close_match

if TYPE_CHECKING:
    from modak_deploy.catalogue.hardware import (
        AcceleratorEntry,
        HardwareFile,
        MicroarchitectureEntry,
        ProcessorEntry,
        WorkloadEntry,
    )
    from modak_deploy.catalogue.instances import InstanceEntry

DATA = Path(__file__).parent / "data"
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
KINDS: Mapping[str, str] = {
    "levers": "modak_deploy.catalogue.lever:LeverFile",
    "images": "modak_deploy.catalogue.imagefile:ImageFile",
    "hardware": "modak_deploy.catalogue.hardware:HardwareFile",
    "instances": "modak_deploy.catalogue.instances:InstanceFile",
    "workloads": "modak_deploy.catalogue.hardware:WorkloadFile",
    "sites": "modak_deploy.model.site:SiteFile",
}
"""The model of a YAML file of a catalogue folder, by how its name begins."""


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)
File = TypeVar("File", bound=BaseModel)


def base_fault(image: ImageEntry, images: Mapping[str, ImageEntry]) -> str | None:
    """Return what is wrong with the images that ``image`` is built on, one on the other."""
    current, below = image, {image.name}
    while current.base is not None:
        if current.base not in images:
            return f"the image '{current.name}' is built on '{current.base}', which no file describes"
        if current.base in below:
            return f"the image '{image.name}' is built on itself, by its base '{image.base}'"
        above, current = current, images[current.base]
        if above.architecture != current.architecture:
            what = f"the image '{above.name}' is for {above.architecture}"
            return f"{what}, and '{current.name}', which it is built on, for {current.architecture}"
        below.add(current.name)
    return None


@dataclass(frozen=True)
class Source:
    """One file of the catalogue, not yet taken apart."""

    path: Path
    kind: str
    content: bytes


class Catalogue:
    """Levers, images and hardware by name; each kind of file is read when it is first asked for."""

    def __init__(self, sources: Sequence[Source]) -> None:
        """Take ``sources`` in their order: a name in a later folder replaces the one before."""
        self.sources = sources

    def files(self, kind: str, model: type[File]) -> list[tuple[Path, File]]:
        """Return the files of a kind with their places, the shipped ones first."""
        return [(source.path, _read(source.path, model)) for source in self.sources if source.kind == kind]

    @cached_property
    def _levers(self) -> "Levers":
        return Levers(self.files("levers", LeverFile))

    @property
    def groups(self) -> Mapping[str, Group]:
        """Groups of levers."""
        return self._levers.groups

    @property
    def levers(self) -> Mapping[str, Lever]:
        """Levers in their order."""
        return self._levers.levers

    @property
    def by_group(self) -> Mapping[str, Sequence[Lever]]:
        """Levers by the name of their group."""
        return self._levers.by_group

    @property
    def launchers(self) -> Mapping[str, Path]:
        """Files on this machine, by the name that levers use."""
        return self._levers.launchers

    @property
    def packages(self) -> Mapping[str, Sequence[str]]:
        """Distributions that provide a package, by its name."""
        return self._levers.packages

    @cached_property
    def images(self) -> Mapping[str, ImageEntry]:
        """Images by name."""
        files = self.files("images", ImageFile)
        images: dict[str, ImageEntry] = merge((path, file.images) for path, file in files)
        if fault := next((fault for image in images.values() if (fault := base_fault(image, images))), None):
            raise InputError(fault)
        return images

    @cached_property
    def image_index(self) -> ImageIndex:
        """Images by the packages inside."""
        return ImageIndex(self.images.values(), self.packages)

    def nearest_image(self, name: str) -> str | None:
        """Return the name of an image that is nearly ``name``."""
        return close_match(name, self.images)

    @cached_property
    def _hardware(self) -> "list[tuple[Path, HardwareFile]]":
        from modak_deploy.catalogue.hardware import HardwareFile

        return self.files("hardware", HardwareFile)

    @cached_property
    def accelerators(self) -> "Mapping[str, AcceleratorEntry]":
        """Accelerators by name."""
        return merge((path, file.accelerators) for path, file in self._hardware)

    @cached_property
    def processors(self) -> "Mapping[str, ProcessorEntry]":
        """Processors by name."""
        return merge((path, file.processors) for path, file in self._hardware)

    @cached_property
    def microarchitectures(self) -> "Mapping[str, MicroarchitectureEntry]":
        """Operations per cycle, by archspec's name."""
        return merge((path, file.microarchitectures) for path, file in self._hardware)

    @cached_property
    def instances(self) -> "Mapping[str, InstanceEntry]":
        """Instance types of cloud providers by name."""
        from modak_deploy.catalogue.instances import InstanceFile

        return merge((path, file.instances) for path, file in self.files("instances", InstanceFile))

    @cached_property
    def workloads(self) -> "Mapping[str, WorkloadEntry]":
        """Well-known networks by name."""
        from modak_deploy.catalogue.hardware import WorkloadFile

        return merge((path, file.workloads) for path, file in self.files("workloads", WorkloadFile))

    @cached_property
    def version(self) -> str:
        """SHA-256 of all files that it was read from, with launchers and what images are made from."""
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(f"{source.kind} {len(source.content)}\n".encode() + source.content)
        for name, path in sorted(self.launchers.items()):
            digest.update(name.encode() + path.read_bytes())
        for name, content in contents_beside(source.path for source in self.sources):
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return digest.hexdigest()

    def check(self) -> None:
        """Read everything; InputError tells what is wrong."""
        from modak_deploy.model.site import SiteFile

        _ = (self.levers, self.image_index, self.accelerators, self.processors, self.microarchitectures, self.workloads)
        _ = self.instances
        self.files("sites", SiteFile)


class Levers:
    """Levers in their order, by name and by group; what they name is there."""

    def __init__(self, files: Sequence[tuple[Path, LeverFile]]) -> None:
        self.groups: dict[str, Group] = merge((p, f.groups) for p, f in files)
        self.levers: dict[str, Lever] = merge((p, f.levers) for p, f in files)
        self.packages: dict[str, list[str]] = {}
        for _, file in files:
            self.packages.update(file.packages)
        self.launchers: dict[str, Path] = {}
        self._check({lever.name: path for path, file in files for lever in file.levers})
        self.by_group: dict[str, list[Lever]] = {name: [] for name in self.groups}
        for lever in self.levers.values():
            self.by_group[lever.group].append(lever)

    def _check(self, origin: dict[str, Path]) -> None:
        faults: list[str] = []
        defaults: dict[str, str] = {}
        for lever in self.levers.values():
            path = origin[lever.name]
            if lever.group not in self.groups:
                faults.append(f"{path}: the lever '{lever.name}' names a group '{lever.group}' that no file describes")
            for other in lever.when.levers:
                if other not in self.levers:
                    faults.append(f"{path}: the lever '{lever.name}' needs a lever '{other}' that no file describes")
            for other in lever.conflicts:
                if other not in self.levers:
                    faults.append(f"{path}: the lever '{lever.name}' excludes a lever '{other}' that no file describes")
            if lever.default and defaults.setdefault(lever.group, lever.name) != lever.name:
                first = defaults[lever.group]
                faults.append(f"{path}: the levers '{first}' and '{lever.name}' are both default of '{lever.group}'")
            # tests/unit/catalogue holds the shipped ones to it: to import the launcher takes 3 % of a Plan's time.
            if lever.run.launch is not None and path.parent != DATA and lever.name not in _launched():
                faults.append(
                    f"{path}: the lever '{lever.name}' has 'launch', and modak_deploy/launch has no lever of this name"
                )
            if (name := lever.run.launcher) is not None:
                launcher = _launcher_path(name, path.parent)
                if launcher is None:
                    what = f"the launcher '{name}' of '{lever.name}' lies in no launchers folder"
                    faults.append(f"{path}: {what}")
                else:
                    self.launchers[name] = launcher
        if faults:
            raise InputError("\n".join(faults))


@cache
def _launched() -> frozenset[str]:
    """Return the names of the levers that work inside an application's interpreter."""
    from modak_deploy.launch.lever import all_levers

    return frozenset(lever.name for lever in all_levers())


def _launcher_path(name: str, folder: Path) -> Path | None:
    """Return the launcher's file beside ``folder`` or in the shipped catalogue; None when there is none."""
    paths = (entry_path / "launchers" / name for entry_path in (folder, DATA))
    return next((path for path in paths if path.is_file()), None)


def merge(lists: Iterable[tuple[Path, Sequence[Named]]]) -> dict[str, Named]:
    """Return the items by name: one of a later folder replaces the one before; InputError for two of one folder."""
    merged: dict[str, Named] = {}
    origin: dict[str, Path] = {}
    for path, items in lists:
        for item in items:
            before = origin.get(item.name)
            if before is not None and before.parent == path.parent:
                raise InputError(f"the name '{item.name}' is given twice, first in {before}", source=path)
            merged[item.name] = item
            origin[item.name] = path
    return merged


def load_catalogue(folders: Sequence[Path] = ()) -> Catalogue:
    """Return the shipped catalogue with the site's ``folders`` (or single files) on top.

    InputError names the file, line and fault of what is read now; the rest is checked when it is first asked for.
    """
    if not folders:
        return _shipped()
    catalogue = Catalogue([*sources_of(DATA), *(source for folder in folders for source in sources_of(folder))])
    catalogue.check()
    return catalogue


@cache
def _shipped() -> Catalogue:
    return Catalogue(sources_of(DATA))


def sources_of(path: Path) -> list[Source]:
    """Return the files of a catalogue folder, or the one file that ``path`` is."""
    if is_file(path):
        return [_source(path)]
    if not is_folder(path):
        raise InputError("catalogue folder or file not found", source=path)
    try:
        files = listed(path, "*.yaml")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path, code="file-unreadable") from None
    return [_source(file) for file in files]


def _source(path: Path) -> Source:
    kind = next((kind for kind in KINDS if path.name.startswith(kind)), None)
    if kind is None or path.suffix != ".yaml":
        raise InputError(
            "a catalogue file is named levers*.yaml, images*.yaml, hardware*.yaml, "
            "instances*.yaml, workloads*.yaml or sites*.yaml",
            source=path,
        )
    try:
        return Source(path, kind, path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from None


def _read(path: Path, model: type[File]) -> File:
    if path.parent == DATA:
        # What ships passes the checks of a document, as tests/unit/catalogue sees to: they take as long as the reading.
        with suppress(yaml.YAMLError, ValidationError):
            return model.model_validate(yaml.load(path.read_bytes(), _LOADER))  # noqa: S506 - the safe one
    document = read_document(path)
    return check(model, document.data, origin=str(path), locate=document.locate)
