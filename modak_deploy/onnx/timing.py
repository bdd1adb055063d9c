"""How long one call takes: all engines in every round, so that what the machine does meets all alike."""

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
_SETTLING = 0.05
"""Seconds of such calls that are not timed: threads of OpenMP and of ONNX Runtime spin for a few milliseconds."""


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
    wait that way, ONNX Runtime 1.32 took 2.1 ms for what takes 0.1 ms alone. So short calls are made for a while before
    one is timed, and in the rounds each engine comes after each other one equally often.
    """
    last = {name: _seconds(call) for name, call in calls.items()}  # what is allocated or compiled in the first call
    durations: dict[str, list[float]] = {name: [] for name in calls}
    names, orders = list(calls), _orders(len(calls))
    end = time.monotonic() + budget
    for number in range(rounds):
        if number >= least and time.monotonic() > end:
            break
        for name in (names[at] for at in orders[number % len(orders)]):
            if last[name] < _SHORT:
                settled = time.monotonic() + _SETTLING
                calls[name]()
                while time.monotonic() < settled:
                    calls[name]()
            last[name] = _seconds(calls[name])
            durations[name].append(last[name])
    return {name: Times(tuple(seconds)) for name, seconds in durations.items()}


def _orders(count: int) -> list[list[int]]:
    """Return orders in which each comes directly after each other one equally often (E. J. Williams, 1949)."""
    zigzag = [at // 2 if at % 2 == 0 else count - 1 - at // 2 for at in range(count)]
    square = [[(at + turn) % count for at in zigzag] for turn in range(count)]
    return square if count % 2 == 0 else [order for row in square for order in (row, row[::-1])]


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
