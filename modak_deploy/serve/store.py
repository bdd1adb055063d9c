"""What the service keeps: the collections' entries, and scripts for as long as their links are valid."""

import json
import math
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.jobmodel.site import Sites, alike
from modak_deploy.serve.collections import BODIES, KEYS, disabled_from, infrastructure, script
from modak_deploy.util.files import write_atomically

_IDENTIFIER = re.compile(r"[0-9a-f]{16,64}", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.sh", re.ASCII)
_MOST = 10_000
"""Entries of one collection."""
_SWEEP = 60.0
"""Seconds between looks for scripts whose time is over."""


class Exists(Exception):
    """An entry is there already."""


class Store:
    """Entries and scripts in one private folder."""

    def __init__(self, folder: Path, sites: Sites, lifetime: int) -> None:
        """``sites`` are those of the service's own files; an entry of the same name replaces none of them."""
        self._folder, self._files, self._lifetime = folder, sites, lifetime
        self._lock = Lock()
        self._swept = 0.0
        try:
            for name in (*BODIES, "files"):
                (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
        except OSError as error:
            raise InputError(f"{folder} cannot be written: {error.strerror}") from None
        self._next = math.inf
        self._entries = {name: self._read(name) for name in BODIES}
        self._sites = self._combined()

    @property
    def sites(self) -> Sites:
        """The sites of the service's files, and those that were added."""
        if time.time() >= self._next:
            with self._lock:
                self._sites = self._combined()
        return self._sites

    def all(self, collection: str) -> list[dict[str, Any]]:
        """Return the entries of a collection."""
        return list(self._entries[collection].values())

    def entry(self, collection: str, identifier: str) -> dict[str, Any] | None:
        """Return an entry; container mappings and scaling models by ``opt_dsl_code`` as well."""
        entries = self._entries[collection]
        if identifier in entries:
            return entries[identifier]
        key = KEYS.get(collection)
        return next((entry for entry in entries.values() if key and entry.get(key) == identifier), None)

    def add(self, collection: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Keep an entry and return it with its id; Exists where it is there already."""
        with self._lock:
            entries = self._entries[collection]
            key = KEYS.get(collection)
            same = any(
                (key and old.get(key) == entry.get(key)) or _content(old) == dict(entry) for old in entries.values()
            )
            if same or (collection == "infrastructures" and self._is_own(entry["name"])):
                raise Exists
            if len(entries) >= _MOST:
                raise InputError(f"request: there are {_MOST} entries: no more are kept")
            made = {"id": secrets.token_hex(8), **entry}
            write_atomically(self._folder / collection / f"{made['id']}.json", json.dumps(made), mode=0o600)
            self._entries[collection] = {**entries, made["id"]: made}
            self._sites = self._combined()
            return made

    def keep(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Keep scripts, and return the path of each below the service's address; nobody can guess it."""
        self._sweep()
        key = secrets.token_hex(16)
        folder = self._folder / "files" / key
        folder.mkdir(mode=0o700)
        for name, text in texts.items():  # not synced: a lost one can be asked for again
            (folder / name).write_text(text, encoding="utf-8")
        return {name: f"files/{key}/{name}" for name in texts}

    def script(self, key: str, name: str) -> tuple[str, float] | None:
        """Return a script and when its link ends; None where there is none, or its time is over."""
        if not _IDENTIFIER.fullmatch(key) or not _FILE.fullmatch(name):
            return None
        folder = self._folder / "files" / key
        try:
            end = folder.stat().st_mtime + self._lifetime
            return ((folder / name).read_text(encoding="utf-8"), end) if end > time.time() else None
        except OSError:
            return None

    def _sweep(self) -> None:
        """Remove scripts whose links are no longer valid."""
        now = time.time()
        with self._lock:
            if now - self._swept < _SWEEP:
                return
            self._swept = now
        for folder in (self._folder / "files").iterdir():
            with suppress(OSError):  # no matter of whoever asks for a script now; the next look tries again
                if folder.is_dir() and folder.stat().st_mtime + self._lifetime < now:
                    for file in folder.iterdir():
                        file.unlink(missing_ok=True)
                    folder.rmdir()

    def _read(self, collection: str) -> dict[str, dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {}
        for file in sorted((self._folder / collection).glob("*.json")):
            try:
                # Earlier versions kept infinite numbers, which no answer can hold.
                entry = json.loads(file.read_text(encoding="utf-8"), parse_constant=str)
                entries[entry["id"]] = entry
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{file}: the entry cannot be read: {error}") from None
        return entries

    def _is_own(self, name: str) -> bool:
        """Tell whether a file of ``--site`` describes a site, in either of its forms."""
        own = [*self._files.sites_by_name, *(other for file in self._files.files for other in file.names())]
        return any(alike(name, other) for other in own)

    def _combined(self) -> Sites:
        """Return all sites as they are now, and note when the next of them is disabled."""
        now = time.time()
        times = {key: disabled_from(entry) for key, entry in self._entries["infrastructures"].items()}
        self._next = min((each for each in times.values() if each > now), default=math.inf)
        scripts = [script(key, entry) for key, entry in self._entries["scripts"].items()]
        added = {
            entry["name"]: (infrastructure(entry, enabled=times[key] > now), scripts)
            for key, entry in self._entries["infrastructures"].items()
            if not self._is_own(entry["name"])
        }
        own = {name: (site, [*theirs, *scripts]) for name, (site, theirs) in self._files.sites_by_name.items()}
        return Sites({**added, **own}, self._files.catalogue, files=self._files.files)


def _content(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "id"}
