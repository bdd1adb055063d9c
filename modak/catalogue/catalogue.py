"""The catalogue: the shipped data, and what a site adds to it or puts in its place."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from modak.catalogue.lever import Group, Lever, LeverFile
from modak.documents import check, read_document
from modak.errors import InputError

DATA = Path(__file__).parent / "data"
Named = TypeVar("Named", Group, Lever)


class Catalogue:
    """Levers in their order, by name and by group."""

    def __init__(self, files: Sequence[tuple[Path, LeverFile]]) -> None:
        """Merge ``files``: a name in a later folder replaces the one before; twice in one folder is an error."""
        self.groups: dict[str, Group] = _merge((p, f.groups) for p, f in files)
        self.levers: dict[str, Lever] = _merge((p, f.levers) for p, f in files)
        self.packages: dict[str, list[str]] = {}
        for _, file in files:
            self.packages.update(file.packages)
        self.launchers: dict[str, Path] = {}
        """The files on this machine, by the name that levers use."""
        self._check({lever.name: path for path, file in files for lever in file.levers})
        self.by_group: dict[str, list[Lever]] = {name: [] for name in self.groups}
        for lever in self.levers.values():
            self.by_group[lever.group].append(lever)
        self.version: str = self._digest()

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
            if lever.default and defaults.setdefault(lever.group, lever.name) != lever.name:
                first = defaults[lever.group]
                faults.append(f"{path}: the levers '{first}' and '{lever.name}' are both default of '{lever.group}'")
            if lever.launcher is not None:
                launcher = _launcher_path(lever.launcher, path.parent)
                if launcher is None:
                    what = f"the launcher '{lever.launcher}' of '{lever.name}' lies in no launchers folder"
                    faults.append(f"{path}: {what}")
                else:
                    self.launchers[lever.launcher] = launcher
        if faults:
            raise InputError("\n".join(faults))

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for item in (*self.groups.values(), *self.levers.values()):
            digest.update(item.model_dump_json().encode())
        for name, path in sorted(self.launchers.items()):
            digest.update(name.encode() + path.read_bytes())
        digest.update(repr(sorted(self.packages.items())).encode())
        return digest.hexdigest()


def _launcher_path(name: str, folder: Path) -> Path | None:
    """Return the launcher's file beside ``folder`` or in the shipped catalogue; None when there is none."""
    places = (place / "launchers" / name for place in (folder, DATA))
    return next((path for path in places if path.is_file()), None)


def _merge(lists: Iterable[tuple[Path, Sequence[Named]]]) -> dict[str, Named]:
    merged: dict[str, Named] = {}
    origin: dict[str, Path] = {}
    for path, items in lists:
        for item in items:
            before = origin.get(item.name)
            if before is not None and before.parent == path.parent:
                raise InputError(f"{path}: the name '{item.name}' is given twice, first in {before}")
            merged[item.name] = item
            origin[item.name] = path
    return merged


def load_catalogue(folders: Sequence[Path] = ()) -> Catalogue:
    """Return the shipped catalogue with the site's ``folders`` on top; InputError names file, line and fault."""
    if not folders:
        return _shipped()
    return Catalogue([*_read(DATA), *(file for folder in folders for file in _read(folder))])


@cache
def _shipped() -> Catalogue:
    return Catalogue(_read(DATA))


def _read(folder: Path) -> list[tuple[Path, LeverFile]]:
    if not folder.is_dir():
        raise InputError(f"{folder}: the catalogue folder does not exist")
    return [(path, _read_file(path)) for path in sorted(folder.glob("levers*.yaml"))]


def _read_file(path: Path) -> LeverFile:
    document = read_document(path)
    return check(LeverFile, document.data, origin=str(path), locate=document.locate)
