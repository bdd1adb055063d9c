"""Blueprints as packages: a CSAR with all that a blueprint needs, or a folder of one's own to start from."""

import filecmp
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from modak_deploy import __version__
from modak_deploy.errors import InputError
from modak_deploy.outputs import check_output
from modak_deploy.tosca import library
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.operations import implementation_files
from modak_deploy.tosca.references import file_of
from modak_deploy.tosca.service import Service, inside, load
from modak_deploy.tosca.validate import validate

META = "TOSCA-Metadata/TOSCA.meta"
_DATE = (1980, 1, 1, 0, 0, 0)
"""The same for every file, so that the same blueprint gives the same package, byte for byte."""


def files_of(service: Service) -> list[Path]:
    """Return all files that a blueprint needs, itself and what is in folders included, in order."""
    needed = set(service.files)
    own = [matches.element for matches in service.types.own() if matches.element]
    relationships = service.root.below("topology_template", "relationship_templates")
    for holder in (*own, *service.templates().values(), *relationships):
        folder = holder.document.path.parent
        for interface in holder.below("interfaces"):
            for operation in interface.below("operations"):
                needed.update(_named(service, folder, operation))
        for artifact in holder.below("artifacts"):
            if name := file_of(artifact.value):
                needed.update(_below(inside(folder, name, service.folder)[0]))
    return sorted(needed)


def _named(service: Service, folder: Path, operation: SourceLocation) -> Iterator[Path]:
    for file in implementation_files(operation):
        yield from _below(inside(folder, str(file.value), service.folder)[0])


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (inner for inner in path.rglob("*") if inner.is_file() and "__pycache__" not in inner.parts)
    else:
        yield path


def write_csar(blueprint: Path, output: Path) -> list[str]:
    """Write a CSAR (a zip with TOSCA-Metadata) that holds a blueprint and all that it needs; return what is in it.

    InputError lists the blueprint's faults. The file comes into being whole, and an older one is replaced.
    """
    if faults := validate(blueprint):
        raise InputError("\n".join(map(str, faults)))
    service = load(blueprint)
    names = {path.relative_to(service.folder).as_posix(): path for path in files_of(service)}
    check_output(output, names.values())
    meta = (
        "TOSCA-Meta-File-Version: 1.1\n"
        "CSAR-Version: 1.1\n"
        f"Created-By: modak {__version__}\n"
        f"Entry-Definitions: {blueprint.name}\n"
    )
    partial = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(partial, "x", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_entry(META), meta)
            for name in sorted(names):
                archive.writestr(_entry(name), names[name].read_bytes())
        partial.replace(output)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return [META, *sorted(names)]


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    return entry


def shipped() -> dict[str, Path]:
    """Return the blueprints that come with modak, by name."""
    return {path.stem: path for path in sorted(library.folder().parent.glob("*.yaml"))}


def start_from(name: str, folder: Path) -> Path:
    """Copy a shipped blueprint with its files and the type library into ``folder``; return the blueprint's path there.

    InputError tells that there is no such blueprint, or that a file is in the way.
    """
    available = shipped()
    if name not in available:
        raise InputError(f"blueprint '{name}' not found: there are {', '.join(available)}")
    service = load(available[name])
    copies = {path: folder / path.relative_to(service.folder) for path in files_of(service)}
    copies |= {path: folder / path.relative_to(service.folder) for path in _below(library.folder())}
    for source, target in copies.items():
        try:
            is_free = not target.exists() or (target.is_file() and filecmp.cmp(source, target, shallow=False))
        except OSError as error:
            raise InputError(f"{target}: cannot be read: {error.strerror}") from None
        if not is_free:
            raise InputError(f"{target}: there is another file of this name", hint="choose an empty folder")
    for source, target in copies.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    return folder / available[name].name
