"""A bundle as a state: converted where it is missing or anything that it depends on has changed, else left alone."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_deploy import __version__
from modak_deploy.documents.validation import check
from modak_deploy.errors import InputError, ModakError
from modak_deploy.onnx.bundle import Bundle, read_bundle
from modak_deploy.onnx.convert import changed_source, convert, make_state, task_of
from modak_deploy.onnx.manifest import MANIFEST
from modak_deploy.onnx.request import ConversionRequest, DataFile, ModelRequest, load_request
from modak_deploy.paths import expanded
from modak_deploy.util.files import locked, write_atomically

_RECORD = "ensured"
_LOCK = ".ensuring"
"""A folder of its own beside those of the models: ``convert`` locks the one around it."""
_NOWHERE = Path("/nowhere")
"""Stands for the folder of a conversion in what is compared: where a bundle lies does not change it."""


@dataclass(frozen=True)
class Ensured:
    """What became of a bundle; ``bundle`` is None in check mode where it would be made."""

    bundle: Bundle | None
    changed: bool
    reason: str


def request_of(given: Path | Mapping[str, Any], folders: Sequence[Path]) -> ConversionRequest:
    """Return a request from a document, or from data, with all its files as absolute paths.

    Relative paths are looked for in the document's folder, then in ``folders``. InputError where one is nowhere.
    """
    if isinstance(given, Path):
        document = find(str(given), folders, "document")
        request, folders = load_request(document), [document.parent, *folders]
    else:
        request = check(ConversionRequest, dict(given), origin="request")
    models = [_located(model, folders) for model in request.models]
    return request.model_copy(update={"models": models})


def _located(model: ModelRequest, folders: Sequence[Path]) -> ModelRequest:
    changes: dict[str, Any] = {}
    for key in ("file", "code"):
        if (path := getattr(model, key)) is not None:
            changes[key] = str(find(path, folders, f"{model.name}: {key}"))
    for key in ("example", "test"):
        value = getattr(model, key)
        if isinstance(value, str):
            changes[key] = str(find(value, folders, f"{model.name}: {key}"))
        elif isinstance(value, DataFile):
            path = str(find(value.file, folders, f"{model.name}: {key}"))
            changes[key] = value.model_copy(update={"file": path})
    return model.model_copy(update=changes)


def find(path: str, folders: Sequence[Path], what: str) -> Path:
    """Return the first of ``folders`` that has ``path``, joined with it; InputError where none has."""
    given = expanded(path)
    for folder in folders if not given.is_absolute() else [Path()]:
        if (folder / given).exists():
            return (folder / given).absolute()
    where = ", ".join(str(folder) for folder in folders) if not given.is_absolute() else str(given.parent)
    raise InputError(f"{what}: '{path}': not found in {where}")


def fingerprint(request: ConversionRequest) -> str:
    """Return a digest of all that the bundle depends on: the request, and the content of its files."""
    sha = hashlib.sha256(f"{__version__}\n".encode())
    # Where files lie does not matter, what is in them does: the tasks have the digests, and the request the rest.
    contents = request.model_dump(mode="json", by_alias=True)
    for model, entry in zip(request.models, contents["models"], strict=True):
        task = task_of(request, model, Path("/"), _NOWHERE / model.name)
        for key in ("file", "code"):
            entry[key] = entry[key] and Path(entry[key]).name
        for key in ("example", "test"):
            if isinstance(entry[key], str):
                entry[key] = Path(entry[key]).name
            elif "file" in entry[key]:
                entry[key]["file"] = Path(entry[key]["file"]).name
        sha.update(repr(sorted(task.digests.values())).encode())
    sha.update(check(ConversionRequest, contents, origin="request").model_dump_json(by_alias=True).encode())
    return sha.hexdigest()


def ensure_bundle(
    request: ConversionRequest,
    folder: Path,
    *,
    check_mode: bool = False,
    force: bool = False,
    jobs: int = 1,
    report: Callable[[str], None] = lambda line: None,
) -> Ensured:
    """Have the bundle of a request in ``folder``; convert only where that is not what lies there.

    A play does this for each of its hosts at once: the first one converts, and the others wait and find it done.
    """
    wanted, names = fingerprint(request), [model.name for model in request.models]
    state = folder.absolute().with_name(f".{folder.name}.convert")
    reason = "it was asked for" if force else _reason(folder, state / _RECORD, wanted, names)
    if not reason:
        return Ensured(read_bundle(folder), changed=False, reason="")
    if folder.exists() and not (folder / MANIFEST).is_file():
        raise InputError(f"{folder}: exists and is not a bundle; it is not replaced")
    if check_mode:
        return Ensured(None, changed=True, reason=reason)
    make_state(state / _LOCK)
    with locked(state / _LOCK):
        if not force and not (reason := _reason(folder, state / _RECORD, wanted, names)):
            return Ensured(read_bundle(folder), changed=False, reason="")
        bundle = convert(request, folder, base=Path("/"), replace=folder.exists(), jobs=jobs, report=report)
        write_atomically(state / _RECORD, f"{wanted} {_digest(folder)}\n")
    return Ensured(bundle, changed=True, reason=reason)


def _reason(folder: Path, record: Path, wanted: str, names: Sequence[str]) -> str:
    """Return why the bundle of the models with these names must be made; empty where it is what is wanted, whole."""
    if not folder.exists():
        return "there is none"
    try:
        made, digest = record.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return "the record of how it was made was not found"
    try:
        read_bundle(folder).verify()
    except ModakError as error:
        return f"it is damaged: {error}"
    if digest != _digest(folder):
        return "its manifest was changed"
    if made != wanted:
        return "the request or one of its files has changed"
    changed = next((path for name in names if (path := changed_source(record.parent / name))), None)
    return f"{changed} has changed" if changed else ""


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def remove_bundle(folder: Path, *, check_mode: bool = False) -> bool:
    """Remove a bundle and what its conversion has kept beside it; return whether there was one."""
    state = folder.absolute().with_name(f".{folder.name}.convert")
    if folder.exists() and not (folder / MANIFEST).is_file():
        raise InputError(f"{folder}: is not a bundle; it is not removed")
    there = folder.exists() or state.exists()
    if there and not check_mode:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(state, ignore_errors=True)
    return there
