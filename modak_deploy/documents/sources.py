"""The files of the user's that travel to the target."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from modak_deploy.diagnostics import Location
from modak_deploy.documents.objectcopies import copied, folder_of
from modak_deploy.errors import InputError
from modak_deploy.model.application import Application
from modak_deploy.model.execution import Source
from modak_deploy.paths import expanded
from modak_deploy.util.files import exists, is_folder

LAUNCHERS = "launchers"
"""Folder beside the sources that the catalogue's launchers are put into."""
_SCRIPT: Location = ("application", "script")
_CACHES = {"__pycache__"}
"""Folders that Python makes by itself: they would change a Plan without a change of anybody's."""


def folders(search: Sequence[Path], documents: Sequence[Path]) -> list[Path]:
    """Return where relative paths are looked for: as given, beside the documents, the last first, and here."""
    paths = [*search, *(document.parent for document in reversed(documents)), Path()]
    return list(dict.fromkeys(expanded(folder).absolute() for folder in paths))


@dataclass(frozen=True)
class LocalSource:
    """A source and where it lies on the controller."""

    source: Source
    local: Path


def find_sources(application: Application, search: Sequence[Path]) -> list[LocalSource]:
    """Return the script and the inputs, folders file by file, sorted by their path below the working directory.

    Objects that are inputs are among them, as the copies that ``modak_deploy.objects`` fetched.

    A relative path is looked for in each folder of ``search`` in order. It keeps its folders below the working
    directory; one that is absolute or leaves its folder by ``..`` is placed there by its last name alone.

    InputError when a path is not found (it lists the folders), cannot be read, is not a plain file or folder, is or
    contains a link that leads out of the folder, or when two different files have the same path on the target.
    """
    local_files: dict[str, Path] = {}
    keys: dict[str, Location] = {}
    for key, target, local in _all_files(application, search):
        keys.setdefault(target, key)
        other = local_files.setdefault(target, local)
        if other.resolve() != local.resolve():
            text = f"{other} and {local} would both become {target} in the working directory"
            raise InputError(text, key=key, hint="rename one of them")
    return [LocalSource(_source(keys[target], target, local), local) for target, local in sorted(local_files.items())]


def files_read(application: Application, search: Sequence[Path]) -> list[Path]:
    """Return where the files of ``find_sources`` lie; as that one does, InputError for what is not found."""
    return [local for _, _, local in _all_files(application, search)]


def _all_files(application: Application, search: Sequence[Path]) -> Iterator[tuple[Location, str, Path]]:
    paths: list[tuple[Location, str]] = [(("application", "inputs", n), p) for n, p in enumerate(application.inputs)]
    if application.script is not None:
        paths.insert(0, (_SCRIPT, application.script))
    for key, path in paths:
        for target, local in _files(key, path, search):
            yield key, target, local
    yield from _objects(application)


def _objects(application: Application) -> Iterator[tuple[Location, str, Path]]:
    """Yield the copies of the objects that are inputs; InputError for one that was not fetched."""
    objects = application.objects
    if objects is None:
        return
    for path, url in objects.inputs.items():
        key: Location = ("application", "objects", "inputs", path)
        if path.split("/")[0] == LAUNCHERS:
            text = f"'{path}' is in the folder '{LAUNCHERS}', which is reserved for modak"
            raise InputError(text, key=key, hint="rename it")
        record = copied(objects, url)
        if record is None:
            raise InputError(f"{url} was not fetched", key=key, hint="modak plan and modak deploy fetch it")
        yield key, path, folder_of(objects, url) / record.content


def target_path(path: str) -> PurePosixPath:
    """Return where a script or input lies below the working directory."""
    pure = PurePosixPath(os.path.normpath(path))
    return PurePosixPath(pure.name) if pure.is_absolute() or ".." in pure.parts else pure


def _files(key: Location, path: str, search: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    target = target_path(path)
    if not target.name:
        text = f"'{path}' is the whole folder"
        raise InputError(text, key=key, hint="name the files and folders in it that are needed")
    if target.parts[0] == LAUNCHERS:
        text = f"'{target}' is in the folder '{LAUNCHERS}', which is reserved for modak"
        raise InputError(text, key=key, hint="rename it")
    local = _look_up(key, path, search)
    if is_folder(local):
        if key == _SCRIPT:
            raise InputError(f"{local} is a folder, not a script", key=key)
        files = [(str(target / below), file) for below, file in _walk(key, local, local.resolve(), ())]
        if not files:
            raise InputError(f"the folder {local} contains no file", key=key)
        yield from files
    else:
        yield str(target), local


def _look_up(key: Location, path: str, search: Sequence[Path]) -> Path:
    tried = [Path(path)] if Path(path).is_absolute() else [folder / path for folder in search]
    for candidate in dict.fromkeys(tried):
        if exists(candidate):
            return candidate
        if candidate.is_symlink():
            raise InputError(_broken(candidate), key=key, code="file-not-found")
    folders = ", ".join(str(candidate.parent) for candidate in dict.fromkeys(tried)) or "no folder"
    raise InputError(f"'{path}' not found", key=key, hint=f"searched in {folders}", code="file-not-found")


def _broken(link: Path) -> str:
    return f"{link} is a link to {link.readlink()}, which does not exist"


def _walk(key: Location, folder: Path, top: Path, parents: tuple[Path, ...]) -> Iterator[tuple[PurePosixPath, Path]]:
    """Yield the path below ``folder`` and the file for each file, in sorted order."""
    real = folder.resolve()
    if real in parents:
        raise InputError(f"the link {folder} leads back to a folder that contains it", key=key)
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}", key=key, code="file-unreadable") from None
    for entry in entries:
        if entry.is_symlink() and not entry.exists():
            raise InputError(_broken(entry), key=key, code="file-not-found")
        if not entry.resolve().is_relative_to(top):
            text = f"{entry} is a link that leads out of the folder"
            raise InputError(text, key=key, hint="put the file itself there")
        if not entry.is_dir():
            yield PurePosixPath(entry.name), entry
        elif entry.name not in _CACHES:
            for below, file in _walk(key, entry, top, (*parents, real)):
                yield entry.name / below, file


def _source(key: Location, target: str, local: Path) -> Source:
    try:
        # A pipe or device would be read for ever.
        if not local.is_file():
            raise InputError(f"{local} is neither a file nor a folder", key=key)
        status = local.stat()
        with local.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Source(path=target, sha256=digest, size=status.st_size, executable=bool(status.st_mode & 0o100))
    except OSError as error:
        raise InputError(f"{local} cannot be read: {error.strerror}", key=key, code="file-unreadable") from None
    except ValidationError:
        text = f"{str(local)!r}: the file's name is not one line of UTF-8 text"
        raise InputError(text, key=key, hint="rename it") from None
