"""Counters of the program's units of work, and how its time divides into start, compilation and steady work."""

import contextlib
import statistics
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from . import clock, hardware
from .estimate import OUTLIER, mean

HEAD = 10
"""First units that may hold compilation."""
RECENT = 64
"""Last units of which the steady time is the median."""
FORECAST = 0.05
"""Part of all units, after which the time of the whole process is forecast for the record."""
FEWEST = 3
"""Units that a forecast needs: the first one often holds compilation."""
MANY = 20
"""Pauses between units, from which their mean tells more than their median: what comes at every tenth unit counts."""
PAUSES = 256
"""Last pauses that are looked at: what comes with every epoch is among them several times."""


class Progress:
    """One counter: units of one kind, done by one object of the program."""

    def __init__(self, name: str, unit: str, process_start: float, expected: Optional[int] = None) -> None:
        self.name = name
        self.unit = unit
        self.count = 0
        self.expected = expected
        self.forecast: Optional[float] = None
        self.seconds = 0.0
        self.loss: Optional[float] = None
        self.features: Dict[str, Any] = {}
        self.pace: Optional[Callable[[], Optional[float]]] = None
        """Gives the seconds of a unit as units are done from now on, where trials know: the recent ones were tried."""
        self.pauses: List[Any] = []
        """What tells how many units were not looked at since one was."""
        self.asynchronous = False
        """Whether a unit is begun and not waited for, as on a GPU: what it takes is in the pause after it as well."""
        self._process_start = process_start
        self._first: Optional[float] = None
        self._last = 0.0
        self._head: List[float] = []
        self._recent: Deque[float] = deque(maxlen=RECENT)
        self._pauses: Deque[float] = deque(maxlen=PAUSES)

    def add(self, end: float, seconds: float, units: int = 1) -> None:
        """Count what took ``seconds`` until ``end``, a time of ``clock.now``."""
        if self._first is None:
            self._first = end - seconds
        else:
            self._pauses.append(max(0.0, end - seconds - self._last) / units)
        self.count += units
        self.seconds += seconds
        self._last = end
        each = seconds / units
        if len(self._head) < HEAD:
            self._head.append(each)
        self._recent.append(each)
        if self.forecast is None and self.expected is not None and self.count >= max(FEWEST, FORECAST * self.expected):
            self.forecast = end - self._process_start + (self.left() or 0.0)

    def left(self) -> Optional[float]:
        """Return the seconds that the units left will take, with the pauses between them; None where unknown."""
        if self.expected is None or not self.count:
            return None
        pace = self.pace() if self.pace is not None else None
        left = max(0, self.expected - self.count)
        if pace is not None and self.asynchronous:  # units that are tried are waited for: their pauses are the shortest
            recent = sorted(list(self._pauses)[-RECENT:])
            return left * (pace + (recent[len(recent) // 10] if recent else 0.0))
        each = self._mean() if pace is None else pace
        return left * (each + self._pause())

    def _mean(self) -> float:
        """Return the mean time of a recent unit."""
        steady = self.steady()
        later = list(self._recent)[0 if self.count > RECENT + HEAD else HEAD :]
        return mean(later, steady) if later else steady

    def _pause(self) -> float:
        """Return the seconds between two units: loading of data, output, other models' work."""
        if len(self._pauses) < MANY:
            return statistics.median(self._pauses) if self._pauses else 0.0
        usual = sorted(self._pauses)[:-1]  # the longest may have come once, as the first saving of a model does
        return (sum(usual) + usual[-1]) / len(self._pauses)

    def state(self) -> Dict[str, Any]:
        """Return what is known about the counter now."""
        units = self.count + sum(pause.passed for pause in self.pauses)
        values: Dict[str, Any] = {"unit": self.unit, "units": units, "seconds": self.seconds}
        if self._first is not None:
            steady = self.steady()
            if self.asynchronous:
                steady += self._pause()
            values["start"] = max(0.0, self._first - self._process_start)
            values["compile"] = self.compile()
            values["steady"] = steady
            values["elapsed"] = self._last - self._first
        left = self.left()
        if left is not None:
            values["left"] = left
        if self.forecast is not None:
            values["forecast"] = self.forecast
        if self.loss is not None:
            values["loss"] = self.loss
        if self.features:
            values["features"] = self.features
        return values

    def steady(self) -> float:
        """Return the seconds of a unit once all is compiled."""
        later = list(self._recent)[HEAD:] if self.count < RECENT else list(self._recent)
        return statistics.median(later or list(self._recent)[1:] or self._recent)

    def compile(self) -> float:
        """Return the seconds by which the first units exceeded the steady time."""
        steady = self.steady() + (self._pause() if self.asynchronous else 0.0)
        return sum(seconds - steady for seconds in self._head if seconds > OUTLIER * steady)


class Counters:
    """All counters of the process, and when their state reaches the record."""

    def __init__(self, record: Any, interval: float = 5.0, expected: Optional[int] = None) -> None:
        self._record = record
        self._interval = interval
        self._expected = expected
        self._counters: List[Progress] = []
        self._names: Dict[str, int] = {}
        self._start = clock.now()
        self._next = 0.0
        self._own_peak: Tuple[Optional[int], Optional[int]] = (None, None)
        """The peak that work of the launcher's own left, and the program's before it."""

    def counter(self, name: str, unit: str) -> Progress:
        """Return a new counter, numbered where its name is taken."""
        self._names[name] = self._names.get(name, 0) + 1
        if self._names[name] > 1:
            name = "{} {}".format(name, self._names[name])
        counter = Progress(name[:120], unit, self._start, self._expected)
        self._counters.append(counter)
        return counter

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the memory of what is done within out of the program's peak: it is the launcher's own work."""
        before = self.peak_memory()
        try:
            yield
        finally:
            self._own_peak = (hardware.peak_memory(), before)

    def peak_memory(self) -> Optional[int]:
        """Return the largest resident size of the program so far, in bytes; None where unknown."""
        peak = hardware.peak_memory()
        return self._own_peak[1] if peak == self._own_peak[0] else peak

    def tick(self, now: float) -> None:
        """Write the record when it is time."""
        if now >= self._next:
            self._next = now + self._interval
            self.write()

    def write(self) -> None:
        """Bring the state of all counters to the record."""
        counters = sorted(self._counters, key=lambda counter: -counter.seconds)[:20]
        for counter in counters:
            if counter.count:
                self._record.state(counter.name, counter.state())
        if counters:
            self._record.state("process", {"peak_memory": self.peak_memory()})
        if not self._record.empty:
            self._record.write()


def weakly(method: Callable[[], Optional[float]]) -> Callable[[], Optional[float]]:
    """Return what calls a method as long as its object lives: counters are kept, and what they count is not."""
    reference = weakref.WeakMethod(method)

    def call() -> Optional[float]:
        bound = reference()
        return None if bound is None else bound()

    return call
