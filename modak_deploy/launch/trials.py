"""One call of the program's, done as the trials want it, whatever the framework."""

from typing import Any, Callable, List, Optional, Tuple, cast

from . import clock
from .handlers import let_through, raised, timed
from .parts import Part
from .search import Search
from .variants import CHECK, DEFAULT, PROBE, RUN, Action, Variant

LONGEST = 300
"""Characters of what is said of an error."""
INTERRUPTED = "a handler of the program's for a signal raised {} in the midst of it"
SWITCHED = 1e-3
"""Seconds from which on it is no matter of a moment to set the settings."""
SHORT = ("memory", "bad_alloc")
"""What libraries say in errors of their own where there is no memory."""


class TriedCalls:
    """What a framework's adapter says about the calls on which variants are tried."""

    checking = False
    """Whether a call is being done twice, and both times are wanted."""

    def ready(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        """Return what does a call in a variant's way; made ready first where it is not."""
        raise NotImplementedError

    def compare(self, variant: Variant, default: Any, result: Any) -> Tuple[Optional[float], Optional[str]]:
        """Return how far a result differs from the default's, and why it is not acceptable."""
        raise NotImplementedError

    def cut(self, call: Any, part: Part) -> Any:
        """Return a call with the first rows of its arguments, copied."""
        raise NotImplementedError

    def ready_part(self, search: Search, variant: Variant) -> Callable[[Any], Any]:
        """Return what does a call of other shapes in a variant's way, on a copy of the program's object."""
        return self.ready(search, variant)

    def compare_part(
        self, variant: Variant, default: Any, result: Any, part: Part
    ) -> Tuple[Optional[float], Optional[str]]:
        """Return how far a result on a part differs from the first rows of the default's, and why it does not fit."""
        raise NotImplementedError

    def unsound(self, variant: Variant, result: Any) -> Optional[str]:
        """Return what is wrong with a result as such, of a variant that was compared on a part only."""
        return None

    def warms(self, variant: Variant) -> bool:
        """Tell whether a variant's first call tells nothing of the next ones: it compiles, or loads kernels."""
        return variant.expensive

    def follow(self, variant: Variant) -> None:
        """Set the process's settings for a variant."""

    def now(self, search: Search) -> float:
        """Return the time, once the work begun is done."""
        return clock.now()

    def taken(self, search: Search, seconds: float) -> float:
        """Return what a unit took, by what was measured of it."""
        return seconds

    def judged(self, search: Search, variant: Variant, sound: bool) -> bool:
        """Take whether a variant's results agree; return whether it is to be made anew, as what was kept is wrong."""
        return False

    def recover(self) -> None:
        """Clean up after a variant that failed."""

    def _interrupted(self, search: Search, error: Exception, variant: Optional[Variant] = None) -> None:
        """Raise what a handler of the program's for a signal has raised, which a lever must not hide.

        A variant that is being tried is given up: it might be interrupted each time.
        """
        interruption = raised(error)
        if interruption is None:
            return
        self.follow(DEFAULT)
        if search.current != search.best:
            search.failed(INTERRUPTED.format(type(interruption).__name__), variant)
            self.recover()
        raise interruption

    def do(self, search: Search, action: Action, default: Callable[[Any], Any], call: Any) -> Any:
        """Do a call for the program and tell the search about it."""
        if timed() and not (search.settled and action == Action(RUN, search.best)):
            self.follow(DEFAULT)
            start = self.now(search)
            result = default(call)
            search.ledger.unit(self.now(search) - start, True)
            return result
        if action.kind == CHECK:
            return self._check(search, action.variant, default, call)
        if action.kind == PROBE:
            return self._probe(search, action.variant, default, call)
        start = self._turned_to(search, action.variant)
        failure: Optional[Exception] = None
        if action.variant == DEFAULT:
            result = default(call)
        else:
            try:
                function = self.ready(search, action.variant)
                start = self.now(search)
                result = function(call)
                if search.partly(action.variant):
                    start += self._inspected(search, action.variant, result)
            except Exception as error:  # whatever a lever makes of the program's objects
                failure = error
        if failure is not None:  # no longer handled: an exception of the program's own is no consequence of it
            result = self._instead(search, action.variant, failure, default, call)
        search.report(action.variant, self.taken(search, self.now(search) - start))
        return result

    def _instead(
        self, search: Search, variant: Variant, failure: Exception, default: Callable[[Any], Any], call: Any
    ) -> Any:
        """Do a call in the default's way that failed in a variant's, and give the variant up.

        Where the default fails as well, it is the call that is wrong. Only where memory is short, what the variant has
        goes first.
        """
        self.follow(DEFAULT)
        self._interrupted(search, failure, variant)
        short = isinstance(failure, MemoryError) or any(text in str(failure) for text in SHORT)
        result = None if short else default(call)
        search.failed(sentence(failure), variant)
        self.judged(search, variant, False)
        self.recover()
        return default(call) if short else result

    def _turned_to(self, search: Search, variant: Variant) -> float:
        """Set the process's settings for a variant, and return when that was done; what it took is booked."""
        before = self.now(search)
        self.follow(variant)
        start = self.now(search)
        if start - before > SWITCHED:
            search.prepared(start - before)
        return start

    def _inspected(self, search: Search, variant: Variant, result: Any) -> float:
        """Refuse a result that is wrong as such; return the time that this took, which is not the unit's."""
        start = self.now(search)
        problem = self.unsound(variant, result)
        seconds = self.now(search) - start
        search.ledger.charge(seconds)
        if problem is not None:
            raise WrongResult(problem)
        return seconds

    def _probe(self, search: Search, variant: Variant, default: Callable[[Any], Any], call: Any) -> Any:
        """Do the call with the default for the program, and its first rows with the variant, and compare these."""
        self.follow(DEFAULT)
        start = self.now(search)
        result = default(call)
        default_seconds = self.now(search) - start
        try:
            function = self.ready_part(search, variant)
        except Exception as error:  # whatever a lever makes of the program's objects
            self._interrupted(search, error)
            search.failed(sentence(error))
            self.recover()
            search.report(DEFAULT, default_seconds)
            return result
        times: List[float] = []
        difference: Optional[float] = None
        start = self.now(search)
        try:
            part = cast(Part, search.part)
            first = self.cut(call, part)
            before = self.now(search)
            start += self._turned_to(search, variant) - before
            other = self._timed(search, function, first, times)
            if search.ledger.affordable(2 * times[0]):  # the first call allocates, and reorders weights
                other = self._timed(search, function, first, times)
            self.follow(DEFAULT)
            difference, problem = self.compare_part(variant, result, other, part)
        except Exception as error:  # whatever a lever makes of the program's objects
            self._interrupted(search, error)
            problem = sentence(error)
            self.follow(DEFAULT)
            self.recover()
        search.ledger.charge(max(0.0, self.now(search) - start - sum(times)), default_seconds)
        search.probed(default_seconds, times, difference, problem)
        return result

    def _timed(self, search: Search, function: Callable[[Any], Any], call: Any, times: List[float]) -> Any:
        start = self.now(search)
        result = function(call)
        times.append(self.now(search) - start)
        return result

    def _check(self, search: Search, variant: Variant, default: Callable[[Any], Any], call: Any) -> Any:
        """Do the call twice, with the default for the program, and compare."""
        self.checking = True
        try:
            return self._checked(search, variant, default, call)
        finally:
            self.checking = False

    def _checked(self, search: Search, variant: Variant, default: Callable[[Any], Any], call: Any) -> Any:
        self.follow(DEFAULT)
        start = self.now(search)
        result = default(call)
        default_seconds = self.now(search) - start
        difference: Optional[float] = None
        start = self.now(search)
        try:
            function = self.ready(search, variant)
            start = self._turned_to(search, variant)
            other = function(call)
            seconds = self.now(search) - start
            if variant.expensive or (self.warms(variant) and search.ledger.affordable(seconds)):
                search.prepared(seconds)
                start = self.now(search)
                other = function(call)
                seconds = self.now(search) - start
            difference, reason = self.compare(variant, result, other)
        except Exception as error:  # whatever a lever makes of the program's objects
            self._interrupted(search, error)
            reason = sentence(error)
            seconds = self.now(search) - start
            self.recover()
        if self.judged(search, variant, reason is None):
            search.anew(default_seconds, seconds)
        else:
            search.checked(default_seconds, seconds, difference, reason)
        return result


class WrongResult(ValueError):
    """A variant's result cannot be given to the program."""


class OwnCall:
    """A call as the program alone would do it, and what became of it."""

    __slots__ = ("_function", "done", "failed", "result")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.done = False
        self.failed = False
        """Whether the last exception was the program's own."""
        self.result: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.failed = True
        self.result = self._function(*args, **kwargs)
        self.failed, self.done = False, True
        return self.result


def shielded(
    attempt: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any, stop: Callable[[str], None]
) -> Any:
    """Return what ``attempt`` makes of a call of the program's; what goes wrong in it beyond the program stays here."""
    own = OwnCall(function)
    try:
        return attempt(own, args, kwargs)
    except Exception as error:  # a fault of the launcher's own, where it is not the program's
        if own.failed:
            raise
        let_through(error)
        stop("the launcher failed: " + sentence(error))
        return own.result if own.done else function(*args, **kwargs)


def sentence(error: BaseException) -> str:
    """Return what went wrong, in a line: an entry of the record has no room for what some libraries say."""
    text = str(error) if isinstance(error, WrongResult) else "{}: {}".format(type(error).__name__, error)
    return " ".join(text.split())[:LONGEST]
