"""Seconds that were measured on other hardware, carried over by what the catalogue says of both."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.model.measurement import Hardware
from modak_deploy.optimiser.samples import Sample
from modak_deploy.performance.features import speeds
from modak_deploy.performance.matching import Work, widening
from modak_deploy.performance.statistics import Interval

HARDWARE = frozenset({"processor", "cores", "accelerator"})
"""Differences that the catalogue's figures speak of."""
BESIDES = 2.0
"""Factor either way on the span that the figures give. Of the pairs of shipped measurements that differ in hardware
alone the worst lies outside of the span by a factor of 1.88 (tests/unit/optimiser/test_carrying.py)."""
Carry = Callable[[Sample], Interval | None]


@dataclass(frozen=True)
class Carrier:
    """Takes seconds to the hardware of the work at hand."""

    work: Work
    catalogue: Catalogue

    def __call__(self, sample: Sample) -> Interval | None:
        """Return the seconds here; None where the catalogue does not know one of the two, or has no say in it."""
        if not sample.differences & HARDWARE:
            return None
        factor = between(sample.records[0].hardware, self.work.hardware, self.catalogue)
        if factor is None:
            return None
        there = sample.interval()
        seconds = Interval(there.value * factor.value, there.low * factor.low, there.high * factor.high)
        return seconds.widened(widening(sample.differences - HARDWARE))


def between(there: Hardware, here: Hardware, catalogue: Catalogue) -> Interval | None:
    """Return the time here over the time there, of work that is done the same way.

    A program gains from faster arithmetic, from faster memory, or, as a serial one does from more cores, from nothing:
    the ratio lies between the least and the greatest of these, and its value in the middle, as factors go.
    """
    if there.cores is None and not there.accelerators:
        return None  # a figure for a whole processor says nothing of a share of it
    if here.cores is None and not here.accelerators:
        return None
    first, other = speeds(there, catalogue), speeds(here, catalogue)
    if first is None or other is None:
        return None
    ratios = (1.0, first[0] / other[0], first[1] / other[1])
    low, high = min(ratios), max(ratios)
    return Interval(math.sqrt(low * high), low / BESIDES, high * BESIDES)
