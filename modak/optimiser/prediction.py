"""Predictions: seconds where they were measured here, ratios and orders of magnitude where it was elsewhere."""

import statistics
from collections.abc import Iterable, Sequence

from modak.model.measurement import Measurement
from modak.model.plan import Basis, Gain, Prediction
from modak.optimiser.candidates import Choice
from modak.optimiser.evidence import Comparison, Evidence, Sample, place_of
from modak.optimiser.options import Option
from modak.performance.statistics import Interval

_FOREIGN = 3.0
"""Factor either way on absolute seconds that were measured on other hardware."""


def predict(option: Option, choice: Choice, evidence: Evidence) -> Prediction:
    """Return what is known of ``option``: its seconds, and its gain over the default."""
    gain = evidence.compare(choice.default, option) if option != choice.default else None
    told = gain_of(gain.ratio) if gain else None
    units = evidence.work.workload.units
    if option in evidence.direct:
        return _direct(evidence.direct[option], units, told)
    against = evidence.compare(choice.base, option) if option != choice.base else None
    if against is not None:
        return _by_ratio(option, against, choice.base, evidence, told)
    elsewhere = evidence.elsewhere(option)
    if elsewhere is None:
        return Prediction(units=units, gain=told, evidence="it was not measured for this workload")
    return _foreign(*elsewhere, units, told)


def _by_ratio(option: Option, against: Comparison, base: Option, evidence: Evidence, gain: Gain | None) -> Prediction:
    units, ratio = evidence.work.workload.units, against.ratio
    basis: Basis = "measurement" if against.direct else "rule"
    where = f"measured on {against.place}{_differing(against.differences)}"
    if base in evidence.direct:
        here = evidence.direct[base].interval()
        seconds = Interval(here.value / ratio.value, here.low / ratio.high, here.high / ratio.low)
        words = f"the time of {base.name} here, divided by the ratio of {ratio.value:.2f} {where}"
        return _prediction(seconds, units, gain, basis, words)
    elsewhere = evidence.elsewhere(option)
    if elsewhere is not None:
        return _foreign(*elsewhere, units, gain)
    words = f"a ratio of {ratio.value:.2f} to {base.name}, {where}"
    return Prediction(units=units, gain=gain, basis=basis, evidence=words)


def _foreign(sample: Sample, place: str, units: int, gain: Gain | None) -> Prediction:
    times = f" {sample.count()} times" if sample.count() else ""
    words = f"measured{times} on {place}{_differing(sample.differences)}: the seconds are an order of magnitude"
    return _prediction(sample.interval().widened(_FOREIGN), units, gain, "rule", words)


def _differing(differences: Iterable[str]) -> str:
    names = sorted(differences)
    if not names:
        return ""
    return f", which differs in {' and '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)}"


def _direct(sample: Sample, units: int, gain: Gain | None) -> Prediction:
    times = f" {sample.count()} times" if sample.count() else ""
    evidence = f"measured{times} on {place_of(sample.records[0])}, {_dates(sample.records)}"
    prediction = _prediction(sample.interval(), units, gain, "measurement", evidence)
    if not sample.phases or not all(p.told_apart for p in sample.phases):
        return prediction
    return prediction.model_copy(
        update={
            "start": _round(statistics.median(p.start for p in sample.phases)),
            "compile": _round(statistics.median(p.compile for p in sample.phases)),
            "steady": _round(statistics.median(p.steady for p in sample.phases)),
        }
    )


def _prediction(seconds: Interval, units: int, gain: Gain | None, basis: Basis, evidence: str) -> Prediction:
    return Prediction(
        seconds=_round(seconds.value),
        low=_round(seconds.low),
        high=_round(seconds.high),
        units=units,
        gain=gain,
        basis=basis,
        evidence=evidence,
    )


def gain_of(ratio: Interval) -> Gain:
    """Return a ratio as the Plan writes it."""
    return Gain(ratio=round(ratio.value, 4), low=round(ratio.low, 4), high=round(ratio.high, 4))


def _dates(records: Sequence[Measurement]) -> str:
    dates = sorted({record.provenance.date for record in records})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _round(seconds: float) -> float:
    """Keep four digits: more would be noise, and the Plan is read by people."""
    return float(f"{seconds:.4g}")
