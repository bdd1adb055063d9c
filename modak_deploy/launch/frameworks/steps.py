"""Live trials between the steps of a training: each step is done once, with some variant, and the loss is the check."""

import math
import threading
from typing import Any, Callable, Dict, List, Optional

from .. import clock
from ..handlers import let_through, raised, timed
from ..search import Search
from ..session import Session
from ..trials import INTERRUPTED, sentence
from ..variants import DEFAULT, Variant
from .losses import AGAIN, Losses

SETTLED_EVERY = 10
"""Steps after which the loss is looked at once nothing is tried any more."""


class NotDone(Exception):
    """A variant leaves a step to the program, and has changed nothing."""


class Step:
    """What a framework's adapter says about one step."""

    def default(self) -> Any:
        """Do the step as the program does it."""
        raise NotImplementedError

    def prepare(self, variant: Variant) -> None:
        """Take what the step needs from the program's input; what fails here is the program's own."""

    def built(self, variant: Variant) -> bool:
        """Tell whether a variant has done a step of this form, so that nothing is built any more."""
        raise NotImplementedError

    def keep(self) -> Callable[[], None]:
        """Copy what the step changes, and return what sets it back."""
        raise NotImplementedError

    def do(self, variant: Variant) -> Any:
        """Do the step in a variant's way."""
        raise NotImplementedError

    def owns(self) -> None:
        """Take notice that what the step is about to raise is the program's own."""

    def again(self) -> Any:
        """Do the step in the program's way after ``prepare``."""
        return self.default()

    def loss(self, result: Any) -> Optional[float]:
        """Return the step's loss; None where there is none."""
        raise NotImplementedError


class Steps:
    """The trials of one training."""

    def __init__(
        self,
        session: Session,
        name: str,
        search: Search,
        base: Variant = DEFAULT,
        follow: Callable[[Variant], None] = lambda variant: None,
    ) -> None:
        """``base`` is what losses are judged by: the default, or what was chosen before the run; ``follow`` sets the
        process's settings for a variant."""
        self._base = base
        self._follow = follow
        self._session = session
        self._name = name
        self._search: Optional[Search] = search
        self._losses = Losses()
        self._again = 0
        self._count = 0
        self._building: Dict[str, float] = {}
        """Seconds that it took at most to build a variant for a form of steps."""
        self._busy = threading.Lock()

    @property
    def over(self) -> bool:
        """Tell whether the program goes on by itself."""
        return self._search is None

    @property
    def wanted(self) -> List[str]:
        """Return the names of the variants that may still be used."""
        return [] if self._search is None else sorted(self._search.wanted)

    @property
    def pace(self) -> Optional[float]:
        """Return the seconds of a step from now on, where trials know."""
        return None if self._search is None else self._search.pace

    def stop(self, reason: str) -> None:
        """Leave the program alone from now on."""
        if self._search is not None:
            self._session.record.add("no_trials", of=self._name, reason=reason)
            self.end(reason)

    def end(self, reason: str) -> None:
        """End the trials, for a reason that has been told."""
        if self._search is not None:
            self._search.stop(reason)
            self._search = None
            self._follow(DEFAULT)

    def step(self, step: Step) -> Any:
        """Do a step for the program."""
        if not self._busy.acquire(blocking=False):
            self.stop("steps are done by several threads at once")
            return step.default()
        try:
            search = self._search
            return step.default() if search is None else self._step(search, step)
        finally:
            self._busy.release()

    def _step(self, search: Search, step: Step) -> Any:
        self._count += 1
        waits = bool(self._again) and not search.settled
        waiting = self._base if search.best != DEFAULT else DEFAULT
        variant: Optional[Variant] = None
        try:
            variant = waiting if waits else search.next().variant
        except Exception as error:  # a fault of the launcher's own
            let_through(error)
            self._abandon(error)
        if variant is None:
            return step.default()
        if variant != DEFAULT and not search.settled and timed():
            return self._plain(search, step.default)
        start, built = clock.now(), True
        if variant == DEFAULT:
            self._follow(DEFAULT)
            result = step.default()
            try:
                self._look(search, step, variant, result)
            except Exception as error:  # the program's step is done, and its result matters more
                let_through(error)
                self.stop("its loss cannot be read: " + sentence(error))
        else:
            step.prepare(variant)
            fetched = clock.now() - start  # part of the step, as it is of the default's
            built = step.built(variant)
            if not built and (timed() or not self._builds(search, variant)):
                return self._plain(search, step.again, fetched)
            result, variant, start = self._varied(search, step, variant, start + fetched)
            start -= fetched
        try:
            self._book(search, variant, start, new=not built, waits=waits)
        except Exception as error:  # a fault of the launcher's own: the step is done, and must not be done again
            let_through(error)
            self._abandon(error)
        return result

    def _book(self, search: Search, variant: Variant, start: float, new: bool, waits: bool) -> None:
        """Tell the search what a step took since it began; ``new`` is whether the variant was built for it."""
        if new:
            start = self._built(search, variant, start)
        seconds = clock.now() - start
        if waits:
            self._again -= 1
            search.ledger.unit(seconds, variant == DEFAULT)
        else:
            search.report(variant, seconds)

    def _abandon(self, error: Exception) -> None:
        """Leave the program alone: something went wrong here."""
        reason = "the launcher failed: " + sentence(error)
        self._session.record.fallback("the observation of " + self._name, reason)
        self.stop(reason)

    def _plain(self, search: Search, do: Callable[[], Any], seconds: float = 0.0) -> Any:
        """Do a step as the program does it, in which nothing is tried; ``seconds`` of it are over."""
        self._follow(DEFAULT)
        start = clock.now()
        result = do()
        search.ledger.unit(clock.now() - start + seconds, True)
        return result

    def _varied(self, search: Search, step: Step, variant: Variant, start: float) -> Any:
        """Return the result of a step with a variant, the variant that did it, and when that began."""
        undo: Optional[Callable[[], None]] = None
        own = False
        """Whether what fails would fail in the program's own way too, and cannot be set back."""
        try:
            self._follow(variant)
            usual = search.settled and step.built(variant)
            own = usual or variant.same_results
            if not own:
                undo = step.keep()
            if not usual:
                now = clock.now()
                search.prepared(now - start)
                start = now
            result = step.do(variant)
            problem = self._look(search, step, variant, result)
            if problem is None:
                return result, variant, start
        except Exception as error:  # whatever a lever makes of the program's step
            if own and undo is None and not isinstance(error, NotDone):
                step.owns()
                raise  # it has done such steps before, or does what the program does
            interruption = raised(error)
            if interruption is not None:
                if undo is not None:
                    undo()
                self._follow(DEFAULT)
                self._fail(search, variant, INTERRUPTED.format(type(interruption).__name__))
                raise interruption from interruption.__cause__
            problem, result = sentence(error), None
        if undo is None and result is not None:
            self._fail(search, variant, "noticed after the step: " + problem)
            return result, variant, start
        search.prepared(clock.now() - start)
        if undo is not None:
            undo()
        self._follow(DEFAULT)
        self._fail(search, variant, "the step was done again without it: " + problem)
        start = clock.now()
        return step.again(), DEFAULT, start

    def _builds(self, search: Search, variant: Variant) -> bool:
        """Tell whether a variant may be built for one more form of steps, such as batches of another size.

        XLA compiles for each; the decision to try it was for one.
        """
        seconds = self._building.get(variant.name)
        return seconds is None or search.ledger.affordable(seconds)

    def _built(self, search: Search, variant: Variant, start: float) -> float:
        """Book what a variant's first step took beyond the default's as building it; return when the rest began.

        Tracing and compilation come once: they say nothing about how long a step takes.
        """
        usual = search.ledger.default
        beyond = 0.0 if usual is None else clock.now() - start - usual
        if beyond <= 0:
            return start
        self._building[variant.name] = max(beyond, self._building.get(variant.name, 0.0))
        search.prepared(beyond)
        return start + beyond

    def _fail(self, search: Search, variant: Variant, reason: str) -> None:
        search.failed(reason)
        if search.best == variant:
            search.stop(reason)
        self._again = AGAIN
        self._losses.clear()

    # the loss

    def _look(self, search: Search, step: Step, variant: Variant, result: Any) -> Optional[str]:
        """Return what is wrong with a step's loss; None when nothing is."""
        if search.settled and self._count % SETTLED_EVERY:
            return None
        loss = step.loss(result)
        if loss is None:
            if variant == DEFAULT:
                self.stop("the step gives no loss to compare")
            return "the step gives no loss to compare"
        if not math.isfinite(loss):
            return "the loss is not finite"
        self._losses.add(variant.name, loss)
        judged = variant not in (DEFAULT, self._base) and not variant.same_results
        return "the loss rises" if judged and self._losses.rise(variant.name, self._base.name) else None
