"""The files of the user's that travel to the target."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from modak.errors import InputError
from modak.model.application import Application
from modak.model.execution import Source

LAUNCHERS = "launchers"
"""Folder beside the sources that the catalogue's launchers are put into."""
_CACHES = {"__pycache__"}
"""Folders that Python makes by itself: they would change a Plan without a change of anybody's."""


@dataclass(frozen=True)
class LocalSource:
    """A source and where it lies on the controller."""

    source: Source
    local: Path


def find_sources(application: Application, search: Sequence[Path]) -> list[LocalSource]:
    """Return the script and the inputs, folders file by file, sorted by their path below the working directory.

    A relative path is looked for in each folder of ``search`` in order. It keeps its folders below the working
    directory; one that is absolute or leaves its folder by ``..`` is placed there by its last name alone.

    InputError when a path is found nowhere (it lists the places), cannot be read, is no plain file or folder, is or
    holds a link that leads out of the folder, or when two different files have the same place.
    """
    named = [("application.script", application.script)] if application.script is not None else []
    named += [(f"application.inputs[{number}]", path) for number, path in enumerate(application.inputs)]
    found: dict[str, Path] = {}
    for place, path in named:
        for target, local in _files(place, path, search):
            if found.setdefault(target, local).resolve() != local.resolve():
                raise InputError(
                    f"{place}: {found[target]} and {local} would both become {target} in the working directory: "
                    "rename one of them"
                )
    return [LocalSource(_source(target, local), local) for target, local in sorted(found.items())]


def placed(path: str) -> PurePosixPath:
    """Return where a script or input lies below the working directory."""
    pure = PurePosixPath(os.path.normpath(path))
    return PurePosixPath(pure.name) if pure.is_absolute() or ".." in pure.parts else pure


def _files(place: str, path: str, search: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    target = placed(path)
    if not target.name:
        raise InputError(f"{place}: '{path}' is the whole folder: name the files and folders in it that are needed")
    if target.parts[0] == LAUNCHERS:
        raise InputError(f"{place}: '{target}' lies in '{LAUNCHERS}', which modak uses itself: name it otherwise")
    local = _look_up(place, path, search)
    if local.is_dir():
        if place == "application.script":
            raise InputError(f"{place}: {local} is a folder, not a script")
        files = [(str(target / below), file) for below, file in _walk(place, local, local.resolve(), ())]
        if not files:
            raise InputError(f"{place}: the folder {local} holds no file")
        yield from files
    else:
        yield str(target), local


def _look_up(place: str, path: str, search: Sequence[Path]) -> Path:
    tried = [Path(path)] if Path(path).is_absolute() else [folder / path for folder in search]
    for candidate in dict.fromkeys(tried):
        if candidate.exists():
            return candidate
        if candidate.is_symlink():
            raise InputError(f"{place}: {candidate} is a link to {candidate.readlink()}, which does not exist")
    where = ", ".join(str(candidate.parent) for candidate in dict.fromkeys(tried)) or "no folder at all"
    raise InputError(f"{place}: there is no '{path}'; looked in {where}")


def _walk(place: str, folder: Path, top: Path, parents: tuple[Path, ...]) -> Iterator[tuple[PurePosixPath, Path]]:
    """Yield the path below ``folder`` and the file for each file, in sorted order."""
    real = folder.resolve()
    if real in parents:
        raise InputError(f"{place}: the link {folder} leads back to a folder that holds it")
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{place}: {folder} cannot be read: {error.strerror}") from None
    for entry in entries:
        if entry.is_symlink() and not entry.exists():
            raise InputError(f"{place}: {entry} is a link to {entry.readlink()}, which does not exist")
        if not entry.resolve().is_relative_to(top):
            raise InputError(f"{place}: {entry} is a link that leads out of the folder: put the file itself there")
        if not entry.is_dir():
            yield PurePosixPath(entry.name), entry
        elif entry.name not in _CACHES:
            for below, file in _walk(place, entry, top, (*parents, real)):
                yield entry.name / below, file


def _source(target: str, local: Path) -> Source:
    try:
        # A pipe or device would be read for ever.
        if not local.is_file():
            raise InputError(f"{local} is neither a file nor a folder")
        status = local.stat()
        with local.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Source(path=target, sha256=digest, size=status.st_size, executable=bool(status.st_mode & 0o100))
    except OSError as error:
        raise InputError(f"{local} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise InputError(f"{str(local)!r}: the file's name is no line of UTF-8 text: rename it") from None
