"""A survey: all sets of levers that can be on together, measured in turns within one run of the program.

Live trials stop at what a job can afford, and go from one best set to the next. A survey has the run to itself, and is
the truth by which their choice is judged: every set is measured in every round, in random order and next to the
default, so that a machine whose speed changes changes all of them. What a set gains is the median over the rounds of
the default's time by its own.
"""

import dataclasses
import itertools
import random
import statistics
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from .config import Trials
from .lever import Lever
from .search import Search
from .variants import CHECK, DEFAULT, RUN, Action, Variant

FIRST_ROUNDS = 3
"""Rounds of each set, after which the better ones go on."""
ROUNDS = 12
"""Rounds of those."""
FINALISTS = 6
"""Sets that go on, beside the default and what was asked for."""
WORSE = 0.8
"""Times as fast as the default, below which a lever is in no combination."""
COMBINATIONS = 16
"""Combinations at most: those of the levers that gain most alone."""
LARGEST = 4
"""Levers in a combination at most."""
DEAR = 10.0
"""Seconds to make a lever ready, from which it is combined only where it is the fastest alone."""
ANY = 1e9
"""Share of the time that a survey may lose: as much as it takes."""


class Row:
    """One set of levers, and the seconds of its unit in each round."""

    def __init__(self, variant: Variant, asked: bool = False) -> None:
        self.variant = variant
        self.asked = asked
        """Whether it goes on to the last round, however slow it is."""
        self.seconds: Dict[int, float] = {}
        self.once = 0.0
        """Seconds that it took to make it ready."""
        self.difference: Optional[float] = None
        """How far its results are from the default's, where they can be compared."""

    def gain(self, default: "Row") -> Optional[float]:
        """Return how many times as fast as the default it is; None where no round has both."""
        both = [number for number in self.seconds if number in default.seconds]
        ratios = [default.seconds[number] / max(self.seconds[number], 1e-9) for number in both]
        return statistics.median(ratios) if ratios else None


class Survey(Search):
    """The survey of one object of the program, in the place of its trials.

    Its phases: ``baseline`` (the default alone), ``check`` (a set's results are compared, or its first unit is done),
    ``measure`` (the rounds), ``settled``. In each round a set does two units, of which the second counts: the first
    finds memory, caches and threads as another set left them. Objects follow one another: what a set changes for the
    whole process, such as threads, would meet the others.
    """

    def __init__(
        self, name: str, levers: Sequence[Lever], trials: Trials, record: Any, checks: bool = True, **options: Any
    ) -> None:
        super().__init__(name, (), dataclasses.replace(trials, share=ANY), record, checks, **options)
        self._default_row = Row(DEFAULT, asked=True)
        self._rows: Dict[str, Row] = {DEFAULT.name: self._default_row}
        self._dropped: Set[str] = set()
        self._levers = list(levers)
        asked = list(self._sets_of(trials.sets))
        self._asked = {variant.name for variant in asked}
        self._unready = [*(Variant((lever,)) for lever in levers), *asked]
        self._left: List[Variant] = []
        """What is left of the round, the next at the end."""
        self._round = 0
        self._combined = False
        self._final: Optional[List[str]] = None
        """The sets that go on to the last round, once that is known."""
        self._second = False
        self._switching = 0.0
        """Seconds in which sets were made ready and switched to."""
        self._order = random.Random(0)  # noqa: S311 - an order of units

    def _sets_of(self, sets: Sequence[Sequence[str]]) -> Iterator[Variant]:
        """Yield the sets of levers that are asked for, of levers in their usual order."""
        for names in sets:
            variant = Variant(tuple(lever for lever in self._levers if lever.name in names))
            missing = sorted(set(names) - {lever.name for lever in variant.levers})
            reason = "it is not offered here" if missing else None
            if reason is None and not _together(variant.levers):
                missing, reason = list(names), "levers of the set cannot be on together"
            if reason is None:
                yield variant
            else:
                self._record.add("not_tried", of=self.name, lever=" + ".join(missing), reason=reason)

    @property
    def wanted(self) -> Set[str]:
        """Return the names of the variants that may still be used."""
        if self.settled:
            return {self.best.name}
        names = self._rows if self._final is None else self._final
        return {*names, *(variant.name for variant in self._unready)} - self._dropped

    def fix(self, variant: Variant) -> None:
        """Measure what was chosen before the run beside all others: the default is what it is compared with."""
        self._record.add("chosen", of=self.name, variant=variant.name)
        order = {lever.name: number for number, lever in enumerate(self._levers)}
        levers = _reversible(self.name, variant.levers, self._record)
        if not levers:
            return
        # In the order of the combinations, so that it is none of them once more.
        variant = Variant(tuple(sorted(levers, key=lambda lever: order.get(lever.name, len(order)))))
        self._unready.append(variant)
        self._asked.add(variant.name)

    def next(self) -> Action:
        """Return what to do with the next unit."""
        if self._phase == "settled":
            return Action(CHECK if self._recheck_due() else RUN, self.best)
        if self._phase == "baseline" or self._waits():
            return Action(RUN, DEFAULT)
        if not self._left and not self._unready and not self._next_round():
            self._settle_survey()
            return Action(RUN, self.best)
        while self._unready and self._unready[0].name in self._rows:
            self._rows[self._unready[0].name].asked |= self._unready.pop(0).name in self._asked
        if self._unready:
            return self._check_next()
        if not self._left:
            return self.next()
        self._phase, self._current = "measure", self._left[-1]
        return Action(RUN, self._current)

    def _check_next(self) -> Action:
        if self._current != self._unready[0] or self._phase != "check":
            self._current, self._phase = self._unready[0], "check"
            self._record.add("trying", of=self.name, lever=self._current.levers[-1].name, variant=self._current.name)
        return Action(CHECK if self._checks else RUN, self._current)

    def _waits(self) -> bool:
        """Tell whether another object's survey goes first."""
        for other in self.beside:
            if other is self:
                return False
            if isinstance(other, Survey) and not other.settled:
                return True
        return False

    def report(self, variant: Variant, seconds: float) -> None:
        """Take the time of a unit that was done with a variant."""
        self.ledger.unit(seconds, variant == DEFAULT)
        if self._phase == "baseline" and variant == DEFAULT:
            self._add_default(seconds)
            if self._estimates[DEFAULT.name].complete():
                self._baseline, self._phase = self._default, "check"
        elif self._phase == "check" and variant == self._current != DEFAULT:
            if variant.expensive:  # a step's first call compiles
                self._once[variant.name] = self._once.get(variant.name, 0.0) + max(0.0, seconds - self._default)
            self._is_ready(None)
        elif self._phase == "measure" and self._left and variant == self._current == self._left[-1]:
            if self._second:
                self._rows[variant.name].seconds[self._round] = seconds
                self._left.pop()
            self._second = not self._second

    def prepared(self, seconds: float) -> None:
        """Take the time that it took to make the variant ready."""
        if self._phase == "check":
            self._once[self._current.name] = self._once.get(self._current.name, 0.0) + seconds
        self._switching += seconds
        self.ledger.charge(seconds)

    def checked(
        self, default_seconds: float, seconds: float, difference: Optional[float], problem: Optional[str]
    ) -> None:
        """Take the result of a check: how far the outputs differ, or why the variant cannot stay."""
        self.ledger.unit(default_seconds, True)
        self.ledger.charge(seconds)
        if problem is not None:
            self.failed(problem)
        elif self._phase == "check" and self._current != DEFAULT:
            self._is_ready(difference)

    def _is_ready(self, difference: Optional[float]) -> None:
        variant = self._unready.pop(0)
        self._record.add("ready", of=self.name, variant=variant.name, difference=difference)
        row = self._rows.setdefault(variant.name, Row(variant, variant.name in self._asked))
        row.once, row.difference = self._once.get(variant.name, 0.0), difference

    def verify(self) -> None:
        """Have results compared again, and sets measured anew: the weights may have changed."""
        self._recheck_at = 0
        if self._phase in ("check", "measure"):
            self._unready = [*(row.variant for row in self._rows.values() if row.variant != DEFAULT), *self._unready]
            self._rows = {DEFAULT.name: self._default_row}
            self._once, self._left, self._second, self._final = {}, [], False, None

    def failed(self, reason: str, variant: Optional[Variant] = None) -> None:
        """Give up the variant that was being measured or that is in use."""
        broken = variant or (self.best if self.settled else self._current)
        if broken == DEFAULT:
            return
        self._record.fallback(broken.name, reason)
        if len(broken.levers) == 1:
            self._record.add("trial", of=self.name, variant=broken.name, result=reason, failed=True)
        self._dropped.add(broken.name)
        self._rows.pop(broken.name, None)
        self._unready = [other for other in self._unready if other != broken]
        self._left = [other for other in self._left if other != broken]
        self._second = False
        self._current = DEFAULT  # which does this unit
        if self.best == broken:
            self.stop(reason)

    # the rounds

    def _next_round(self) -> bool:
        """Begin another round, or have the combinations made ready before it; False when nothing is left to do."""
        new = [row for row in self._rows.values() if len(row.seconds) < FIRST_ROUNDS and row.variant != DEFAULT]
        if not new and not self._combined:
            self._combined = True
            self._unready = list(self._combinations())
            if self._unready:
                return True
        if not new:
            if self._final is None:
                self._final = [DEFAULT.name, *self._finalists()]
            rows = [self._rows[name] for name in self._final if name in self._rows]
            new = [row for row in rows if len(row.seconds) < ROUNDS and row.variant != DEFAULT]
        if not new:
            return False
        self._round += 1
        self._left = [DEFAULT, *(row.variant for row in new)]
        self._order.shuffle(self._left)
        self._second = False
        return True

    def _finalists(self) -> List[str]:
        rows = [row for row in self._rows.values() if row.variant != DEFAULT]
        rows.sort(key=lambda row: -(row.gain(self._default_row) or 0.0))
        best = [row for row in rows if not row.asked][:FINALISTS]
        return [row.variant.name for row in (*best, *(row for row in rows if row.asked))]

    def _combinations(self) -> Iterator[Variant]:
        """Yield the sets of levers that promise most, by what each of them gains alone."""
        alone = {lever.name: self._gain_alone(lever) for lever in self._levers}
        fastest = max([1.0, *alone.values()])
        useful = [
            lever
            for lever in self._levers
            if alone[lever.name] >= WORSE and (self._once.get(lever.name, 0.0) <= DEAR or alone[lever.name] >= fastest)
        ]
        promised: Dict[Variant, float] = {}
        for size in range(2, LARGEST + 1):
            for variant in map(Variant, itertools.combinations(useful, size)):
                if _together(variant.levers) and variant.name not in self._rows and variant.name not in self._dropped:
                    promised[variant] = 1.0
                    for lever in variant.levers:
                        promised[variant] *= alone[lever.name]
        yield from sorted(promised, key=lambda variant: -promised[variant])[:COMBINATIONS]

    def _gain_alone(self, lever: Lever) -> float:
        row = self._rows.get(Variant((lever,)).name)
        return (row.gain(self._default_row) if row is not None else None) or 0.0

    # the end

    def stop(self, reason: str) -> None:
        """Go back to the default for good."""
        if not self.settled:
            self._tell()
        self._unready, self._left = [], []
        super().stop(reason)

    def end(self) -> None:
        """Tell what was measured: the program ends."""
        if self._phase not in ("settled", "baseline"):
            self._settle_survey("the program ended before the survey did")

    def _settle_survey(self, reason: str = "fastest of all that was measured") -> None:
        self._phase = "settled"  # told once, whatever interrupts it
        self.best = self._tell()
        best = self._rows.get(self.best.name)
        values = {} if best is None else {"gain": best.gain(self._default_row)}
        if not self._checks:  # in calls it is a part of the unit
            values["switching"] = self._switching
        self._settle(reason, **values)

    def _tell(self) -> Variant:
        """Tell what was measured, the fastest first; return that."""
        rows = [(gain, row) for row in self._rows.values() if (gain := row.gain(self._default_row)) is not None]
        rows.sort(key=lambda pair: -pair[0])
        for gain, row in rows:
            values: Dict[str, Any] = {"of": self.name, "levers": [lever.name for lever in row.variant.levers]}
            rounds = sorted(row.seconds)
            values.update(rounds=rounds, times=[row.seconds[number] for number in rounds], gain=gain)
            if row.variant == DEFAULT:
                values.update(before=self._baseline)
            self._record.add("surveyed", asked=row.asked, once=row.once, difference=row.difference, **values)
        # Of the others what was made is no longer there, and they have few rounds.
        best = [row for _, row in rows if self._final is None or row.variant.name in self._final]
        return best[0].variant if best else DEFAULT


def _together(levers: Sequence[Lever]) -> bool:
    """Tell whether levers can be on together."""
    return not any(first.excludes(second) for first, second in itertools.combinations(levers, 2))


def _reversible(name: str, levers: Sequence[Lever], record: Any) -> List[Lever]:
    """Return the levers that can be switched off again; that others are not measured is recorded."""
    for lever in [lever for lever in levers if lever.irreversible]:
        record.add("not_tried", of=name, lever=lever.name, reason="it cannot be switched off, and others on again")
    return [lever for lever in levers if not lever.irreversible]


def search_for(name: str, levers: Sequence[Lever], trials: Trials, record: Any, **options: Any) -> Search:
    """Return the trials of one object of the program, or its survey, as the configuration asks.

    Where a process tries nothing, such as one of several ranks, no levers are offered: what was chosen is on.
    """
    if trials.surveys:
        levers = _reversible(name, levers, record)
    return (Survey if trials.surveys and levers else Search)(name, levers, trials, record, **options)
