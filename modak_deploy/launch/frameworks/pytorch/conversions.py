"""Conversions of a module that are kept from run to run: looked for before one is made, and stored afterwards.

That one is this module's, its name tells; that it is right, the comparison of results tells, as for what was just made.
"""

import functools
import importlib.metadata
from typing import Any, Callable, Iterator, List, Optional, Sequence, Set, Tuple, TypeVar

from ... import clock
from ...handlers import let_through
from ...session import Session
from ...trials import sentence
from .identity import Identity, program_digest

WORTH = 512 << 20
"""Bytes of weights up to which conversions are kept: larger ones fill the store, and take long to be read."""
Returned = TypeVar("Returned")


class Gone(LookupError):
    """What was counted on is no longer there."""


def version(*names: str) -> str:
    """Return the version of the first distribution of these names that is installed; empty where none is."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


class Conversions:
    """The conversions of one module, whatever levers make them."""

    def __init__(self, session: Session, torch: Any, label: str) -> None:
        self._record = session.record
        self._torch = torch
        self._label = label
        self._store = session.store
        self._reads = True
        """Whether what is there may be used: not once it was wrong."""
        self._identity: Optional[Identity] = None
        """That of the program's module, since its weights are watched."""
        self._taken = 0.0
        self._promised: List[Tuple[Any, Any]] = []
        """Searches that count on what is there, and the levers that are made of it."""

    def _guarded(self, function: Callable[[], Returned]) -> Optional[Returned]:
        """Return what a function returns; None, and nothing is kept any more, where it fails."""
        try:
            return function() if self._store is not None else None
        except Exception as error:  # whatever a module of the program's holds
            let_through(error)
            self._store = None
            self._record.add("no_cache", of=self._label, reason=sentence(error))
            return None

    def forget(self) -> None:
        """Forget what the module was: its weights have changed."""
        self._identity = None

    def held(self, root: Any, levers: Sequence[Any], form: Any, watch: Callable[[], None]) -> Set[str]:
        """Return the names of the levers that have a conversion of the module for such calls.

        The weights are read only where something was kept that differs in nothing but, perhaps, their values; ``watch``
        has them watched from then on.
        """
        if self._store is None:
            return set()
        start = clock.now()
        held = self._guarded(functools.partial(self._held, root, levers, form, watch)) or set()
        self._taken = clock.now() - start
        return held

    def _held(self, root: Any, levers: Sequence[Any], form: Any, watch: Callable[[], None]) -> Set[str]:
        kinds = {lever.name: lever.content_kind(self._torch) for lever in levers}
        kinds = {name: kind for name, kind in kinds.items() if kind is not None}
        if self._store is None or not kinds:
            return set()
        if sum(weight.numel() * weight.element_size() for weight in root.parameters()) > WORTH:
            self._store = None
            return set()
        # Made now, though nothing may be there yet: later the program may have imported more.
        identity, names = self._fresh(root), self._store.names() if self._reads else []
        starts = {name.partition("-")[0] for name in names}
        kinds = {name: kind for name, kind in kinds.items() if identity.prefix(kind, form) in starts}
        if not kinds:
            return set()
        watch()
        self._identity = identity
        return {name for name, kind in kinds.items() if identity.name(kind, form) in names}

    def _fresh(self, module: Any) -> Identity:
        return Identity(self._torch, module, program_digest())

    def promise(self, search: Any, levers: Sequence[Any]) -> None:
        """Note that a search counts on what is there for these levers, and pays for what it took to look."""
        if self._taken:
            search.ledger.charge(self._taken)
        if levers:
            self._promised.append((search, levers))

    def broken(self) -> Iterator[Tuple[Any, Any]]:
        """Yield the searches and levers that can no longer count on what is there."""
        promised, self._promised = self._promised, []
        yield from promised

    def shelf(self, lever: Any, module: Any) -> Optional["Shelf"]:
        """Return where a lever's conversions of a module's copy are kept; None where none are."""
        kind = lever.content_kind(self._torch) if self._store is not None else None
        return None if kind is None else Shelf(self, kind, module, lever.name)

    # for shelves

    def find(self, kind: Tuple[str, ...], form: Any, module: Any, lever: str) -> Optional[Tuple[str, bytes]]:
        """Return a conversion with its name; Gone where a search counts on it and it is not there."""
        pair = self._guarded(functools.partial(self._find, kind, form, module))
        if pair is None and any(lever in [other.name for other in levers] for _, levers in self._promised):
            raise Gone("what was kept of it is no longer there")
        if pair is not None:
            self._record.add("cached", of=self._label, lever=lever, size=len(pair[1]))
        return pair

    def _find(self, kind: Tuple[str, ...], form: Any, module: Any) -> Optional[Tuple[str, bytes]]:
        if self._store is None or not self._reads:
            return None
        identity = self._identity or self._fresh(module)
        start = identity.prefix(kind, form)
        if not any(name.startswith(start) for name in self._store.names()):  # then no weight is read
            return None
        self._identity = identity
        name = identity.name(kind, form)
        data = self._store.get(name)
        return None if data is None else (name, data)

    def keep(self, kind: Tuple[str, ...], form: Any, module: Any, data: bytes) -> None:
        """Keep a conversion of a module as it is now: nobody may have watched it before."""
        self._guarded(functools.partial(self._keep, kind, form, module, data))

    def _keep(self, kind: Tuple[str, ...], form: Any, module: Any, data: bytes) -> None:
        if self._store is not None:
            self._store.put(self._fresh(module).name(kind, form), data)

    def sound(self, names: Sequence[str]) -> None:
        """Note that results of what was read agree."""
        if self._store is not None:
            for name in names:
                self._store.agreed(name)

    def unsound(self, names: Sequence[str]) -> None:
        """Remove what was read and is wrong; nothing of this module is read any more."""
        self._reads = False
        if self._store is not None:
            for name in names:
                self._store.remove(name)

    def remove(self, kind: Tuple[str, ...], forms: Sequence[Any], module: Any) -> None:
        """Remove what this run has kept, as its results are wrong."""
        self._guarded(functools.partial(self._remove, kind, forms, module))

    def _remove(self, kind: Tuple[str, ...], forms: Sequence[Any], module: Any) -> None:
        if self._store is not None:
            identity = self._fresh(module)
            for form in forms:
                self._store.remove(identity.name(kind, form))


class Shelf:
    """The conversions of one lever."""

    def __init__(self, conversions: Conversions, kind: Tuple[str, ...], module: Any, lever: str) -> None:
        self._conversions = conversions
        self._kind = kind
        self._module = module
        self._lever = lever
        self._unproved: List[str] = []
        """Names of what was read and not compared so far."""
        self._gone = False

    def find(self, form: Any) -> Optional[bytes]:
        """Return what an earlier run has kept for calls of a form."""
        try:
            pair = self._conversions.find(self._kind, form, self._module, self._lever)
        except Gone:
            self._gone = True
            raise
        if pair is None:
            return None
        self._unproved.append(pair[0])
        return pair[1]

    def keep(self, form: Any, data: bytes) -> None:
        """Keep what was made for calls of a form."""
        self._conversions.keep(self._kind, form, self._module, data)

    def judged(self, sound: bool, forms: Sequence[Any]) -> bool:
        """Take whether results agree; return whether they come from what an earlier run kept, which is removed then."""
        names, gone = self._unproved, self._gone
        self._unproved, self._gone = [], False
        if sound:
            self._conversions.sound(names)
            return False
        if names or gone:
            self._conversions.unsound(names)
            return True
        self._conversions.remove(self._kind, forms, self._module)
        return False
