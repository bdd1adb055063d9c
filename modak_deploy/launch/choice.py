"""State of live trials, and the choice of what is tried next."""

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from . import hardware
from .config import Trials
from .estimate import FEWEST, Estimate, Ledger, tail
from .lever import Lever
from .parts import Part
from .progress import RECENT
from .prospects import LOST, Prospects
from .variants import DEFAULT, Variant

TRYING = ("probe", "check", "measure")
"""Phases in which a variant is tried."""
LEFT = 80
"""Units left, for each of which one more unit of a variant is measured, up to as many:"""
MOST_NEEDED = 6
FASTEST = "fastest of all that was tried"
CHOSEN = "chosen before the run"
WAITED_FOR = "it waited for "
WAITED = WAITED_FOR + "what is cheaper to try"
FIRST_RECHECK = 64
"""Units after which the winner's results are compared again, and then each time that they have doubled."""


class Choice:
    """What is known about the variants of one object, which of them is tried, and what was found.

    ``Search`` decides by it what to do with each unit.
    """

    def __init__(
        self,
        name: str,
        levers: Sequence[Lever],
        trials: Trials,
        record: Any,
        checks: bool = True,
        seconds: float = 20.0,
        part: Optional[Part] = None,
        costs: Optional[Mapping[str, float]] = None,
        turns: bool = False,
    ) -> None:
        """``checks`` is whether results can be compared; ``costs`` the seconds that expensive levers take by their
        names, ``seconds`` those of others; ``part`` the part of a unit on which variants can be tried first; ``turns``
        is whether variants may take turns though results are not compared."""
        self.name = name
        self._pending: List[Lever] = list(levers)
        self._trials = trials
        self._record = record
        self._checks = checks
        self._turns = turns
        self.ledger = Ledger(trials.share, trials.units)
        self._estimates: Dict[str, Estimate] = {DEFAULT.name: Estimate(1, self._fewest)}
        self._rival = self._estimates[DEFAULT.name]
        self._tried: Set[str] = {DEFAULT.name}
        self._phase = "baseline"
        self._current = DEFAULT
        self._lever: Optional[Lever] = None
        self._turn = False
        self._irreversible: Optional[str] = None
        """The phase that follows units without what is being tried, where nothing undoes that."""
        self._switched = True
        """Whether the next unit follows one of another variant: threads of that one may still wait for work."""
        self._against = (DEFAULT.name, self._rival)
        """What the variant is measured against: its name and its times."""
        self._fixed = False
        self._base = DEFAULT
        """What trials start from: the default, or what was chosen before the run."""
        self._beginning = DEFAULT
        """What the winner is compared with at the end."""
        self._sound = DEFAULT
        """The last of the best variants whose results are known to be right on whole units."""
        self._seen: Optional[float] = None
        """Seconds of a unit of the default, where a variant chosen before the run was compared with it."""
        self._once: Dict[str, float] = {}
        """Seconds that it took to make variants ready, by their names."""
        self._one_time = 0.0
        self._made = False
        """Whether a unit was done with the variant that is being tried."""
        self._switch = 0.0
        """Seconds that the last switch to another variant took."""
        self._alternating: Optional[bool] = None
        """Whether variants take turns in this phase, where results are not compared; None before its first unit."""
        self._memory: Optional[int] = None
        self._difference: Optional[float] = None
        self._recheck_at = FIRST_RECHECK
        self._retry_at = 0
        self._last_trial = -RECENT
        """Units that were done when the last trial ended."""
        self._baseline: Optional[float] = None
        """Seconds of a unit of the default before anything was tried."""
        self._drift_measured = False
        self._reason: Optional[str] = None
        self._refused: Dict[str, str] = {}
        """Why levers that wait are not tried now."""
        self._beside: Optional[float] = None
        """What the default would have taken in place of the last unit, where that is known."""
        self._fewer_later = False
        """Whether the best variant without one of its levers is still to be tried, and could not be so far."""
        self._settled_as: Optional[Tuple[str, str]] = None
        self._prospects = Prospects(trials, self.ledger, seconds, checks, part, costs or {}, turns)
        self.best = DEFAULT
        self.beside: Sequence[Any] = ()
        """The trials of all objects of the process, in their order."""

    @property
    def base(self) -> Variant:
        """Return what trials start from: the default, or what was chosen before the run."""
        return self._base

    @property
    def current(self) -> Variant:
        """Return the variant that is being tried; the best one when none is."""
        return self._current if self._phase in TRYING else self.best

    @property
    def wanted(self) -> Set[str]:
        """Return the names of the variants that may still be used: what was made for others can be dropped."""
        names = {self.best.name, self.current.name, self._sound.name}
        return names if self._drift_measured or self.settled else names | {self._base.name, self._beginning.name}

    @property
    def part(self) -> Optional[Part]:
        """Return the part of a call on which variants are tried first."""
        return self._prospects.part

    def partly(self, variant: Variant) -> bool:
        """Tell whether a variant's results were compared on a part of a call only."""
        return variant.name in self._prospects.partly

    @property
    def settled(self) -> bool:
        """Tell whether nothing is left to try for now."""
        return self._phase == "settled"

    @property
    def pace(self) -> Optional[float]:
        """Return the seconds of a unit with the best variant so far, by its last measurement; None before there is one.

        While there is something to try they are those of the units left, if that brings what is expected of it.
        Once settled, the program's recent units tell more than the trials', as soon as they are those after the trials:
        what is tried, such as a second session's threads, may slow down what runs beside it.
        """
        default = self._estimates[DEFAULT.name]
        if not self.settled:
            usual = self._outlook(self.usual)
        elif self.ledger.done - self._last_trial >= RECENT:
            return None
        elif self.best != DEFAULT:
            usual = self.usual
        else:
            usual = self._baseline and min(self._baseline, default.median if default.count else self._baseline)
        return usual and usual * tail([default, self._estimates.get(self.best.name, default)])

    def _outlook(self, usual: Optional[float]) -> Optional[float]:
        """Return the mean seconds of the units left, of which each takes ``usual`` until one more lever is tried."""
        left, default = self.ledger.remaining, self._estimates[DEFAULT.name]
        if not usual or not left or self._trials.units is None or not default.count:
            return usual
        ahead = [
            self._prospects.ahead(lever, default.median, usual, self.best.excludes(lever), made)
            for lever, made in self._coming()
        ]
        return min([left * usual, *ahead]) / left

    def _coming(self) -> Iterator[Tuple[Lever, bool]]:
        """Yield what is tried, and what may be, each with whether it has been made ready."""
        if self._phase in TRYING and self._lever is not None and not self._is_fewer:
            yield self._lever, self._made or self._one_time > 0
        for lever in self._pending:
            if self._refusal(lever, self.best.plus(lever)) is None:
                yield lever, False

    @property
    def _nothing(self) -> str:
        """Return why the default stays."""
        if len(self._tried) > 1:
            return "nothing tried is faster"
        could = {*self._refused.values()} - {LOST}
        return self._prospects.nothing(self._default) if could else "there was nothing to try"

    def _choose(self) -> None:
        waiting: List[Lever] = []
        for lever in list(self._pending):
            variant = self.best.plus(lever)
            if variant.name in self._tried or lever in self.best.levers:
                self._pending.remove(lever)
                continue
            refusal = self._refusal(lever, variant)
            if lever.expensive and self._choose_fewer():
                return
            if refusal is None and not (waiting and lever.expensive):
                self._pending.remove(lever)
                self._begin(variant, lever)
                return
            self._refuse(lever, refusal or WAITED)
            if not lever.expensive:
                waiting.append(lever)
        if waiting and not self._hopeless:
            return
        for lever in waiting:
            self._not_tried(lever)
        if waiting:
            self._choose()
            return
        # What is expensive and does not pay now may pay later.
        if not self._choose_fewer():
            self._begin_final()

    def _refusal(self, lever: Lever, variant: Variant) -> Optional[str]:
        """Return why a lever is not tried now; None when it can be."""
        improved, best = self.best != DEFAULT, self._usually
        return self._prospects.refusal(lever, variant, self._default, best, improved, self._replaces(lever))

    @property
    def _usually(self) -> float:
        """Return the time of a unit with the best variant, as it was measured last."""
        return self._rival.median if self._rival.count else self._estimates[self.best.name].median

    def _replaces(self, lever: Lever) -> bool:
        """Tell whether a lever would take the place of one in use that was made ready as well."""
        return any(other.expensive and lever.excludes(other) for other in self.best.levers)

    def _refuse(self, lever: Lever, reason: str) -> None:
        """Note why a lever is not tried now.

        Of what takes long to make, the first word stays where the job's length is known: when most units were left it
        did not pay, and that the last one would not pay for it says nothing.
        """
        first = self._refused.get(lever.name, WAITED)
        if first.startswith(WAITED_FOR) or not lever.expensive or self._trials.units is None or reason == LOST:
            self._refused[lever.name] = reason

    def _choose_fewer(self) -> bool:
        """Try the best variant without a lever that others may have made useless; return whether there is one to try.

        SqueezeNet on an AMD EPYC: bf16 gains at first, and with channels last, added to it, is what loses.
        """
        levers = self.best.levers
        self._fewer_later = False
        for lever in levers[:-1] if self._checks else ():
            variant = Variant(tuple(other for other in levers if other is not lever))
            stays = lever.lasting or lever.expensive or lever in self._base.levers
            if stays or variant.name in self._tried or not self._prospects.quick(variant):
                continue
            last = levers[-1]
            if self._prospects.refusal(last, variant, self._default, self._rival.median, True) is None:
                self._begin(variant, last)
                return True
            self._fewer_later = True
        return False

    @property
    def _is_fewer(self) -> bool:
        """Tell whether what is being tried is the best variant without one of its levers."""
        return self._lever is not None and self._lever in self.best.levers and self._current != self.best

    def _not_tried(self, lever: Lever, reason: str = "the program ended before") -> None:
        """Tell that a lever was not tried, and why."""
        self._pending.remove(lever)
        reason = self._refused.get(lever.name, reason)
        self._record.add("not_tried", of=self.name, lever=lever.name, reason=reason)

    def end(self) -> None:
        """Tell what was not tried: the program ends."""
        if self._phase in TRYING and self._lever is not None and not self._fixed and not self._is_fewer:
            reason = "the program ended while it was tried"
            self._record.add("not_tried", of=self.name, lever=self._lever.name, reason=reason)
        unfinished = self._phase != "settled" and not self._fixed and (bool(self._pending) or self.best != DEFAULT)
        for lever in list(self._pending):
            self._not_tried(lever)
        if unfinished:
            self._settle(str(self._reason) if self._phase == "chosen" else "the program ended before the trials did")

    @property
    def _hopeless(self) -> bool:
        """Tell whether what waits will never be tried: the span is that of the job, and nothing faster is in use.

        Where something faster is in use, the units left may be too few.
        """
        if self._trials.units is None:
            return False
        return self.best == DEFAULT or self._prospects.few(self._default, True) is not None

    def _begin(self, variant: Variant, lever: Lever) -> None:
        self._tried.add(variant.name)
        self._refused.pop(lever.name, None)
        self._current, self._lever = variant, lever
        self._one_time, self._made, self._difference = 0.0, False, None
        self._memory = hardware.resident_memory()
        if not self._checks or self.partly(variant) or variant.same_results:
            self._phase = "measure"
        else:
            self._phase = "probe" if self._prospects.probes(variant) else "check"
        # A check of the whole is the variant's warming up.
        self._estimates[variant.name] = Estimate(0 if self._phase == "check" else 1, self._fewest)
        self._irreversible = self._phase if lever.irreversible and not self._is_fewer else None
        if self._irreversible:
            self._phase, self._rival = "measure", Estimate(0, self._fewest)
        elif self._checks or self._prospects.turns(variant):
            self._rival = Estimate()
        self._against = (self.best.name, self._rival)
        self._turn, self._switched, self._alternating = bool(self._irreversible), True, None
        # No lever is to blame where one is taken away.
        name = "" if self._is_fewer else lever.name
        self._record.add("trying", of=self.name, lever=name, variant=variant.name)

    @property
    def _fewest(self) -> int:
        """Return how many units of a variant are measured at least: more where many units are left."""
        return max(FEWEST, min(MOST_NEEDED, self.ledger.remaining // LEFT))

    @property
    def _default(self) -> float:
        return self._estimates[DEFAULT.name].median

    # what was found

    def _book(self, variant: Variant, seconds: float) -> float:
        """Book a unit; return what the default would have taken in its place.

        The unit before it tells: the default's own, or the best variant's by its usual gain. A unit of the best variant
        that takes longer than usual, for a neighbour's load, gains what it usually gains.
        """
        default, before = self.ledger.default or seconds, self._beside
        self._beside = seconds
        if variant == DEFAULT:
            self.ledger.unit(seconds, True)
            return seconds
        usual = self.usual if variant == self.best else None
        self._beside = seconds * default / usual if usual and self._phase == "measure" else None
        if before is None:
            before = default + max(0.0, seconds - usual) if usual else default
        self.ledger.unit(seconds, False, before)
        return before

    @property
    def usual(self) -> Optional[float]:
        """Return the usual time of a unit with the best variant, where it was measured."""
        estimate = self._estimates.get(self.best.name)
        return estimate.median if estimate is not None and estimate.count else None

    def _finish(self, result: str, failed: bool = False, **others: float) -> None:
        """Note how a trial ended; ``failed`` is whether its results, or what it did, make it unusable.

        ``others`` are what else the record says of it.
        """
        estimate = self._estimates[self._current.name]
        values: Dict[str, Any] = {"of": self.name, "variant": self._current.name, "result": result}
        values.update(kept=self._current == self.best, failed=failed)
        if estimate.count:
            values.update(times=estimate.times, rival=self._against[0], rival_times=self._against[1].times)
            values.update(rival_cost=self._once.get(self._against[0], 0.0))
            values.update(units=estimate.count, seconds=estimate.median, noise=estimate.noise)
            name, rival = self._against
            default = rival.median if name == DEFAULT.name and rival.count else self._default
            values["gain"] = default / max(estimate.median, 1e-9)
        values.update(default=self._default, one_time=self._one_time, difference=self._difference, **others)
        self._once[self._current.name] = self._one_time
        self._record.add("trial", lost=self.ledger.lost, **values)
        self._last_trial = self.ledger.done
        self._back()

    def _back(self) -> None:
        """Go on with the best variant, and choose what to try next."""
        if not self._rival.count:
            self._rival = self._estimates[self.best.name]
        self._current = self.best
        self._phase = "choose"

    def _defer(self, lever: Lever) -> None:
        """Let a lever wait until the next thing to do with it is affordable."""
        self._tried.discard(self._current.name)
        if lever not in self.best.levers:
            self._pending.insert(0, lever)
        self._record.add("deferred", of=self.name, lever=lever.name, variant=self._current.name)
        self._back()

    def _settle(self, reason: str, **others: Optional[float]) -> None:
        """Go on with the best one; ``others`` are what a survey tells, in the place of what the medians do."""
        self._phase = "settled"
        self._retry_at = self.ledger.done + max(10, self.ledger.done // 4)
        if self._settled_as == (self.best.name, reason):
            return
        self._settled_as = (self.best.name, reason)
        estimate = self._estimates.get(self.best.name)
        values: Dict[str, Any] = {"of": self.name, "variant": self.best.name, "reason": reason}
        if estimate is not None and estimate.count and self._estimates[DEFAULT.name].count:
            values.update(seconds=estimate.median, gain=self._default / max(estimate.median, 1e-9))
        values.update({key: value for key, value in others.items() if value is not None})
        values.update(lost=self.ledger.lost, after_units=self.ledger.done, difference=self._difference)
        self._record.add("settled", **values)

    def _begin_final(self) -> None:
        """End the trials, for now."""
        raise NotImplementedError
