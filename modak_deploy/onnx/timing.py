"""How long one call takes: all engines in every round, so that what the machine does meets all alike."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ROUNDS = 15
"""Most calls of each engine."""
_LEAST = 5
_SHORT = 0.2
"""Seconds of a call up to which what the call before it left behind can be seen in its time."""


@dataclass(frozen=True)
class Times:
    """Seconds of single calls."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of an interval that holds the median in about 95 % of cases, by order statistics (Conover, 3.2)."""
        ordered = sorted(self.seconds)
        count = len(ordered)
        reach = 0.98 * count**0.5
        low = max(0, int(count / 2 - reach))
        return ordered[low], ordered[min(count - 1, count - 1 - low)]

    def entry(self, **more: Any) -> dict[str, Any]:
        """Return the manifest's ``Timing``, and ``seconds`` with every value."""
        low, high = self.interval
        return {
            "median": self.median,
            "low": low,
            "high": high,
            "runs": len(self.seconds),
            "seconds": list(self.seconds),
            **more,
        }


def interleaved(
    calls: Mapping[str, Callable[[], Any]], *, budget: float, rounds: int = ROUNDS, least: int = _LEAST
) -> dict[str, Times]:
    """Return the times of each call, all of them in every round, until ``budget`` seconds or ``rounds`` are over.

    Threads of the engine before still spin, and the caches hold its data: next to PyTorch 2.13, whose OpenMP threads
    wait that way, ONNX Runtime 1.32 took 2.1 ms for what takes 0.1 ms alone. So the order changes from round to round,
    and a short call is made twice, of which the second one is timed.
    """
    last = {name: _seconds(call) for name, call in calls.items()}  # what is allocated or compiled in the first call
    durations: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffled = list(calls), random.Random(0)  # noqa: S311 - an order, not a secret
    end = time.monotonic() + budget
    for number in range(rounds):
        if number >= least and time.monotonic() > end:
            break
        shuffled.shuffle(order)
        for name in order:
            if last[name] < _SHORT:
                calls[name]()
            last[name] = _seconds(calls[name])
            durations[name].append(last[name])
    return {name: Times(tuple(seconds)) for name, seconds in durations.items()}


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def faster(candidate: Times, other: Times, gain: float) -> bool:
    """Return whether ``one`` takes at most ``1 - gain`` of the time of ``other``, and not by chance alone.

    Both medians come from the same rounds, so that the ratio within each round is what is looked at.
    """
    ratios = sorted(a / b for a, b in zip(candidate.seconds, other.seconds, strict=False))
    if not ratios:
        return False
    middle = statistics.median(ratios)
    _, high = Times(tuple(ratios)).interval
    return middle <= 1 - gain and high < 1
