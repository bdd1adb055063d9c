"""What the first unit with a lever may cost, and whether the job can pay for it."""

from typing import Dict, Mapping, Optional, Set, Tuple

from . import hardware
from .config import Expected, Trials
from .estimate import BEATEN, Ledger, enough
from .lever import Lever
from .parts import Part
from .variants import Variant

FEW = "{} units are left, and a trial needs {}"
DEAR = "a first unit with it may lose {:.3g} s, and trials may lose {:.3g} s {}"
SLOW = "making it ready takes about {:.3g} s, and the units left would save {:.3g} s"

QUICK = 1.0
"""Seconds in which a variant is made ready that is worth a try for a small gain."""
TURN = 4
"""Steps for each one that counts, where variants take turns of two steps: the best one so far does as many."""
PART_SECONDS = 0.01
"""Seconds of a unit, below which its first rows are not tried first: a call costs some time whatever its size."""

CALLS = 3
"""Calls that the program does not need: its own once more, the first of what was made, and that of the comparison."""

SPARE = 1.25
"""Times what it may lose, which must be affordable when it is begun: a unit may be longer by the time it is ready."""

ANOTHER = 1.2
"""Times as fast as one conversion that another may be hoped to be: ONNX Runtime is 0.93 to 1.23 times as fast as
OpenVINO, 1.11 in the median, in the surveys of eight programs that ship (two cores of an AMD EPYC with AVX2)."""

HOPED = 1.1
"""Times as fast as without it that a lever is hoped to be of which nothing is known, where it takes time once."""

LOST = "what an earlier run had kept for it cannot be used"
NOTHING = "nothing could be tried: a unit takes {:.3g} s and trials may lose {:.3g} s in this job"
NOTHING_YET = "nothing could be tried so far: a unit takes {:.3g} s and trials may lose {:.3g} s"


class Prospects:
    """What is known before a variant is tried: what its lever declares, what is expected, what a part took."""

    def __init__(
        self,
        trials: Trials,
        ledger: Ledger,
        seconds: float,
        checks: bool,
        part: Optional[Part],
        costs: Mapping[str, float],
        turns: bool = False,
    ) -> None:
        self._trials = trials
        self._ledger = ledger
        self._seconds = seconds
        self.costs = dict(costs)
        """Seconds that it takes to make expensive levers ready, by their names."""
        self._checks = checks
        self._turns = turns
        self.part = part
        """The part of a call on which variants are tried first; None where calls have none."""
        self.ready = 0.0
        """Seconds that it takes to make a variant ready that is not expensive; where steps are tried, each of them."""
        self.partly: Dict[str, float] = {}
        """Variants whose results were compared on a part only, with their longest plausible unit in default units."""
        self.background: Dict[str, float] = {}
        """Levers that can be made ready in the background, with the seconds that the program loses all the same."""
        self.lost: Set[str] = set()
        """Levers that were offered for what an earlier run had kept for them, and which cannot be used."""
        self.unfit: Set[str] = set()
        """Variants whose results on a part were not the default's: that may be due to the part."""

    def probes(self, variant: Variant) -> bool:
        """Tell whether a variant is tried on a part first; what is compiled would be compiled for the part."""
        if self.part is None or (self._ledger.default or 0.0) < PART_SECONDS:
            return False
        return not variant.expensive and variant.name not in self.unfit

    def quick(self, variant: Variant) -> bool:
        """Tell whether a variant is made ready in a moment."""
        making = [lever for lever in variant.levers if lever.expensive]
        return sum(self.costs.get(lever.name, self._seconds) for lever in making) <= QUICK

    def risk(self, lever: Lever) -> float:
        """Return the times the default's time that the longest plausible unit with a lever takes."""
        expected = self._trials.expected.get(lever.name)
        if expected is None or expected.gain <= 1:
            return lever.risk
        return min(lever.risk, max(1.0, BEATEN / expected.gain))

    def turns(self, variant: Variant) -> bool:
        """Tell whether steps with a variant take turns with others, where switching to it is quick."""
        return (self._turns or variant.same_results) and not variant.expensive

    def copying(self, variant: Variant) -> float:
        """Return the seconds that are copied before each step that is tried."""
        return 0.0 if self._checks or variant.same_results else self.ready

    def limit(self, lever: Lever, variant: Variant, default: float) -> float:
        """Return what is lost at most by the next thing to do with a variant."""
        if not self._checks:
            return default * (self.risk(lever) - 1) + self.copying(variant)
        if variant.same_results:
            return default * (self.risk(lever) - 1)
        if variant.name in self.partly:
            return default * (self.partly[variant.name] - 1)
        if self.part is not None and self.probes(variant):
            return default * self.risk(lever) * self.part.share + self.ready
        return default * self.risk(lever) + self.ready  # a check does the unit twice

    def fitted(self, variant: Variant, ratio: float) -> None:
        """Note that results on a part agreed; ``ratio`` is its time over that of the default's whole unit."""
        if self.part is not None:
            self.partly[variant.name] = ratio / self.part.share

    def agreed(self, variant: Variant) -> None:
        """Note that results of a whole unit agreed."""
        self.partly.pop(variant.name, None)
        if variant.name in self.unfit:
            self.part = None  # rows depend on one another: parts tell nothing

    def forget(self, best: Variant) -> None:
        """Forget what parts have told, but that the best variant's whole units are still to be compared."""
        self.partly = {name: ratio for name, ratio in self.partly.items() if name == best.name}

    def refusal(
        self, lever: Lever, variant: Variant, default: float, best: float, improved: bool, replaces: bool = False
    ) -> Optional[str]:
        """Return why a lever is not tried now; None when it is affordable, and the units left can pay for it.

        A unit cannot be stopped: the longest plausible one must fit. ``default`` and ``best`` are units' times,
        ``improved`` is whether something faster is in use, and ``replaces`` whether the lever would take its place.
        """
        if any(other.name in self.lost for other in variant.levers):
            return LOST
        ledger = self._ledger
        few = self.few(default, improved, self.turns(variant))
        making = [other for other in variant.levers if other.expensive]  # all of it is made anew for the variant
        if not making:
            taking = lever.taking()
            saving = ledger.remaining * best * _saved(self._gain(lever))
            if 0 < saving <= taking:
                return SLOW.format(taking, saving)
            limit = self.limit(lever, variant, default) + taking
            return few or (None if ledger.affordable(limit) else self._dear(limit))
        given = self._trials.expected.get(lever.name) if making == [lever] else None
        cost = sum(self.costs.get(other.name, self._seconds) for other in making)
        gain, seconds = self._expected(given, cost * hardware.load())
        seconds += lever.taking()
        over = _over(None if given is None else given.gain, default, best, replaces)
        saving = ledger.remaining * best * _saved(_hoped(gain, over, replaces))
        if saving <= seconds:
            return SLOW.format(seconds, saving)
        limit = seconds + default + self.copying(variant)
        pays = self._trials.units is not None and ledger.remaining * best * _saved(over) > seconds
        if pays and ledger.dared(limit):
            return few
        return few or (None if ledger.affordable(limit) else self._dear(limit))

    def ahead(self, lever: Lever, default: float, best: float, replaces: bool, made: bool = False) -> float:
        """Return the seconds of the units left, if a lever brings what it usually does; what it takes is among them.

        ``made`` is whether it has been made ready.
        """
        given, left = self._trials.expected.get(lever.name), self._ledger.remaining * best
        gain = self._trials.foreseen.get(lever.name, None if given is None else given.gain)
        saved = _saved(_over(gain, default, best, replaces))
        cost = 0.0 if made else lever.taking()
        if lever.expensive and not made:
            cost = self._expected(given, self.costs.get(lever.name, self._seconds) * hardware.load())[1]
        if lever.name in self.background:  # what is done meanwhile gains nothing
            cost = self.background[lever.name] + cost * saved
        return min(left, cost + left * (1 - saved))

    def background_refusal(
        self, lever: Lever, default: float, best: float, improved: bool, ready: bool, replaces: bool = False
    ) -> Optional[str]:
        """Return why a lever is not made ready in the background now, or not tried once it is ``ready``.

        The units that are done meanwhile gain nothing, and no others than those that are left then can pay for it.
        """
        given = self._trials.expected.get(lever.name)
        gain, seconds = self._expected(given, self.costs.get(lever.name, self._seconds))
        over = _over(None if given is None else given.gain, default, best, replaces)
        seconds = 0.0 if ready else seconds * hardware.load()
        left = max(0.0, self._ledger.remaining * best - seconds)
        saving, loss = left * _saved(_hoped(gain, over, replaces)), self.background[lever.name]
        if saving <= loss:
            return SLOW.format(loss, saving)
        units, needed = int(left / max(best, 1e-9)), self._needed(default, improved)
        if units < needed:
            return FEW.format(units, needed)
        if self._trials.units is not None and over > 1 and left * _saved(over) >= 2 * loss:
            return None
        limit = loss + CALLS * default
        return None if self._ledger.affordable(limit if ready else SPARE * limit) else self._dear(limit)

    def _gain(self, lever: Lever) -> float:
        """Return the factor that is expected of a lever that is ready in a moment, or hoped for."""
        given = self._trials.expected.get(lever.name)
        return HOPED if given is None else given.gain

    @staticmethod
    def _expected(given: Optional[Expected], seconds: float) -> Tuple[float, float]:
        """Return gain and cost as they are known, else a usual gain and the ``seconds`` that are estimated here."""
        if given is None:
            return BEATEN, seconds
        return given.gain, seconds if given.seconds is None else given.seconds

    def _dear(self, limit: float) -> str:
        when = "so far" if self._trials.units is None else "in this job"
        return DEAR.format(limit, max(0.0, self._ledger.left), when)

    def nothing(self, default: float) -> str:
        """Return why nothing was tried, where there were levers to try."""
        text = NOTHING_YET if self._trials.units is None else NOTHING
        return text.format(default, max(0.0, self._ledger.left))

    def few(self, default: float, improved: bool, turns: bool = False) -> Optional[str]:
        """Return a sentence where too few units are left for a trial; ``turns`` is whether steps take turns in it."""
        needed = self._needed(default, improved, turns)
        return FEW.format(self._ledger.remaining, needed) if self._ledger.remaining < needed else None

    def _needed(self, default: float, improved: bool, turns: bool = False) -> int:
        """Return the units that must be left for a trial: its own, and twice as many where there is less to gain."""
        if not self._checks:
            return (TURN if self._turns or turns else 1) * (enough(default) + 1)
        own = 2 * enough(default) + 2  # a comparison, a warming up, and turns with the best so far
        return 2 * own if improved else own


def _over(gain: Optional[float], default: float, best: float, replaces: bool) -> float:
    """Return the factor that is expected over what is in use; 1 where nothing is.

    What is expected of a lever is over the default, whose units take ``default`` seconds; those of what it ``replaces``
    take ``best``.
    """
    if gain is None:
        return 1.0
    return gain * best / max(default, 1e-9) if replaces else gain


def _hoped(gain: float, over: float, replaces: bool) -> float:
    """Return the factor for which a lever is tried, with what trials may lose anyway.

    That of two conversions one is faster by that much can only be found out.
    """
    return max(over, ANOTHER) if replaces and gain > 1 else gain


def _saved(gain: float) -> float:
    """Return the part of a unit's time that is saved where it is done ``gain`` times as fast."""
    return 1 - 1 / max(1.0, gain)
