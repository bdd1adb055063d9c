"""What a process of the job tells about itself: JSON lines in a file of its own, replaced as a whole."""

import functools
import json
import math
import os
import socket
import stat
import sys
import tempfile
import threading
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional, Tuple

from . import clock
from .files import open_file
from .handlers import let_through, suppressed

EVENTS = 400
"""Entries that are kept; later ones are counted only."""
LINE = 4000
"""Characters of an entry."""
WARNINGS = 20
"""Lines on standard error."""
SUFFIX = ".jsonl"
_replace = os.replace
"""As it was when the launcher started: the tests of a program may count how often it is called."""


def _kept_from_the_program(method: Callable[..., None]) -> Callable[..., None]:
    """Have nothing that goes wrong reach the program, which may have replaced what a record needs."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        with suppressed():
            method(*args, **kwargs)

    return call


class Record:
    """The entries of one process.

    The file holds the entries in their order, then the latest state of each counter. It is written to a temporary file
    beside it and renamed: whoever reads it, at whatever moment, sees whole lines. Without a folder nothing is written.
    """

    def __init__(self, folder: Optional[str] = None) -> None:
        self._folder = folder
        # In containers with PID namespaces of their own, several processes of a host have the same number.
        token = os.urandom(4).hex()
        self._name = "{}-{}-{}{}".format(_safe(socket.gethostname()), token, os.getpid(), SUFFIX)
        self._events: List[str] = []
        self._states: Dict[str, Dict[str, Any]] = {}
        self._left_out = 0
        self._warnings = 0
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._began = clock.wall()

    @property
    def path(self) -> Optional[str]:
        """Return the record's file."""
        return os.path.join(self._folder, self._name) if self._folder else None

    @property
    def empty(self) -> bool:
        """Tell whether there is nothing to write."""
        return not self._events and not self._states

    @_kept_from_the_program
    def add(self, event: str, **values: Any) -> None:
        """Append an entry; it reaches the disk at once."""
        if os.getpid() != self._owner:  # a fork, in which nobody may be left to give the lock back
            return
        with self._lock:
            if len(self._events) >= EVENTS:
                self._left_out += 1
                return
            entry = {"event": event, "time": round(clock.wall() - self._began, 3)}
            entry.update(values)
            self._events.append(_line(entry))
            self.write()

    @_kept_from_the_program
    def state(self, name: str, values: Dict[str, Any]) -> None:
        """Set the latest state of a counter; it reaches the disk with the next write."""
        with self._lock:
            self._states[name] = values

    @_kept_from_the_program
    def fallback(self, what: str, why: object) -> None:
        """Note that something is not used, with one line on standard error."""
        reason = " ".join(str(why).split())[:300] or type(why).__name__
        if os.getpid() != self._owner:
            return
        self.add("fallback", what=what, reason=reason)
        if self._warnings < WARNINGS:
            self._warnings += 1
            try:
                sys.stderr.write("modak: {} is not used: {}\n".format(what, reason))
            except (OSError, ValueError, AttributeError):  # a closed or missing standard error
                pass

    @_kept_from_the_program
    def write(self) -> None:
        """Replace the file; a full disk or a missing folder does not disturb the program."""
        path = self.path
        if path is None or self._folder is None or os.getpid() != self._owner:
            return
        with self._lock:
            temporary = None
            try:
                handle, temporary = self._temporary(self._folder)
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(self._text())
                _replace(temporary, path)
            except Exception as error:  # of the file system, or of what stands in the place of json
                if temporary is not None:
                    with suppressed():
                        os.unlink(temporary)
                let_through(error)

    @staticmethod
    def _temporary(folder: str) -> Tuple[int, str]:
        """Return a new file of the folder, which is made where it is not there."""
        try:
            return tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            return tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)

    def _text(self) -> str:
        lines = list(self._events)
        if self._left_out:
            lines.append(_line({"event": "left_out", "entries": self._left_out}))
        for name, values in self._states.items():
            entry = {"event": "state", "name": name}
            entry.update(values)
            lines.append(_line(entry))
        return "".join(line + "\n" for line in lines)


def unfinished(folder: Optional[str]) -> List[str]:
    """Return what earlier processes of this job were trying when they ended without a further word."""
    return [name for entries in _ended(folder) for name in _tried_last(entries)]


def events(folder: Optional[str], earlier: Collection[str] = ()) -> List[Dict[str, Any]]:
    """Return what processes that have ended have left in a folder, in other files than the ``earlier`` ones."""
    return [entry for entries in _ended(folder, earlier) for entry in entries if isinstance(entry, dict)]


def _ended(folder: Optional[str], earlier: Collection[str] = ()) -> Iterator[List[Any]]:
    try:
        files = sorted(set(os.listdir(folder)).difference(earlier)) if folder else []
    except OSError:
        return
    for file in files[:1000]:
        if not file.endswith(SUFFIX) or folder is None or _runs(file):
            continue
        path = os.path.join(folder, file)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):  # a pipe would be waited for
                continue
            with open_file(path, encoding="utf-8") as lines:
                yield [json.loads(line) for line in lines.read(EVENTS * LINE).splitlines()]
        except (OSError, ValueError, RecursionError):
            continue


def _runs(file: str) -> bool:
    """Tell whether the process that writes a record is on this machine and still there."""
    parts = file[: -len(SUFFIX)].rsplit("-", 2)
    if len(parts) < 3 or parts[0] != _safe(socket.gethostname()) or not parts[2].isdigit():
        return False
    try:
        os.kill(int(parts[2]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def _tried_last(events: List[Any]) -> List[str]:
    last = None
    making: Dict[str, Dict[str, Any]] = {}
    for event in events:
        if not isinstance(event, dict):
            continue
        if event.get("event") == "trying" and isinstance(event.get("lever"), str):
            last = event["lever"]
        elif event.get("event") in ("trial", "fallback", "deferred", "ready", "end", "settled"):
            last = None
        _follow_making(making, event)
    return [*([last] if last else []), *(entry["lever"] for entry in making.values())]


def _follow_making(making: Dict[str, Dict[str, Any]], event: Dict[str, Any]) -> None:
    """Note what an object's lever that is made in the background was when a process ended, whose memory it may share.

    Other levers are tried meanwhile, and the entries of those do not end it.
    """
    name, kind = str(event.get("of")), event.get("event")
    if kind == "making" and isinstance(event.get("lever"), str):
        making[name] = event
    elif kind == "end":
        making.clear()
    elif name in making:
        same = making[name]["lever"] == event.get("lever") or making[name].get("variant") == event.get("variant")
        if kind in ("made", "settled", "no_trials", "not_repeated") or (kind in ("trial", "not_tried") and same):
            del making[name]


def _line(entry: Dict[str, Any]) -> str:
    try:
        text = json.dumps(_finite(entry), allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError) as error:
        text = json.dumps({"event": str(entry.get("event"))[:80], "problem": str(error)[:200]})
    if len(text) > LINE:
        text = json.dumps({"event": str(entry.get("event"))[:80], "problem": "the entry is too long"})
    return text


def _finite(value: Any) -> Any:
    """Return the value with numbers that JSON lacks as text."""
    if isinstance(value, float):
        return float("{:.6g}".format(value)) if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:64] or "host"
