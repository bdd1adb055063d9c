"""What jobs that did the same work before have shown, by which the next one decides what it tries."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from modak_deploy.model.measurement import Measurement
from modak_deploy.optimiser.evidence import Evidence, Sample, ratio_within
from modak_deploy.optimiser.options import Location, Option

PROMISING = 1.03
"""Times as fast as the chosen option, from which what may be faster is worth another trial."""


@dataclass(frozen=True)
class Earlier:
    """What jobs that did the same work at a place before have shown."""

    jobs: int = 0
    """How many there were, as far as their records tell when they began."""
    tried: frozenset[str] = frozenset()
    """Levers that need no further trial: they were part of any configuration, or failed.

    What seems to be faster than what is chosen now, but not surely, is worth another trial: too few units were seen.
    """
    last: frozenset[str] = frozenset()
    """Levers to be tried after all others: of them one unit alone is known, which was slower."""
    gain: float = 1.0
    """How many times as fast as the default the levers at hand were at the least."""
    gains: Mapping[str, float] = field(default_factory=dict)
    """How many times as fast as the default's a unit was, of levers with which units are faster than with those chosen.

    What such a lever takes once is what it was not chosen for; an earlier job may have kept what it made.
    """


def earlier(evidence: Evidence, location: Location, chosen: Option, gain: float = 1.0) -> Earlier:
    """Return what jobs have shown of the very same work at ``location``, where ``chosen`` does it now."""
    plain = location.option(())
    samples = {option: sample for option, sample in evidence.direct.items() if option.with_levers(()) == plain}
    records: list[Measurement] = [record for sample in samples.values() for record in sample.records]
    used = {name for option in samples for name in option.levers}
    failed = {name for record in records for name in record.failed or ()}
    gains: dict[str, float] = {}
    for option, gained in _faster_by_unit(samples, chosen, plain).items():
        for name in set(option.levers) - failed:
            gains[name] = max(gained, gains.get(name, 0.0))
    return Earlier(
        jobs=len({run.time for record in records for run in record.runs if run.time is not None}),
        tried=frozenset(used - _unsettled(evidence, samples, chosen) | failed),
        last=frozenset(name for record in records for name in record.slower_at_first or ()),
        gain=gain,
        gains=gains,
    )


def _unsettled(evidence: Evidence, samples: Mapping[Option, Sample], chosen: Option) -> set[str]:
    levers: set[str] = set()
    for option, sample in samples.items():
        if chosen in samples and option != chosen:
            ratio = ratio_within(evidence.direct, samples[chosen], sample)
            if ratio.low <= 1 and ratio.value >= PROMISING:
                levers.update(option.levers)
    return levers


def _faster_by_unit(samples: Mapping[Option, Sample], chosen: Option, plain: Option) -> dict[Option, float]:
    """Return the options whose units are faster than the chosen one's, with how many times as fast as the default's."""
    seconds = {option: _unit(sample) for option, sample in samples.items()}
    now, default = seconds.get(chosen), seconds.get(plain)
    if now is None or default is None:
        return {}
    return {
        option: default / unit
        for option, unit in seconds.items()
        if unit and option not in (chosen, plain) and now >= PROMISING * unit
    }


def _unit(sample: Sample) -> float | None:
    """Return the seconds of a unit after the first one; None where the whole alone was measured."""
    steady = [phases.steady for phases in sample.phases if phases.distinguished]
    return statistics.median(steady) if steady else None
