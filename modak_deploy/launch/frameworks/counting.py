"""Count outermost calls of functions and methods that are the program's units of work."""

import contextlib
import threading
import time
from typing import Any, Callable, Dict, Optional, Set

from ..frames import unseen
from ..progress import Progress
from ..session import Session

DESCRIBED = 2
"""The call that is looked at: what the first one does is often done once."""


class CallCounter:
    """Counts calls by name. What is called within a counted call, in this thread or by all, belongs to it."""

    def __init__(
        self,
        session: Session,
        prefix: str,
        *,
        whole_process: bool = False,
        wait: Optional[Callable[[Any], None]] = None,
    ) -> None:
        """``whole_process`` is for what spreads its own calls over threads: the outermost one of all counts.

        ``wait`` is for calls that return before their work is done: it takes the result, and waits for that of an
        earlier call. A unit's time is then the one since the last call.
        """
        self._session = session
        self._prefix = prefix
        self._wait = wait
        self._ends: Dict[str, float] = {}
        self._counters: Dict[str, Progress] = {}
        self._described: Set[str] = set()
        self._owners: Dict[str, int] = {}
        self._inside: Any = _Shared() if whole_process else threading.local()

    @property
    def inside(self) -> bool:
        """Tell whether a counted call is going on."""
        return getattr(self._inside, "name", None) is not None

    @unseen
    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        describe: Optional[Callable[[], Dict[str, Any]]] = None,
        owner: Any = None,
    ) -> Any:
        """Do a call, and count it where it ends well and is the outermost one.

        ``describe`` returns what the call consists of; it is asked once for each name, after the second call. Where
        functions of one name are counted together, it says nothing of them: ``owner`` tells them apart.
        """
        inside = self._inside
        if not self._session.active or getattr(inside, "name", None) is not None:
            return function(*args, **kwargs)
        inside.name = name
        start = time.perf_counter()
        try:
            result = function(*args, **kwargs)
            if self._wait is not None:
                self._wait(result)
        finally:
            inside.name = None
        self._count(name, start)
        if describe is not None:
            if self._owners.setdefault(name, id(owner)) != id(owner):
                self._forget(name)
            elif name not in self._described:
                self._describe(name, describe)
        return result

    def _forget(self, name: str) -> None:
        self._described.add(name)
        if name in self._counters:
            self._counters[name].features = {}

    def _describe(self, name: str, describe: Callable[[], Dict[str, Any]]) -> None:
        counter = self._counters.get(name)
        if counter is None or counter.count < DESCRIBED:
            return
        self._described.add(name)
        with contextlib.suppress(Exception):  # what cannot be described is not
            counter.features = describe()

    def _count(self, name: str, start: float) -> None:
        try:
            end = time.perf_counter()
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = self._session.counters.counter(self._prefix + ": " + name, "call")
            if self._wait is not None:
                start, self._ends[name] = self._ends.get(name, start), end
            counter.add(end, end - start)
            self._session.counters.tick(end)
        except Exception as error:  # the program's own call is done, and its result matters more
            self._session.active = False
            self._session.record.fallback("the counting of " + self._prefix, error)


class _Shared:
    """One name for all threads."""

    name = None
