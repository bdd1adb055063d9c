"""Live trials: which variant the next unit of work uses, and which one stays.

A variant is a set of levers. The search starts with the default, adds one lever after another to the best variant so
far, keeps what is faster, measures the default again at the end, and settles. It knows nothing about frameworks.
"""

from typing import Any, Dict, Optional, Sequence

from . import hardware
from .choice import CHOSEN, FASTEST, FIRST_RECHECK, TRYING
from .estimate import Estimate, enough
from .irreversible import IrreversibleChoice
from .variants import CHECK, DEFAULT, PROBE, RUN, Action, Variant

CHEAP = 0.02
"""Part of a unit that a switch between steps may take, where variants take turns."""
FINAL = 5
"""Units by which the winner and the default are compared at the end, where the job can pay for them: what the next Plan
knows of their ratio is the interval of so many pairs, which three make twice as wide."""


class Search(IrreversibleChoice):
    """State of the trials of one object of the program.

    Its phases: ``baseline`` (the default is measured), ``choose`` (the next variant, if it may be tried now),
    ``probe`` (its results on a part of a call are compared), ``check`` (those of a whole call), ``measure``, ``final``
    (the default again), ``settled``. Where a switch costs little, a variant and the best one so far take turns while
    they are measured, so that a neighbour's load meets both; else one follows the other. After ``fix`` there is no
    ``baseline``: ``chosen`` measures the variant that was chosen before the run, which takes the default's place: what
    is tried must beat that one, and it is measured again at the end.
    """

    def fix(self, variant: Variant) -> None:
        """Use a variant that was chosen before the run, after one check, and go on from it with the other levers."""
        names = {lever.name for lever in variant.levers}
        self._pending = [lever for lever in self._pending if lever.name not in names]
        self._tried.add(variant.name)
        self._current, self._fixed, self._base = variant, True, variant
        self._record.add("chosen", of=self.name, variant=variant.name)
        self._phase = "check"
        if not self._checks:
            self._use_fixed(Estimate(skip=1))

    def _use_fixed(self, estimate: Estimate) -> None:
        self.best, self._fixed = self._current, False
        self._phase = "chosen"
        self._rival = self._estimates[self.best.name] = estimate
        self._sound, self._reason = self.best, CHOSEN

    def takes(self, seconds: float) -> None:
        """Take what it takes to make a variant ready, or to copy what a step changes, as far as known before."""
        self._prospects.ready = seconds

    def next(self) -> Action:
        """Return what to do with the next unit."""
        left = self._pending or self._fewer_later or self._making
        if self._phase == "settled" and left and self.ledger.done >= self._retry_at:
            self._phase = "choose"
        if self._phase in ("choose", "settled") and self._comparison_due():
            return Action(CHECK, self.best)
        if self._phase == "choose" and not self._recheck_at and self._recheck_due():
            return Action(CHECK, self.best)
        if self._phase == "choose":
            self._choose()
        if self._phase == "settled" and self._recheck_due():
            return Action(CHECK, self.best)
        if self._phase in ("check", "probe"):
            return Action(CHECK if self._phase == "check" else PROBE, self._current)
        if self._phase == "measure":
            return Action(RUN, self.best if self._turn else self._current)
        if self._phase == "baseline":
            return Action(RUN, DEFAULT)
        if self._phase == "final" and not self._turn:
            return Action(RUN, self._beginning)
        return Action(RUN, self.best)

    def report(self, variant: Variant, seconds: float) -> None:
        """Take the time of a unit that was done with a variant."""
        alone = self._book(variant, seconds)
        if self._phase == "baseline" and variant == DEFAULT:
            self._add_default(seconds)
            if self._estimates[DEFAULT.name].complete():
                self._baseline = self._default
                self._phase = "choose"
        elif self._phase == "chosen" and variant == self.best:
            self._rival.add(seconds)
            if self._rival.complete():
                self._go_on()
        elif self._phase == "choose" and variant == DEFAULT and not self.waits:  # for which memory would be shared
            self._add_default(seconds)
        elif self._phase == "measure":
            self._measured(variant, seconds, alone)
        elif self._phase == "final":
            self._measured_again(variant, seconds)

    def _add_default(self, seconds: float) -> None:
        estimate = self._estimates[DEFAULT.name]
        estimate.add(seconds)
        if estimate.count:
            self.ledger.default = estimate.median

    def _go_on(self) -> None:
        """Go on from a chosen variant whose time is known now; its gain, known before, tells what it saves."""
        self._once[self.best.name] = self._one_time
        self._last_trial = self.ledger.done
        if self._pending or self._trials.gain > 1:
            default = self._rival.median * max(1.0, self._trials.gain)
            self._estimates[DEFAULT.name] = Estimate()
            # What was known may be of other conditions: where a unit of the default was seen here, it limits the gain.
            self._add_default(default if self._seen is None else max(self._rival.median, min(default, self._seen)))
        if self._pending:
            self._phase = "choose"
        else:
            self._settle(CHOSEN)

    def verify(self) -> None:
        """Have results compared again, the winner's with the next unit: they may have changed."""
        self._recheck_at = 0
        self._remake()
        if self._phase == "measure" and self.part is not None and self.partly(self._current):
            self._phase = "probe"
        elif self._phase == "chosen" and self._checks:
            self._current, self._fixed, self._phase = self.best, True, "check"
        self._prospects.forget(self.best)

    def prepared(self, seconds: float) -> None:
        """Take the time that it took to make the variant ready."""
        self._switch = seconds
        if not self._made:  # later switches to it and back are no part of what it takes once
            self._one_time += seconds
        self.ledger.charge(seconds, self._beside)

    def probed(
        self, default_seconds: float, times: Sequence[float], difference: Optional[float], problem: Optional[str]
    ) -> None:
        """Take what calls on a part took, and how far the results differ from the default's, or why they do not fit.

        What a part takes, times the number of parts, is what the whole takes at most: what a call costs whatever its
        size is counted several times. Where the results do not fit, the whole must tell whether the variant is wrong.
        """
        part, lever = self.part, self._lever
        self.ledger.unit(default_seconds, True)
        self._beside = default_seconds
        self.ledger.charge(sum(times), default_seconds)
        if part is None or lever is None:
            self._phase = "check"
            return
        name = self._current.name
        entry: Dict[str, Any] = {"variant": name, "rows": part.rows, "batch": part.batch, "times": list(times)}
        self._record.add(
            "probe", of=self.name, default=default_seconds, difference=difference, problem=problem, **entry
        )
        if problem is None:
            self._difference = difference
            self._prospects.fitted(self._current, min(times) / max(default_seconds, 1e-9))
            self._phase = "measure"
        else:
            self._prospects.unfit.add(name)
            self._estimates[name] = Estimate()  # the check is its warming up
            self._phase = "check"
        if not self.ledger.affordable(self._prospects.limit(lever, self._current, self._default)):
            self._defer(lever)

    def checked(
        self, default_seconds: float, seconds: float, difference: Optional[float], problem: Optional[str]
    ) -> None:
        """Take the result of a check: how far the outputs differ, or why the variant cannot stay."""
        self.ledger.unit(default_seconds, True)
        self._beside = default_seconds
        self.ledger.charge(seconds, default_seconds)
        self._difference = difference
        if problem is not None:
            self.failed(problem)
            return
        self._prospects.agreed(self.current)
        if self.current == self.best:
            self._sound = self.best
        if self._phase == "check" and self._fixed:
            self._seen = default_seconds
            first = Estimate()  # the end of the job can be foretold by it at once
            first.add(seconds)
            self._use_fixed(first)
        elif self._phase == "check":
            self._phase = "measure"
            self._first_unit(seconds, default_seconds)

    def anew(self, default_seconds: float, seconds: float) -> None:
        """Have a variant made once more that an earlier run had kept, and that failed its comparison."""
        self.ledger.unit(default_seconds, True)
        self._beside = default_seconds
        self.ledger.charge(seconds, default_seconds)
        if self._phase == "check" and not self._fixed and self._lever is not None:
            self._defer(self._lever)  # what was chosen is compared again with the next unit

    def _demote(self, reason: str) -> None:
        """Go back, and on: a variant won that was right on a part of a call and is not on the whole."""
        self._record.fallback(self.best.name, reason)
        self._prospects.part = None
        self.best = self._sound
        self._reason = CHOSEN if self.best != DEFAULT and self.best == self._base else None
        if not self._estimates[self.best.name].count:
            self._estimates[self.best.name] = self._estimates["first"]
        self._rival = self._estimates[self.best.name]
        self._back()

    def failed(self, reason: str, variant: Optional[Variant] = None) -> None:
        """Give up the variant that was being tried or that was in use: ``variant``, where it is known."""
        rival = variant is not None and variant == self.best != self._current
        if self._phase in TRYING and not self._fixed and not rival:
            fewer = self._is_fewer
            if not fewer:
                self._record.fallback(self._current.name, reason)
            self._finish(reason, failed=not fewer)
            return
        if self.partly(self.best):
            self._demote(reason)
            return
        if self._phase == "final" and not self._turn and self._beginning != DEFAULT:
            self._record.fallback(self._beginning.name, reason)
            self._estimates[self._beginning.name] = self._estimates["first"]
            self._rival, self._drift_measured, self._phase = self._estimates[self.best.name], True, "choose"
            return
        broken = self.best if rival else self.current
        if broken != DEFAULT:
            self._record.fallback(broken.name, reason)
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """Go back to the default for good."""
        self._pending, self._fewer_later = [], False
        self._making = self._made_beside = None
        if self._phase != "settled" or self.best != DEFAULT:
            if self._base != DEFAULT:  # objects may share a name, so that ``settled`` does not tell whose it was
                self._record.add("given_up", of=self.name, variant=self._base.name, reason=reason)
            self.best = self._sound = DEFAULT
            self._settle(reason)

    # what a measurement says

    def _measured(self, variant: Variant, seconds: float, alone: float) -> None:
        estimate = self._estimates[self._current.name]
        self._made = self._made or variant == self._current
        turns = self._alternates(self._current)
        if self._irreversible and self._turn:
            self._measured_without(seconds)
            return
        if not turns and not self._rival.count:  # it was to take turns, and the switch took too long
            self._rival = self._estimates[self.best.name]
            self._against = (self.best.name, self._rival)
        if turns and not self._takes_turns(self._current):
            if variant == self._current and not estimate.count and not variant.expensive:
                self._first_unit(seconds, alone)
            return
        if variant != self._current:
            self._rival.add(seconds)
            if variant == DEFAULT:
                self._add_default(seconds)
            return
        estimate.add(seconds)
        if not estimate.count and not variant.expensive:
            self._first_unit(seconds, alone)
        if not estimate.count or not self._rival.count:
            return
        grown = hardware.grown(self._memory)
        longer = max(0.0, estimate.median - self._alone + self._prospects.copying(self._current))
        if grown is not None:
            self.failed("the process has grown by {} MiB with it".format(grown >> 20))
        elif estimate.complete(self._rival, early=not variant.expensive):
            if estimate.beats(self._rival):
                self.best, self._rival, self._reason = self._current, estimate, FASTEST
                if not self.partly(self.best):
                    self._sound = self.best
                self._finish("faster than the best so far")
            else:
                self._finish("not faster than {}".format(self.best.name))
        elif longer > 0 and not self.ledger.affordable(longer):  # what is not longer costs nothing to go on with
            self._finish("given up: the trials may lose no more time")

    def _alternates(self, variant: Variant) -> bool:
        """Tell whether a variant takes turns with another one: calls do, and steps where the switch to it was cheap."""
        if self._irreversible and self._phase == "measure":
            return False
        if self._checks:
            return True
        if self._alternating is None:
            self._alternating = self._prospects.turns(variant) and self._switch <= CHEAP * (self.ledger.default or 0.0)
        return self._alternating

    def _takes_turns(self, variant: Variant) -> bool:
        """Have the next unit done by the other one; False for a unit after a switch that tells nothing.

        What has threads of its own is slowed down by those of the default, which spin for a while after a unit: ONNX
        Runtime 1.32 and OpenVINO in turns took twice as long as each of them alone. Two units are done in a turn then,
        and in training as well, where the first one after a switch finds its weights and memory as the other left them.
        """
        if (variant.own_threads or not self._checks) and self._switched:
            self._switched = False
            return False
        self._turn, self._switched = not self._turn, True
        return True

    @property
    def _alone(self) -> float:
        """Return what a unit of the default takes while a variant is measured, by the units beside it."""
        usual = self.usual
        return self._rival.median * self._default / usual if usual else self._default

    def _first_unit(self, seconds: float, default: float) -> None:
        """Give a variant up at once where it is slower and a second unit would lose too much."""
        if seconds > default and not self.ledger.affordable(seconds - default):
            self._finish("slower in its first unit: {:.3g} s against {:.3g} s".format(seconds, default))

    # the end

    def _begin_final(self) -> None:
        if self._awaited():
            return
        self._beginning = self._with_what_lasts()
        if self.best in (self._beginning, DEFAULT) or self._drift_measured:
            self._settle(self._reason or self._nothing)
            return
        share = 4 if self._checks or self._turns else 2  # what took turns was measured beside the default
        usual = enough(self._default)
        if self.ledger.remaining < share * (usual + 1):
            if self._trials.units is not None:
                self._settle("the units left are few")
            return  # where nobody knows how many are left, as many are as were done: later, then
        before = self._estimates.get(self._beginning.name) or self._estimates[self._base.name]
        loss = max(0.0, before.median - self._rival.median)
        for fewest in (max(usual, FINAL), usual):
            units = fewest + 1
            if self.ledger.remaining >= share * units and self.ledger.affordable(loss * units):
                self._estimates["first"] = before
                skip = 0 if self._checks else 1
                self._estimates[self._beginning.name], self._rival = Estimate(skip, fewest), Estimate(skip, fewest)
                self._turn, self._switched, self._alternating = False, True, None
                self._phase = "final"
                return

    def _with_what_lasts(self) -> Variant:
        """Return what the winner is compared with at the end: the default, or what was chosen before the run.

        With the winner's levers whose effect stays: measured without them, the default would not be what it was before,
        and a gain would seem to have gone. Theirs is known from turns with the default as it was.
        """
        lasting = [lever for lever in self.best.levers if lever.lasting and lever not in self._base.levers]
        return Variant((*self._base.levers, *lasting))

    def _measured_again(self, variant: Variant, seconds: float) -> None:
        again, rival = self._estimates[self._beginning.name], self._rival
        turns = self._alternates(self.best)
        if turns and not self._takes_turns(self.best):
            return
        (again if variant == self._beginning else rival).add(seconds)
        if not turns:
            self._turn = again.complete()
        if not again.complete() or not rival.complete():
            return
        first = self._estimates["first"].median
        drift = {"default_first": first, "default_again": again.median, "best": rival.median}
        times: Dict[str, Any] = {"variant": self.best.name, "times": rival.times, "rival_times": again.times}
        times["rival"] = self._beginning.name
        if self._base == DEFAULT != self._beginning:
            times["gain"] = self._default / rival.median
        kept = rival.beats(again)
        self._record.add("drift", of=self.name, drift=again.median / first, kept=kept, **drift, **times)
        if self._beginning == DEFAULT:
            self.ledger.default = again.median
        self._estimates[self.best.name] = rival
        self._drift_measured = True
        self._last_trial = self.ledger.done
        self._reason = FASTEST
        if not kept:
            self.best = self._sound = self._beginning
            self._rival = again
            plain = "{}, measured again, is as fast".format("the default" if self.best == DEFAULT else self.best.name)
            self._reason = CHOSEN if self.best == self._base != DEFAULT else plain
        self._phase = "choose"

    def _comparison_due(self) -> bool:
        """Tell whether the winner's results, compared on a part so far, are to be compared on the whole: soon."""
        if not self.partly(self.best):
            return False
        usual = self.usual
        return usual is not None and self.ledger.affordable(usual)

    def _recheck_due(self) -> bool:
        """Tell whether the winner's results are to be compared again."""
        if not self._checks or self.best.same_results or self.ledger.done < self._recheck_at:
            return False
        if self._recheck_at and self.ledger.default is not None and not self.ledger.affordable(self._rival.median):
            return False
        self._recheck_at = max(FIRST_RECHECK, 2 * self.ledger.done)
        return True
