"""Calls that must not be done twice, as of a module with a cache: what is tried needs no comparison of results."""

from typing import Any, Callable, Dict, Optional

from ... import clock
from ...handlers import timed
from ...search import Search
from ...session import Session
from ...survey import search_for
from ...trials import SWITCHED
from ...variants import DEFAULT
from ..settings import Settings
from .kinds import Subject, TorchLever
from .offers import in_evaluation

FAMILIAR = 3
"""Calls of one size after which these are measured: a text that is continued word by word begins with a longer one."""
SIZES = 1000


class Once:
    """Trials of one module's calls, each of which is done once: with what changes no result, or is sound by itself.

    Calls of one size are measured, in turns; those of other sizes are done as the best so far does them.
    """

    def __init__(self, session: Session, torch: Any, subject: Subject, label: str, reason: str) -> None:
        """``reason`` is why calls are not repeated."""
        self._session = session
        self._torch = torch
        self._settings = Settings(torch)
        self._seen: Dict[Any, int] = {}
        self._size: Any = None
        """That of the calls that are measured."""
        self._search: Optional[Search] = None
        start = clock.now()
        levers, chosen = in_evaluation(session, subject, _refusal(subject, reason))
        if not levers and not chosen.levers:
            session.record.add("no_trials", of=label, reason=reason)
            return
        trials = session.config.trials
        self._search = search_for(label, levers, trials, session.record, checks=False, turns=True)
        session.follow(self._search)
        self._search.ledger.charge(clock.now() - start)
        if chosen.levers:
            self._search.fix(chosen)

    def stop(self, reason: str) -> None:
        """Have the module's calls as they are from now on."""
        if self._search is not None:
            self._search.stop(reason)
            self._search = None
        self._settings.follow(DEFAULT)

    @property
    def pace(self) -> Optional[float]:
        """Return the seconds of a call from now on, where trials know."""
        return None if self._search is None else self._search.pace

    def rests(self, seconds: float) -> Optional[float]:
        """Return what a call takes, where those after it need not be looked at; this one took ``seconds``."""
        search = self._search
        return seconds if search is None or (search.settled and search.best == DEFAULT) else None

    def call(self, impl: Callable[..., Any], args: Any, kwargs: Any, passed: int = 0) -> Any:
        """Do a call of the program's, after some that were not looked at."""
        if self._session.hands_off or self._session.trained:
            self.stop(self._session.hands_off or "the program trains")
        search = self._search
        if search is None:
            return impl(*args, **kwargs)
        if passed:
            search.rested(passed, search.ledger.default or 0.0)
        measured = self._is_measured(args, kwargs) and (search.settled or not timed())
        variant = search.next().variant if measured else search.best
        try:  # a handler for a signal may raise as soon as something is on
            before = clock.now()
            self._settings.follow(variant)
            start = clock.now()
            if start - before > SWITCHED:
                search.prepared(start - before)
            result = impl(*args, **kwargs)
            seconds = clock.now() - start
        finally:
            try:  # a handler may raise here as well
                self._rest(search)
            except BaseException:
                self._rest(search)
                raise
        if measured:
            search.report(variant, seconds)
        else:  # beside which no other one is known
            search.ledger.unseen(1, seconds, True)
        return result

    def _rest(self, search: Search) -> None:
        self._settings.rest()
        if self._search is not search:  # another thread has stopped it meanwhile
            self._settings.follow(DEFAULT)

    def _is_measured(self, args: Any, kwargs: Any) -> bool:
        size = first_size(self._torch, args, kwargs)
        if self._size is None and len(self._seen) < SIZES:
            self._seen[size] = self._seen.get(size, 0) + 1
            if self._seen[size] >= FAMILIAR:
                self._size = size
        return bool(self._size == size)


def first_size(torch: Any, args: Any, kwargs: Any) -> Any:
    """Return which arguments a call has, and the size of the first tensor: what is new in it, where others grow."""
    tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
    first = next(tensors, None)
    return None if first is None else tuple(first.shape), len(args), tuple(kwargs)


def _refusal(subject: Subject, reason: str) -> Callable[[TorchLever], Optional[str]]:
    def refusal(lever: TorchLever) -> Optional[str]:
        if lever.same_results:
            return None
        why = lever.unsound(subject)
        return None if why is None else "{}, and {}".format(why, reason)

    return refusal
