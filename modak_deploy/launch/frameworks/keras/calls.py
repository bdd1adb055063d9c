"""Live trials of what Keras does once in each call of predict and evaluate, around their batches.

The batches are tried by themselves meanwhile, so that what a call takes is not compared as it is, but what it takes
beyond its batches: with that, and batches as the first compared call had them, a variant's time is put together.
"""

import dataclasses
import functools
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

from ...lever import Lever
from ...search import Search
from ...session import Session
from ...variants import RUN

METHODS = ("predict", "evaluate")
CACHED = "_use_cached_eval_dataset"
"""The argument by which fit has evaluate use a pipeline that it made before."""


class CallLever(Lever):
    """A lever that is switched between calls of predict and evaluate."""

    framework = "keras"
    versions = ">=3"
    live = True
    same_results = True

    def switch(self, on: bool) -> None:
        """Switch it on or off for the calls from now on."""
        raise NotImplementedError

    def uses(self) -> int:
        """Return how often something was made that it has an effect on, on or off."""
        raise NotImplementedError


class Calls:
    """The calls of all models of the process, one after the other."""

    def __init__(self, session: Session, version: str) -> None:
        self._session = session
        self._version = version
        self._levers: List[CallLever] = []
        self._search: Optional[Search] = None
        self._over = False
        self._busy = threading.Lock()
        self._owner: Optional[int] = None
        self._batches, self._computed = 0, 0.0
        self._usual: Optional[Tuple[int, float]] = None
        """Batches of the first compared call, and the seconds of one of them."""

    def batch(self, seconds: float, batches: int) -> None:
        """Count batches of the call that is being done."""
        if self._owner == threading.get_ident():
            self._batches += batches
            self._computed += seconds

    def do(self, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Do a call for the program; a call within another, or beside one, is a part of that one's time."""
        if self._over or not self._session.active or kwargs.get(CACHED) or not self._busy.acquire(blocking=False):
            return method(*args, **kwargs)
        self._owner = threading.get_ident()
        try:
            return self._done(method, args, kwargs)
        finally:
            self._owner = None
            self._busy.release()

    def _done(self, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        action = None if self._search is None else self._search.next()
        for lever in self._levers:
            lever.switch(action is not None and action.kind == RUN and lever in action.variant.levers)
        uses = sum(lever.uses() for lever in self._levers)
        self._batches, self._computed = 0, 0.0
        start = time.perf_counter()
        result = method(*args, **kwargs)
        beyond = time.perf_counter() - start - self._computed
        end = self._session.guarded("the trials of calls", self._ended)
        end(action, beyond, sum(lever.uses() for lever in self._levers) - uses)
        return result

    def _ended(self, action: Any, beyond: float, uses: int) -> None:
        if self._search is None:
            self._begin()
        elif uses and self._batches and action is not None:
            if self._usual is None:
                self._usual = (self._batches, self._computed / self._batches)
            batches, each = self._usual
            if action.kind != RUN:  # nothing is compared of what cannot change results
                self._stop("it cannot be compared")
                return
            self._search.report(action.variant, beyond * batches / self._batches + batches * each)

    def _begin(self) -> None:
        """Begin the trials after the first call, which traces."""
        session = self._session
        chosen = session.chosen("keras", self._version, lambda lever: isinstance(lever, CallLever))
        self._levers = session.offered("keras", self._version, _is_of_calls, lambda lever: _refusal(lever, chosen))
        if not self._levers or not self._batches:
            self._over = not self._levers
            return
        units = session.config.trials.units
        trials = dataclasses.replace(session.config.trials, units=units and max(1, units // self._batches))
        self._search = Search("keras: calls", self._levers, trials, session.record, seconds=0.0)
        session.follow(self._search)

    def _stop(self, reason: str) -> None:
        self._over = True
        for lever in self._levers:
            lever.switch(False)
        if self._search is not None:
            self._search.stop(reason)


def _is_of_calls(lever: Lever) -> bool:
    return isinstance(lever, CallLever)


def _refusal(lever: Lever, chosen: List[Lever]) -> Optional[str]:
    return "it is on" if lever in chosen else None


def follow(session: Session, keras: Any, version: str) -> Calls:
    """Have the calls of all models done by trials."""
    calls = Calls(session, version)
    for name in METHODS:
        _replace(keras, name, calls)
    return calls


def _replace(keras: Any, name: str, calls: Calls) -> None:
    own = getattr(keras.Model, name)

    @functools.wraps(own)
    def called(*args: Any, **kwargs: Any) -> Any:
        return calls.do(own, args, kwargs)

    setattr(keras.Model, name, called)
