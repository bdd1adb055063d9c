"""Bundles on disk: written whole or not at all, and verified before anything of them is loaded."""

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from modak_deploy.documents.jsontext import parse_json
from modak_deploy.documents.validation import check
from modak_deploy.errors import InputError
from modak_deploy.onnx.graphs import external_files, inputs_of, opsets, outputs_of, parse_graph
from modak_deploy.onnx.manifest import LARGEST_GRAPH, LARGEST_MANIFEST, MANIFEST, FileEntry, Graph, Manifest, check_path
from modak_deploy.terminal import excerpt
from modak_deploy.util.text import plural

_BLOCK = 4 * 1024**2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest was read; ``read_graph`` and ``verify`` check the files."""

    folder: Path
    manifest: Manifest

    def path(self, entry: FileEntry) -> Path:
        """Return where a file is."""
        return self.folder / entry.path

    def verify(self) -> None:
        """Check every file: there, regular, of its size and hash, and each graph what the manifest says."""
        for model in self.manifest.models:
            self.read_graph(model.graph)
        if self.manifest.ensemble is not None:
            self.read_graph(self.manifest.ensemble)

    def read_graph(self, graph: Graph) -> bytes:
        """Return an ONNX file's bytes, after they and all external data were verified.

        Load these bytes, not the file: what was checked is what is loaded, whoever writes to the folder meanwhile.
        """
        origin = str(self.path(graph.file))
        data = self._checked(graph.file, keep=True)
        model = parse_graph(data, origin)
        base = PurePosixPath(graph.file.path).parent
        listed = {str(PurePosixPath(entry.path).relative_to(base)): entry for entry in graph.data}
        for location, least in external_files(model, origin).items():
            if (entry := listed.get(location)) is None:
                raise InputError(f"{origin}: external data: '{location}' is not in {MANIFEST}")
            if least > entry.size:
                raise InputError(f"{origin}: external data: '{location}' has {entry.size} bytes, {least} are required")
        for entry in graph.data:
            self._checked(entry)
        for what, said, actual in (
            ("inputs", graph.inputs, inputs_of(model, origin)),
            ("outputs", graph.outputs, outputs_of(model, origin)),
            ("opsets", graph.opsets, opsets(model, origin)),
        ):
            if said != actual:
                raise InputError(f"{origin}: {what}: differ from {MANIFEST}; write the bundle again")
        return data

    def _checked(self, entry: FileEntry, *, keep: bool = False) -> bytes:
        """Return the content if it is to be kept; InputError where size or hash is wrong."""
        path = self.path(entry)
        handle = _open_below(self.folder, entry.path)
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(handle).st_size
            if size != entry.size:
                raise InputError(f"{path}: has {plural(size, 'byte')}, {MANIFEST} says {entry.size}")
            sha, kept, length = hashlib.sha256(), bytearray(), 0
            while block := file.read(min(_BLOCK, entry.size - length + 1)):
                sha.update(block)
                length += len(block)
                if length > entry.size:
                    raise InputError(f"{path}: grows while it is read")
                if keep:
                    kept += block
        if sha.hexdigest() != entry.sha256:
            raise InputError(f"{path}: the SHA-256 is {sha.hexdigest()}, {MANIFEST} says {entry.sha256}")
        return bytes(kept)


def read_bundle(folder: Path) -> Bundle:
    """Return the bundle in ``folder``; its files are not verified yet. InputError names the file, key and problem."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InputError(f"{folder}: folder not found")
    try:
        handle = _open_below(folder, MANIFEST)
    except InputError as error:
        raise InputError(f"{error}; a bundle is a folder that 'modak convert' wrote") from None
    with os.fdopen(handle, "rb") as file:
        data = file.read(LARGEST_MANIFEST + 1)
    if len(data) > LARGEST_MANIFEST:
        raise InputError(f"{path}: the file is larger than {LARGEST_MANIFEST // 1024**2} MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text") from None
    return Bundle(folder, check(Manifest, parse_json(text, str(path)), origin=str(path)))


def describe_file(folder: Path, path: str) -> FileEntry:
    """Return the manifest's entry for a file below ``folder``."""
    with os.fdopen(_open_below(folder, path), "rb") as file:
        sha = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(path=path, size=os.fstat(file.fileno()).st_size, sha256=sha)


def describe_graph(folder: Path, path: str) -> Graph:
    """Return the manifest's entry for the ONNX file ``path`` below ``folder``, with its external data."""
    origin = str(folder / path)
    entry = describe_file(folder, path)
    if entry.size > LARGEST_GRAPH:
        raise InputError(f"{origin}: an ONNX file is smaller than 2 GiB; save it with external data")
    with os.fdopen(_open_below(folder, path), "rb") as file:
        model = parse_graph(file.read(), origin)
    base = PurePosixPath(path).parent
    data = [describe_file(folder, str(base / location)) for location in sorted(external_files(model, origin))]
    return check(
        Graph,
        {
            "file": entry.model_dump(),
            "data": [file.model_dump() for file in data],
            "ir_version": model.ir_version,
            "opsets": opsets(model, origin),
            "inputs": [tensor.model_dump() for tensor in inputs_of(model, origin)],
            "outputs": [tensor.model_dump() for tensor in outputs_of(model, origin)],
        },
        origin=origin,
    )


def write_bundle(folder: Path, fill: Callable[[Path], Manifest], *, replace: bool = False) -> Bundle:
    """Make a bundle: ``fill`` writes the files into an empty folder and returns the manifest.

    The folder appears with all of its files, verified and synced, or not at all. An existing bundle is replaced only
    with ``replace``, and what is no bundle never.
    """
    if folder.exists() or folder.is_symlink():
        if not replace:
            raise InputError(f"{folder}: exists; remove it or use --replace")
        if not (folder / MANIFEST).is_file() or folder.is_symlink():
            raise InputError(f"{folder}: exists and is not a bundle; it is not replaced")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(8)}")
    try:
        new.mkdir(mode=0o777)
        manifest = fill(new)
        (new / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
        read_bundle(new).verify()
        _sync(new)
        _replace_folder(new, folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Bundle(folder, manifest)


def copy_into(folder: Path, files: Mapping[str, Path]) -> None:
    """Copy files to their paths in a bundle that is being made."""
    for path, source in files.items():
        to = folder / check_path(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)


def _replace_folder(new: Path, folder: Path) -> None:
    old = None
    if folder.exists():
        # Two renames, for rename(2) replaces no folder that has files; a reader in between finds none, never a mixture.
        old = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(8)}.old")
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old is not None:
            old.rename(folder)
        raise
    _sync_path(folder.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _sync(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        _sync_path(path)


def _sync_path(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():  # some file systems do not sync folders
            raise
    finally:
        os.close(handle)


def _open_below(folder: Path, path: str) -> int:
    """Open a regular file below ``folder``; no part of ``path`` may be a symbolic link."""
    where = folder / path
    *parents, name = PurePosixPath(path).parts
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parents:
                inner = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
            handle = os.open(name, _FILE, dir_fd=at)
        finally:
            os.close(at)
    except FileNotFoundError:
        raise InputError(f"{where}: not found") from None
    except OSError as error:
        problem = "is or lies behind a symbolic link" if _is_linked(folder, path) else error.strerror or str(error)
        raise InputError(f"{excerpt(str(where))}: cannot be read: {problem}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{where}: is not a regular file")
    return handle


def _is_linked(folder: Path, path: str) -> bool:
    at = folder
    for part in PurePosixPath(path).parts:
        at = at / part
        if os.path.islink(at):  # noqa: PTH114 - Path.is_symlink fails in a folder of others
            return True
    return False
