"""Count outermost calls of functions and methods that are the program's units of work."""

import threading
from typing import Any, Callable, Dict, Optional, Set

from .. import clock
from ..frames import unseen
from ..handlers import suppressed
from ..progress import HEAD, Progress
from ..session import Session

DESCRIBED = 2
"""The call that is looked at: what the first one does is often done once."""
SHORT = 5e-4
"""Seconds of calls of which one is looked at: looking takes 0.01 ms, and some calls take no longer."""
MOST = 31
"""Calls at most that are not looked at, one after the other."""


class Pause:
    """How many of a function's calls are not looked at until the next one that is."""

    __slots__ = ("_span", "left", "looked", "noted", "of")

    def __init__(self, span: float = SHORT) -> None:
        """``span`` is how many seconds of calls have one that is looked at."""
        self._span = span
        self.left = self.of = self.looked = 0
        self.noted = False
        """Whether its counter knows it."""

    @property
    def passed(self) -> int:
        """Return the calls that were not looked at since one was."""
        return self.of - self.left

    def take(self) -> int:
        """Return the calls that were not looked at since one was; they are counted from now on, and the pause is over.

        Where several threads call at once, a few may be lost or counted twice.
        """
        passed = self.passed
        self.of = self.left = 0
        return passed

    def begin(self, seconds: float) -> None:
        """Begin anew after a call that was looked at; each takes so long."""
        self.looked += 1
        self.of = self.left = min(MOST, int(self._span / max(seconds, 1e-9))) if self.looked > HEAD else 0


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
        self._paces: Dict[str, Optional[Callable[[], Optional[float]]]] = {}
        self._owners: Dict[str, int] = {}
        self._inside: Any = _Shared() if whole_process else threading.local()

    @property
    def inside(self) -> bool:
        """Tell whether a counted call is going on."""
        return getattr(self._inside, "name", None) is not None

    def paced(self, name: str, pace: Callable[[], Optional[float]]) -> None:
        """Take what tells the seconds of a call from now on; of several functions of one name nothing does."""
        self._paces[name] = None if name in self._paces else pace
        if name in self._counters:
            self._counters[name].pace = self._paces[name]

    @unseen
    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        describe: Optional[Callable[[], Dict[str, Any]]] = None,
        owner: Any = None,
        pause: Optional[Pause] = None,
    ) -> Any:
        """Do a call, and count it where it ends well and is the outermost one.

        ``describe`` returns what the call consists of; it is asked once for each name, after the second call. Where
        functions of one name are counted together, it says nothing of them: ``owner`` tells them apart. ``pause`` tells
        how many calls before it were not looked at, where short ones are not.
        """
        inside = self._inside
        if not self._session.active or getattr(inside, "name", None) is not None:
            return function(*args, **kwargs)
        try:  # from here on: a handler for a signal may raise at any moment
            inside.name = name
            start = clock.now()
            result = function(*args, **kwargs)
            if self._wait is not None:
                self._wait(result)
        finally:
            inside.name = None
        self._count(name, start, pause)
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
        with suppressed():  # what cannot be described is not
            counter.features = describe()

    def _count(self, name: str, start: float, pause: Optional[Pause] = None) -> None:
        try:
            end = clock.now()
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = self._session.counters.counter(self._prefix + ": " + name, "call")
                counter.pace = self._paces.get(name)
            if self._wait is not None:
                start, self._ends[name] = self._ends.get(name, start), end
            units = 1 if pause is None else 1 + pause.take()
            # Without waiting, a call says how long those took that were not looked at.
            seconds = end - start if self._wait is not None else (end - start) * units
            counter.add(end, seconds, units)
            if pause is not None:
                pause.begin(seconds / units)
                if pause.of and not pause.noted:
                    pause.noted = True
                    counter.pauses.append(pause)
            self._session.counters.tick(end)
        except Exception as error:  # the program's own call is done, and its result matters more
            self._session.give_up(self._prefix, error)


class _Shared:
    """One name for all threads."""

    name = None
