"""What the catalogue's commands print and write."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.catalogue.catalogue import KINDS, Catalogue, load_catalogue, sources_of
from modak_deploy.catalogue.checking import check_images, check_instances
from modak_deploy.catalogue.instances import InstanceEntry
from modak_deploy.catalogue.lever import Lever, LeverFile
from modak_deploy.documents import check, read_document
from modak_deploy.errors import InputError
from modak_deploy.model.image import ImageEntry
from modak_deploy.util.files import write_atomically
from modak_deploy.util.text import did_you_mean
from modak_deploy.util.units import gib


def rows(catalogue: Catalogue, kind: str | None, framework: str | None) -> Iterator[tuple[str, ...]]:
    """Yield (kind, name, description) in columns."""
    matches: list[tuple[str, str, str]] = []
    for name, entries in _kinds(catalogue).items():
        if kind in (None, name):
            matches += [(name[:-1], entry, _about(value)) for entry, value in entries.items() if _is(value, framework)]
    width = max((len(name) for _, name, _ in matches), default=0)
    for what, name, about in matches:
        yield f"{what:<11}", f"{name:<{width}}", about


def _kinds(catalogue: Catalogue) -> Mapping[str, Mapping[str, Any]]:
    return {
        "levers": catalogue.levers,
        "images": catalogue.images,
        "accelerators": catalogue.accelerators,
        "processors": catalogue.processors,
        "workloads": catalogue.workloads,
        "instances": catalogue.instances,
    }


def _is(value: Any, framework: str | None) -> bool:
    return framework is None or (isinstance(value, ImageEntry) and value.framework == framework)


def _about(value: Any) -> str:
    if isinstance(value, Lever):
        return f"{value.group}: {value.summary}" + (" (changes numbers)" if value.numerics == "relaxed" else "")
    if isinstance(value, ImageEntry):
        return " ".join(part for part in (value.source, value.summary or "") if part)
    if isinstance(value, InstanceEntry):
        prices = ", ".join(f"{p.hourly:g} {p.currency}/h in {p.region} ({p.date})" for p in value.prices)
        return f"{value.provider}: {value.vcpus} vCPUs, {gib(value.memory)}: {prices}"
    return str(getattr(value, "source", ""))


def entry(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """Return the entries of this name by their kinds; InputError with the nearest name when there is none."""
    matches = {kind: entries[name] for kind, entries in _kinds(catalogue).items() if name in entries}
    if not matches:
        names = [other for entries in _kinds(catalogue).values() for other in entries]
        raise InputError(f"the catalogue has no entry '{name}'", hint=did_you_mean(name, names))
    return {kind: [value.model_dump(mode="json", exclude_defaults=True)] for kind, value in matches.items()}


def as_text(data: Mapping[str, Any]) -> str:
    """Return entries as YAML, as they would stand in a catalogue file."""
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120)


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a file of this kind."""
    module, _, name = KINDS[kind if kind in KINDS else "hardware"].partition(":")
    schema: dict[str, Any] = getattr(import_module(module), name).model_json_schema()
    return schema


def add_file(file: Path, folder: Path, *, replace: bool) -> list[Path]:
    """Copy a checked catalogue file and its launchers to ``folder``; nothing is written when anything is wrong."""
    if not file.is_file():
        raise InputError("file not found", source=file)
    source = sources_of(file)[0]
    existing = [folder] if folder.is_dir() else []
    if existing and (folder / file.name).exists():
        if not replace:
            raise InputError(f"{folder / file.name} already exists", hint="give --replace to replace it")
        existing = [path for path in sorted(folder.glob("*.yaml")) if path.name != file.name]
    catalogue = load_catalogue([*existing, file])
    check_images(catalogue)
    check_instances(catalogue)
    copies = {folder / file.name: file}
    if source.kind == "levers":
        document = read_document(file)
        levers = check(LeverFile, document.data, origin=str(file), locate=document.locate).levers
        beside = file.parent / "launchers"
        names = {lever.run.launcher for lever in levers if lever.run.launcher is not None}
        copies |= {folder / "launchers" / n: beside / n for n in sorted(names) if (beside / n).is_file()}
    try:
        for target, origin in copies.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, origin.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=folder) from None
    return list(copies)
