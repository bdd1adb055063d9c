"""What jobs that did the same work before have shown, by which the next one decides what it tries."""

from collections.abc import Mapping
from dataclasses import dataclass

from modak_deploy.catalogue.lever import Lever
from modak_deploy.model.measurement import Measurement
from modak_deploy.optimiser.evidence import Evidence
from modak_deploy.optimiser.options import Location, Option
from modak_deploy.optimiser.samples import Sample, ratio_within
from modak_deploy.performance.statistics import paired_ratio_interval

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
    So is what made another configuration faster, and was not tried with the one that is chosen now.
    """
    failed: frozenset[str] = frozenset()
    """Levers that could not be used, or changed results."""
    last: frozenset[str] = frozenset()
    """Levers to be tried after all others: of them one unit alone is known, which was slower."""
    kept: frozenset[str] = frozenset()
    """Levers with which units were faster than with those chosen, not counting what it took to make them ready, which
    is kept for later jobs."""
    gain: float = 1.0
    """How many times as fast as the default the levers at hand were at the least."""


def earlier(
    evidence: Evidence, location: Location, chosen: Option, levers: Mapping[str, Lever], gain: float = 1.0
) -> Earlier:
    """Return what jobs have shown of the very same work at ``location``, where ``chosen`` does it now.

    ``levers`` are the catalogue's.
    """
    plain = location.option(())
    samples = {option: sample for option, sample in evidence.direct.items() if option.with_levers(()) == plain}
    records: list[Measurement] = [record for sample in samples.values() for record in sample.records]
    used = {name for option in samples for name in option.levers}
    failed = {name for record in records for name in record.failed or ()}
    return Earlier(
        jobs=len({run.time for record in records for run in record.runs if run.time is not None}),
        tried=frozenset(
            used - _unsettled(evidence, samples, chosen) - _elsewhere(evidence, samples, chosen, levers) | failed
        ),
        failed=frozenset(failed),
        kept=frozenset(_kept(samples, chosen, levers) - failed),
        last=frozenset(name for record in records for name in record.slower_at_first or ()),
        gain=gain,
    )


def _unsettled(evidence: Evidence, samples: Mapping[Option, Sample], chosen: Option) -> set[str]:
    levers: set[str] = set()
    for option, sample in samples.items():
        if chosen in samples and option != chosen:
            ratio = ratio_within(evidence.direct.values(), samples[chosen], sample)
            if ratio.low <= 1 and ratio.value >= PROMISING:
                levers.update(option.levers)
    return levers


def _elsewhere(
    evidence: Evidence, samples: Mapping[Option, Sample], chosen: Option, levers: Mapping[str, Lever]
) -> set[str]:
    """Return the levers that made another configuration faster, and can be on beside the chosen one's, untried so far.

    A job tries each lever with the best ones so far; one that is tried later may take the place of these.
    """
    names = set()
    beside = [levers[name] for name in chosen.levers if name in levers]
    for option, sample in samples.items():
        for name in set(option.levers).difference(chosen.levers) & levers.keys():
            rest = option.with_levers(tuple(other for other in option.levers if other != name))
            together = any(set(other.levers) == {*chosen.levers, name} for other in samples)
            if rest not in samples or together or any(levers[name].excludes(other) for other in beside):
                continue
            if ratio_within(evidence.direct.values(), samples[rest], sample).value >= PROMISING:
                names.add(name)
    return names


def _kept(samples: Mapping[Option, Sample], chosen: Option, levers: Mapping[str, Lever]) -> set[str]:
    """Return the levers that are kept and would have made units faster, had they been on or in others' place.

    Units count that one job did beside each other, with that lever and with what is chosen, and all else the same.
    """
    names = set()
    for lever in (lever for lever in levers.values() if lever.kept and lever.name not in chosen.levers):
        beside = {name for name in chosen.levers if name in levers and not lever.excludes(levers[name])}
        for option, sample in samples.items():
            if chosen in samples and set(option.levers) == {*beside, lever.name}:
                ratio = paired_ratio_interval(samples[chosen].steady, sample.steady)
                if ratio is not None and ratio.value >= PROMISING:
                    names.add(lever.name)
    return names
