"""Robust estimates of the time of a unit, and what trials have cost so far."""

import math
import statistics
from collections import deque
from typing import Deque, Iterable, List, Optional, Sequence, Tuple

FEWEST = 3
MOST = 30
LEAST_SECONDS = 0.06
"""Time that the units of an estimate take together, where units are short."""
LEAST_NOISE = 0.01
DARED = 0.2
"""Part of the time that may be lost on what is expected to be worth it: three of four other programs got it back."""
BEATEN = 1.5
"""Times the best variant's time, from which one unit is enough to give a variant up."""
OUTLIER = 2.0
"""Times the steady time, from which a unit was held up, as the first ones are by compilation."""


def enough(seconds: float) -> int:
    """Return how many units of about this length an estimate needs."""
    return min(MOST, max(FEWEST, math.ceil(LEAST_SECONDS / max(seconds, 1e-9))))


class Estimate:
    """The times of a variant's units; the first ``skip`` are its warming up, and ``fewest`` are needed after them."""

    def __init__(self, skip: int = 0, fewest: int = FEWEST) -> None:
        self._skip = skip
        self._fewest = fewest
        self._times: Deque[float] = deque(maxlen=MOST)
        self._median: Optional[float] = None
        self.count = 0

    def add(self, seconds: float) -> None:
        """Add a unit's time."""
        if self._skip:
            self._skip -= 1
            return
        self._times.append(seconds)
        self._median = None
        self.count += 1

    @property
    def times(self) -> List[float]:
        """Return the times of the last units."""
        return list(self._times)

    @property
    def median(self) -> float:
        """Return the typical time of a unit."""
        if self._median is None:
            self._median = statistics.median(self._times)
        return self._median

    @property
    def noise(self) -> float:
        """Return the standard error of the median, from the median absolute deviation."""
        median = self.median
        spread = statistics.median(abs(seconds - median) for seconds in self._times)
        return max(1.4826 * spread, LEAST_NOISE * median) / math.sqrt(len(self._times))

    def complete(self, other: Optional["Estimate"] = None, early: bool = True) -> bool:
        """Tell whether it is known well enough, for itself or to be told apart from another.

        ``early`` is whether one unit is enough where it is much slower; not for what was expensive to make ready.
        """
        if not self.count:
            return False
        if early and other is not None and min(self._times) > BEATEN * other.median:
            return True
        fewest = max(self._fewest, enough(self.median))
        if self.count < fewest:
            return False
        if other is None or self.count >= min(MOST, 3 * fewest):
            return True
        return abs(self.median - other.median) > 2 * (self.noise + other.noise)

    def beats(self, other: "Estimate") -> bool:
        """Tell whether it is faster by more than the noise."""
        return other.median - self.median > max(0.01 * other.median, self.noise + other.noise)


def mean(times: Iterable[float], usual: float) -> float:
    """Return the mean of at least one unit's time, to which one that was held up adds no more than an outlier's least.

    A total is a sum, and times of units have a long tail: their median is too short for it.
    """
    return statistics.fmean(min(seconds, OUTLIER * usual) for seconds in times)


def tail(estimates: Iterable[Estimate]) -> float:
    """Return how many times the median a unit takes in the mean, over the units of all ``estimates``."""
    measured = [estimate for estimate in estimates if estimate.count]
    shares = [seconds / max(estimate.median, 1e-9) for estimate in measured for seconds in estimate.times]
    return max(1.0, mean(shares, 1.0)) if shares else 1.0


class Ledger:
    """Time that trials have lost against the default, and how much they may lose.

    What a better variant saves counts too: the limit holds for the program as a whole.
    """

    def __init__(self, share: float, units: Optional[int] = None) -> None:
        self._share = share
        self._units = units
        self.default: Optional[float] = None
        """Seconds of a unit as the program does it by itself."""
        self.ran = 0.0
        self.done = 0
        self.lost = 0.0
        self._before: Optional[Tuple[float, float]] = None
        """Seconds of the last unit, where it was a variant's, and what the default was said to take in its place."""
        self.others: Sequence[Ledger] = ()
        """Ledgers of all trials of the process: where the units are the program's, all lose from the same share."""

    def unit(self, seconds: float, default: bool, beside: Optional[float] = None) -> None:
        """Book a unit of work; one of the default loses nothing, however long it takes.

        ``beside`` is what the default would have taken at that moment, where a unit next to it tells: a neighbour's
        load makes both longer. No unit can gain more than a usual unit of the default takes.
        """
        self.ran += seconds
        self.done += 1
        before, self._before = self._before, None
        if self.default is None:
            return
        if not default:
            alone = self.default if beside is None else beside
            self._before = (seconds, alone)
            self.lost += max(seconds - alone, -self.default)
        elif before is not None and seconds > BEATEN * before[1] and before[0] > before[1]:
            # The load began between two units: the default, just after, takes as long as what was booked as a loss.
            self.lost -= before[0] - before[1] - max(0.0, before[0] - seconds)

    def unseen(self, units: int, seconds: float, default: bool) -> None:
        """Book units of work that were not looked at, of so many seconds each."""
        self.ran += units * seconds
        self.done += units
        self._before = None
        if not default and self.default is not None:
            self.lost += units * (seconds - self.default)

    def charge(self, seconds: float, beside: Optional[float] = None) -> None:
        """Book time that the program alone would not have taken; what a neighbour's load adds is not the trial's."""
        self.ran += seconds
        if beside is not None and self.default is not None and beside > self.default > 0:
            seconds *= self.default / beside
        self.lost += seconds

    def lose(self, seconds: float) -> None:
        """Book that a unit, which is booked already, took so much longer for the trials' sake."""
        self.lost += seconds

    def affordable(self, seconds: float) -> bool:
        """Tell whether that much more may be lost."""
        return seconds <= self.left

    def dared(self, seconds: float) -> bool:
        """Tell whether that much more may be lost on what is expected to pay for it."""
        return seconds <= max(DARED, self._share) * self.span - self.lost - self._elsewhere

    @property
    def left(self) -> float:
        """Return the seconds that may still be lost."""
        return self._share * self.span - self.lost - self._elsewhere

    @property
    def _elsewhere(self) -> float:
        """Return what other trials have lost, where the span is the program's; else each has its own."""
        limited = self._units is not None and self.default is not None
        return sum(max(0.0, ledger.lost) for ledger in self.others if ledger is not self) if limited else 0.0

    @property
    def span(self) -> float:
        """Return the time of which a share may be lost: all of it where the units are known, else the time so far."""
        if self._units is None or self.default is None:
            return self.ran
        return max(self.ran, self._units * self.default)

    @property
    def remaining(self) -> int:
        """Return the units that are left; as many as were done where that is unknown."""
        return self.done if self._units is None else max(0, self._units - self.done)
