"""Predictions: seconds where they were measured here, ratios and orders of magnitude where it was elsewhere."""

import statistics

from modak_deploy.model.plan import Basis, Gain, Prediction
from modak_deploy.optimiser.candidates import Choice
from modak_deploy.optimiser.evidence import location_of
from modak_deploy.optimiser.knowledge import Comparison, Knowledge, differing
from modak_deploy.optimiser.options import Option
from modak_deploy.optimiser.samples import Sample
from modak_deploy.performance.statistics import Interval

_FOREIGN = 3.0
"""Factor either way on absolute seconds that were measured on other hardware."""


def predict(option: Option, choice: Choice, knowledge: Knowledge) -> Prediction:
    """Return what is known of ``option``: its seconds, and its gain over the default."""
    evidence = knowledge.evidence
    gain = knowledge.compare(choice.default, option) if option != choice.default else None
    shown_gain = gain_of(gain.ratio) if gain else None
    units = evidence.work.workload.units
    if option in evidence.direct:
        return _direct(evidence.direct[option], units, shown_gain)
    against = knowledge.compare(choice.base, option) if option != choice.base else None
    if against is not None and choice.base in evidence.direct:
        return _scaled(against, choice.base, knowledge, shown_gain)
    scale = knowledge.scale
    if scale is not None and scale.seconds is not None and option == scale.option:
        return _prediction(scale.seconds, units, shown_gain, scale.basis, scale.text)
    if (modelled := _modelled(option, knowledge, shown_gain)) is not None:
        return modelled
    elsewhere = evidence.elsewhere(option)
    if elsewhere is not None:
        return _foreign(*elsewhere, knowledge, shown_gain)
    if against is not None:
        text = f"a ratio of {against.ratio.value:.2f} to {choice.base.name}, {against.text}"
        return Prediction(units=units, gain=shown_gain, basis=against.basis, evidence=text)
    return Prediction(units=units, gain=shown_gain, evidence="it was not measured for this workload")


def _scaled(against: Comparison, base: Option, knowledge: Knowledge, gain: Gain | None) -> Prediction:
    here, ratio = knowledge.evidence.direct[base].interval(), against.ratio
    seconds = Interval(here.value / ratio.value, here.low / ratio.high, here.high / ratio.low)
    text = f"the time of {base.name} here, divided by the ratio of {ratio.value:.2f} {against.text}"
    return _prediction(seconds, knowledge.evidence.work.workload.units, gain, against.basis, text)


def _modelled(option: Option, knowledge: Knowledge, gain: Gain | None) -> Prediction | None:
    modelled = knowledge.modelled.phases(option) if knowledge.modelled else None
    if knowledge.modelled is None or modelled is None:
        return None
    seconds, phases = modelled
    level = knowledge.modelled.model.description.level
    text = f"the time model of {knowledge.modelled.records(option)} records, at {level:.0%}"
    prediction = _prediction(seconds, knowledge.evidence.work.workload.units, gain, "model", text)
    return prediction.model_copy(update={phase: _round(value) for phase, value in phases.items()})


def _foreign(sample: Sample, location: str, knowledge: Knowledge, gain: Gain | None) -> Prediction:
    units = knowledge.evidence.work.workload.units
    times = f" {sample.count()} times" if sample.count() else ""
    text = f"measured{times} on {location}{differing(sample.differences)}"
    carried = knowledge.carry(sample) if knowledge.carry else None
    if carried is not None:
        return _prediction(carried, units, gain, "modelled", f"{text}, and carried over by the hardware's figures")
    text += ": the seconds are an order of magnitude"
    return _prediction(sample.interval().widened(_FOREIGN), units, gain, "rule", text)


def _direct(sample: Sample, units: int, gain: Gain | None) -> Prediction:
    times = f" {sample.count()} times" if sample.count() else ""
    tried = sample.tried()
    text = f"units of it were tried{times} while jobs ran" if tried else f"measured{times}"
    evidence = f"{text} on {location_of(sample.records[0])}, {_dates(sample)}"
    prediction = _prediction(sample.interval(), units, gain, "trial" if tried else "measurement", evidence)
    if not sample.phases or not all(p.distinguished for p in sample.phases):
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


def _dates(sample: Sample) -> str:
    dates = sorted(sample.dates)
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _round(seconds: float) -> float:
    """Keep four digits: more would be noise, and the Plan is read by people."""
    return float(f"{seconds:.4g}")
