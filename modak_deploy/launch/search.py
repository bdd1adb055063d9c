"""Live trials: which variant the next unit of work uses, and which one stays.

A variant is a set of levers. The search starts with the default, adds one lever after another to the best variant so
far, keeps what is faster, measures the default again at the end, and settles. It knows nothing about frameworks.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import hardware
from .config import Expected, Trials
from .estimate import BEATEN, Estimate, Ledger, enough
from .lever import Lever

RUN = "run"
"""Do the unit with the variant."""
CHECK = "check"
"""Do the unit with the default and with the variant, and compare the results."""


class Variant(NamedTuple):
    """Levers that are on together, in the order in which they were added."""

    levers: Tuple[Lever, ...] = ()

    @property
    def name(self) -> str:
        """Return its levers' names."""
        return " + ".join(lever.name for lever in self.levers) or "default"

    @property
    def expensive(self) -> bool:
        """Tell whether it takes long to make ready."""
        return any(lever.expensive for lever in self.levers)

    def plus(self, lever: Lever) -> "Variant":
        """Return the variant with one more lever, without those that cannot be on together with it."""
        return Variant((*(other for other in self.levers if not lever.excludes(other)), lever))


class Action(NamedTuple):
    """What to do with the next unit."""

    kind: str
    variant: Variant


DEFAULT = Variant()
HOPELESS = "a unit of {:g} times the default's time would cost more than trials may lose in this job"
MOST_MEMORY = 1 << 30
"""Bytes by which the process may grow in a trial, however small it was; a larger one may double."""
FIRST_RECHECK = 64
"""Units after which the winner's results are compared again, and then each time that they have doubled."""


class Search:
    """State of the trials of one object of the program.

    Its phases: ``baseline`` (the default is measured), ``choose`` (the next variant, if it may be tried now),
    ``check``, ``measure``, ``final`` (the default again), ``settled``. Where units are single calls, a variant and the
    best one so far take turns while they are measured, so that a neighbour's load meets both; in training that would
    cost a switch of the module at every step, and one follows the other.
    """

    def __init__(
        self,
        name: str,
        levers: Sequence[Lever],
        trials: Trials,
        record: Any,
        checks: bool = True,
        seconds: float = 20.0,
    ) -> None:
        """``checks`` is whether results can be compared; ``seconds`` what an expensive lever costs, where not known."""
        self._name = name
        self._pending: List[Lever] = list(levers)
        self._trials = trials
        self._record = record
        self._checks = checks
        self._seconds = seconds
        self._estimates: Dict[str, Estimate] = {DEFAULT.name: Estimate(skip=1)}
        self._rival = self._estimates[DEFAULT.name]
        self._tried: Set[str] = {DEFAULT.name}
        self._phase = "baseline"
        self._current = DEFAULT
        self._turn = False
        self._against = (DEFAULT.name, self._rival)
        """What the variant is measured against: its name and its times."""
        self._fixed = False
        self._one_time = 0.0
        self._memory: Optional[int] = None
        self._difference: Optional[float] = None
        self._recheck_at = FIRST_RECHECK
        self._retry_at = 0
        self._drift_measured = False
        self._reason = "nothing tried is faster"
        self._settled_as: Optional[Tuple[str, str]] = None
        self.ledger = Ledger(trials.share, trials.units)
        self.best = DEFAULT

    def fix(self, variant: Variant) -> None:
        """Use a variant that was chosen before the run, after one check, and try nothing."""
        self._pending = []
        self._tried.add(variant.name)
        self._current, self._fixed = variant, True
        self._phase = "check" if self._checks else "settled"
        if not self._checks:
            self.best = variant
        self._record.add("chosen", of=self._name, variant=variant.name)

    @property
    def current(self) -> Variant:
        """Return the variant that is being tried; the best one when none is."""
        return self._current if self._phase in ("check", "measure") else self.best

    @property
    def settled(self) -> bool:
        """Tell whether nothing is left to try for now."""
        return self._phase == "settled"

    def next(self) -> Action:
        """Return what to do with the next unit."""
        if self._phase == "settled" and self._pending and self.ledger.done >= self._retry_at:
            self._phase = "choose"
        if self._phase == "choose":
            self._choose()
        if self._phase == "settled" and self._recheck_due():
            return Action(CHECK, self.best)
        if self._phase == "check":
            return Action(CHECK, self._current)
        if self._phase == "measure":
            return Action(RUN, self.best if self._turn else self._current)
        if self._phase == "baseline" or (self._phase == "final" and not self._turn):
            return Action(RUN, DEFAULT)
        return Action(RUN, self.best)

    def report(self, variant: Variant, seconds: float) -> None:
        """Take the time of a unit that was done with a variant."""
        self.ledger.unit(seconds, variant == DEFAULT)
        if self._phase == "baseline" and variant == DEFAULT:
            self._add_default(seconds)
            if self._estimates[DEFAULT.name].complete():
                self._phase = "choose"
        elif self._phase == "choose" and variant == DEFAULT:
            self._add_default(seconds)
        elif self._phase == "measure":
            self._measured(variant, seconds)
        elif self._phase == "final":
            self._measured_again(variant, seconds)

    def _add_default(self, seconds: float) -> None:
        estimate = self._estimates[DEFAULT.name]
        estimate.add(seconds)
        if estimate.count:
            self.ledger.default = estimate.median

    def verify(self) -> None:
        """Have the winner's results compared again with the next unit."""
        self._recheck_at = 0

    def prepared(self, seconds: float) -> None:
        """Take the time that it took to make the variant ready."""
        self._one_time += seconds
        self.ledger.charge(seconds)

    def checked(
        self, default_seconds: float, seconds: float, difference: Optional[float], problem: Optional[str]
    ) -> None:
        """Take the result of a check: how far the outputs differ, or why the variant cannot stay."""
        self.ledger.unit(default_seconds, True)
        self.ledger.charge(seconds)
        self._difference = difference
        if problem is not None:
            self.failed(problem)
        elif self._phase == "check" and self._fixed:
            self.best = self._current
            self._settle("chosen before the run")
        elif self._phase == "check":
            self._phase = "measure"
            self._first_unit(seconds, default_seconds)

    def failed(self, reason: str) -> None:
        """Give up the variant that was being tried or that was in use."""
        if self._phase in ("check", "measure") and not self._fixed:
            self._record.fallback(self._current.name, reason)
            self._finish(reason, failed=True)
            return
        if self.current != DEFAULT:
            self._record.fallback(self.current.name, reason)
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """Go back to the default for good."""
        self._pending = []
        if self._phase != "settled" or self.best != DEFAULT:
            self.best = DEFAULT
            self._settle(reason)

    # the choice of the next variant

    def _choose(self) -> None:
        waiting: List[Lever] = []
        for lever in list(self._pending):
            variant = self.best.plus(lever)
            if variant.name in self._tried or lever in self.best.levers:
                self._pending.remove(lever)
                continue
            if not (waiting and lever.expensive) and self._worth(lever):
                self._pending.remove(lever)
                self._begin(variant, lever)
                return
            if lever.expensive:
                continue
            waiting.append(lever)
        if waiting and not self._hopeless:
            return
        for lever in waiting:
            self._pending.remove(lever)
            self._record.add("not_offered", lever=lever.name, reason=HOPELESS.format(self._risk(lever)))
        if waiting:
            self._choose()
            return
        # What is expensive and does not pay now may pay later.
        self._begin_final()

    def _worth(self, lever: Lever) -> bool:
        """Tell whether a lever may be tried now: it is affordable, and the units left can pay for it."""
        if self.ledger.remaining < enough(self._default) + 1:
            return False
        if not lever.expensive:
            # A unit cannot be stopped: the longest plausible one must fit; a check does it beside the default's.
            return self.ledger.affordable(self._default * (self._risk(lever) - (0 if self._checks else 1)))
        given = self._trials.expected.get(lever.name)
        expected = given or Expected(BEATEN, self._seconds * hardware.load())
        saving = self.ledger.remaining * self._rival.median * (1 - 1 / max(1.0, expected.gain))
        if given is not None and self._trials.units is not None and saving >= 2 * expected.seconds:
            return True
        return saving > expected.seconds and self.ledger.affordable(expected.seconds + self._default)

    def _risk(self, lever: Lever) -> float:
        """Return the times the default's time that the longest plausible unit with a lever takes."""
        expected = self._trials.expected.get(lever.name)
        return min(lever.risk, BEATEN) if expected is not None and expected.gain > 1 else lever.risk

    @property
    def _hopeless(self) -> bool:
        """Tell whether no more time to lose will come: the span is that of the job, and nothing faster is in use."""
        return self.best == DEFAULT and self._trials.units is not None

    def _begin(self, variant: Variant, lever: Lever) -> None:
        self._tried.add(variant.name)
        self._current = variant
        self._one_time, self._difference = 0.0, None
        self._memory = hardware.resident_memory()
        self._estimates[variant.name] = Estimate(skip=0 if self._checks else 1)
        if self._checks:
            self._rival = Estimate()
        self._against = (self.best.name, self._rival)
        self._turn = False
        self._record.add("trying", of=self._name, lever=lever.name, variant=variant.name)
        self._phase = "check" if self._checks else "measure"

    @property
    def _default(self) -> float:
        return self._estimates[DEFAULT.name].median

    # what a measurement says

    def _measured(self, variant: Variant, seconds: float) -> None:
        estimate = self._estimates[self._current.name]
        if self._checks:
            self._turn = not self._turn
        if variant != self._current:
            self._rival.add(seconds)
            if variant == DEFAULT:
                self._add_default(seconds)
            return
        estimate.add(seconds)
        if not estimate.count and not variant.expensive:
            self._first_unit(seconds, self._default)
        if not estimate.count or not self._rival.count:
            return
        grown = self._grown()
        if grown is not None:
            self.failed("the process has grown by {} MiB with it".format(grown >> 20))
        elif estimate.complete(self._rival, early=not variant.expensive):
            if estimate.beats(self._rival):
                self.best, self._rival = self._current, estimate
                self._finish("faster than the best so far")
            else:
                self._finish("not faster than {}".format(self.best.name))
        elif estimate.count and not self.ledger.affordable(max(0.0, estimate.median - self._default)):
            self._finish("given up: the trials may lose no more time")

    def _grown(self) -> Optional[int]:
        """Return by how much the process has grown since the variant was begun, where that is too much."""
        now = hardware.resident_memory()
        if now is None or self._memory is None:
            return None
        return now - self._memory if now - self._memory > max(MOST_MEMORY, self._memory) else None

    def _first_unit(self, seconds: float, default: float) -> None:
        """Give a variant up at once where it is slower and a second unit would lose too much."""
        if seconds > default and not self.ledger.affordable(seconds - default):
            self._finish("slower in its first unit: {:.3g} s against {:.3g} s".format(seconds, default))

    def _finish(self, result: str, failed: bool = False) -> None:
        """Note how a trial ended; ``failed`` is whether its results, or what it did, make it unusable."""
        estimate = self._estimates[self._current.name]
        values: Dict[str, Any] = {"of": self._name, "variant": self._current.name, "result": result}
        values.update(kept=self._current == self.best, failed=failed)
        if estimate.count:
            values.update(times=estimate.times, rival=self._against[0], rival_times=self._against[1].times)
            values.update(units=estimate.count, seconds=estimate.median, noise=estimate.noise)
            name, rival = self._against
            default = rival.median if name == DEFAULT.name and rival.count else self._default
            values["gain"] = default / estimate.median
        values.update(default=self._default, one_time=self._one_time, difference=self._difference)
        self._record.add("trial", lost=self.ledger.lost, **values)
        if not self._rival.count:
            self._rival = self._estimates[self.best.name]
        self._current = self.best
        self._phase = "choose"

    # the end

    def _begin_final(self) -> None:
        units = enough(self._default) + 1
        if self.best == DEFAULT or self._drift_measured:
            self._settle(self._reason)
        elif self.ledger.remaining < 2 * units:
            self._settle("the units left are few")
        elif self.ledger.affordable(max(0.0, self._default - self._rival.median) * units):
            self._estimates["first default"] = self._estimates[DEFAULT.name]
            skip = 0 if self._checks else 1
            self._estimates[DEFAULT.name], self._rival = Estimate(skip), Estimate(skip)
            self._turn = False
            self._phase = "final"

    def _measured_again(self, variant: Variant, seconds: float) -> None:
        again, rival = self._estimates[DEFAULT.name], self._rival
        (again if variant == DEFAULT else rival).add(seconds)
        self._turn = not self._turn if self._checks else again.complete()
        if not again.complete() or not rival.complete():
            return
        first = self._estimates["first default"].median
        drift = {"default_first": first, "default_again": again.median, "best": rival.median}
        times = {"variant": self.best.name, "times": rival.times, "rival": DEFAULT.name, "rival_times": again.times}
        kept = rival.beats(again)
        self._record.add("drift", of=self._name, drift=again.median / first, kept=kept, **drift, **times)
        self.ledger.default = again.median
        self._estimates[self.best.name] = rival
        self._drift_measured = True
        self._reason = "fastest of all that was tried"
        if not kept:
            self.best, self._rival = DEFAULT, again
            self._reason = "the default, measured again, is as fast"
        self._phase = "choose"

    def _settle(self, reason: str) -> None:
        self._phase = "settled"
        self._retry_at = self.ledger.done + max(10, self.ledger.done // 4)
        if self._settled_as == (self.best.name, reason):
            return
        self._settled_as = (self.best.name, reason)
        estimate = self._estimates.get(self.best.name)
        values: Dict[str, Any] = {"of": self._name, "variant": self.best.name, "reason": reason}
        if estimate is not None and estimate.count and self._estimates[DEFAULT.name].count:
            values.update(seconds=estimate.median, gain=self._default / estimate.median)
        values.update(lost=self.ledger.lost, after_units=self.ledger.done, difference=self._difference)
        self._record.add("settled", **values)

    def _recheck_due(self) -> bool:
        """Tell whether the winner's results are to be compared again."""
        if not self._checks or self.best == DEFAULT or self.ledger.done < self._recheck_at:
            return False
        if self._recheck_at and self.ledger.default is not None and not self.ledger.affordable(self._rival.median):
            return False
        self._recheck_at = max(FIRST_RECHECK, 2 * self.ledger.done)
        return True
