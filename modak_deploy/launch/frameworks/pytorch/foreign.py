"""Calls of other sizes than those that trials are made with: they are done as the first trials' winner does them."""

from typing import Any, Callable, Dict, Optional

from ... import clock
from ...handlers import let_through
from ...search import Search
from ...session import Session
from ...trials import TriedCalls, sentence
from ...variants import DEFAULT, Variant
from ..settings import Settings
from . import arguments
from .once import first_size

BEYOND = 2
"""Times the largest call that was compared, from which another one is compared: positions in a sequence grow with it,
and what is computed of them is wrong from some length on."""


GROWING = 30
"""Calls in a row of which the first tensor has one size and the others have not, from which trials are given up that
need calls of one size, if there were hardly any."""
FEW = 5


class Sizes:
    """Says which of such calls are compared with the default's: the first, and when there are twice as many of them, or
    twice as large ones."""

    def __init__(self) -> None:
        self.over = False
        """Whether such calls are the program's own from now on."""
        self._count = 0
        self._next = 1
        self._largest = 0

    def due(self, size: int) -> bool:
        """Tell whether the next call is to be compared."""
        return self._count + 1 >= self._next or size > BEYOND * self._largest

    def done(self, size: int, compared: bool) -> None:
        """Count a call."""
        self._count += 1
        if compared:
            self._next, self._largest = 2 * self._count, max(self._largest, size)


class Foreign(TriedCalls):
    """The part of ``Inference`` that has to do with calls of other sizes."""

    _session: Session
    _torch: Any
    _settings: Settings
    _searches: Dict[Any, Search]
    _sizes: Sizes
    _given: Any
    unrepeatable: Optional[str] = None
    """Why calls are not done twice, where nothing else speaks against trials."""
    _label: str
    _first: Any = None
    """Size of the last such call's first tensor."""
    _alike = 0
    """Such calls in a row with that size."""

    def _run_foreign(self, impl: Callable[..., Any], args: Any, kwargs: Any, signature: Any) -> Any:
        """Do a call with arguments of another shape as the first search's winner does, if that compiles nothing."""
        first = first_size(self._torch, args, kwargs)
        self._alike = self._alike + 1 if first == self._first else 0
        self._first = first
        if self._alike >= GROWING and all(search.ledger.done < FEW for search in self._searches.values()):
            self._leave("what its calls are given grows from one to the next")
            return impl(*args, **kwargs)
        tried, search = next(iter(self._searches.items()), (None, None))
        if search is None or not search.settled or search.best == DEFAULT or search.best.expensive or self._sizes.over:
            return impl(*args, **kwargs)
        if not arguments.alike(signature, tried) or not self._current_weights():
            return impl(*args, **kwargs)
        variant, size = search.best, arguments.size_of(signature)
        compared = not variant.same_results and self._sizes.due(size)
        if compared:
            times = max(1.0, size / max(1, arguments.size_of(tried)))
            if not search.ledger.affordable(times * (search.usual or 0.0)):
                return impl(*args, **kwargs)
        self._sizes.done(size, compared)
        if compared:
            return self._compare_foreign(search, variant, impl, (args, kwargs))
        self._settings.follow(variant)
        failure: Optional[Exception] = None
        try:
            return self.ready(search, variant)((args, kwargs))
        except Exception as error:  # whatever a lever makes of the program's module
            failure = error
        finally:
            self._settings.rest()
        return self._instead(search, variant, failure, lambda call: impl(*call[0], **call[1]), (args, kwargs))

    def _compare_foreign(self, search: Search, variant: Variant, impl: Callable[..., Any], call: Any) -> Any:
        """Do such a call for the program, and once more with the winner to compare."""
        self.follow(DEFAULT)
        result = impl(*call[0], **call[1])
        start, self._given = clock.now(), call
        self.follow(variant)
        try:
            _, reason = self.compare(variant, result, self.ready(search, variant)(call))
        except Exception as error:  # whatever a lever makes of the program's module
            let_through(error)
            reason = sentence(error)
            self.recover()
        finally:
            self._given = ()
            self._settings.rest()
        search.ledger.charge(clock.now() - start)
        if reason is not None:
            self._sizes.over = True
            self._session.record.fallback("{} for calls of other sizes".format(variant.name), reason)
        return result

    def _leave(self, reason: str) -> None:
        """Leave the module to what is tried without doing a call twice."""
        self.unrepeatable = reason
        self._session.record.add("not_repeated", of=self._label, reason=reason)
        self.stop(reason)

    # what ``Inference`` does

    def stop(self, reason: str) -> None:
        """Use the module as it is from now on."""
        raise NotImplementedError

    def _current_weights(self) -> bool:
        """Tell whether copies may be used."""
        raise NotImplementedError
