"""The decision: measured beats model beats rule, and the default stays where nothing is known to be faster."""

from dataclasses import dataclass

from modak.errors import InfeasibleError
from modak.model.deployment import Deployment
from modak.model.plan import Gain, Prediction, Rejected
from modak.optimiser.candidates import Choice, LeverSet, name_of
from modak.optimiser.prediction import Evidence
from modak.performance.statistics import Interval

_RANK = {"measurement": 0, "model": 1, "rule": 2, "none": 3}


@dataclass
class Decision:
    """The chosen lever set, the others in order, and why."""

    chosen: LeverSet
    gain: Gain | None
    reason: str
    predictions: dict[LeverSet, Prediction]
    """Of every feasible set that keeps to the limits, the best first; the chosen one is among them."""
    rejected: list[Rejected]


def decide(choice: Choice, evidence: Evidence, deployment: Deployment, nodes: int) -> Decision:
    """Choose among ``choice.feasible``; InfeasibleError when the limits leave none."""
    predictions = {levers: evidence.predict(levers, choice.base) for levers in choice.feasible}
    rejected: list[Rejected] = []
    for levers, prediction in list(predictions.items()):
        if reason := _over_limit(prediction, deployment, nodes):
            rejected.append(Rejected(name=name_of(levers), reason=reason))
            del predictions[levers]
    if not predictions:
        raise InfeasibleError(
            f"no candidate keeps to the limits: {'; '.join(f'{r.name}: {r.reason}' for r in rejected)}"
        )
    if choice.base in predictions:
        chosen, why = _against_base(choice, evidence, predictions)
    else:
        chosen = min(predictions, key=lambda levers: _order(levers, predictions[levers]))
        why = f"{name_of(choice.base)} does not keep to the limits, and {name_of(chosen)} is the fastest that does"
    ordered = dict(sorted(predictions.items(), key=lambda item: _order(*item)))
    gain = _gain(evidence.gain(choice.default, chosen)) if chosen != choice.default else None
    return Decision(chosen, gain, why, ordered, rejected)


def _over_limit(prediction: Prediction, deployment: Deployment, nodes: int) -> str | None:
    """Limits are checked only against predictions that are meant as seconds."""
    seconds, job = prediction.seconds, deployment.job
    if seconds is None or prediction.basis not in ("measurement", "model"):
        return None
    if job.wall_time is not None and seconds > job.wall_time:
        return f"it is predicted to take {seconds:.4g} s, over the wall time of {job.wall_time} s"
    hours = seconds * nodes / 3600
    budget = deployment.request.budget
    if budget is not None and hours > budget:
        return f"it is predicted to cost {hours:.4g} node-hours, over the budget of {budget:g}"
    return None


def _order(levers: LeverSet, prediction: Prediction) -> tuple[bool, float, int, LeverSet]:
    seconds = prediction.seconds
    return (seconds is None, seconds or 0.0, _RANK[prediction.basis], levers)


def _against_base(choice: Choice, evidence: Evidence, predictions: dict[LeverSet, Prediction]) -> tuple[LeverSet, str]:
    base = choice.base
    what = "the default" if base == choice.default else "what the request requires"
    gains = {levers: evidence.gain(base, levers) for levers in predictions if levers != base}
    known = {levers: gain for levers, gain in gains.items() if gain is not None}
    if not known:
        return base, f"{what} stays: {_nothing_known(evidence, choice)}"
    faster = {levers: gain for levers, gain in known.items() if gain.low > 1}
    units = evidence.work.workload.units
    unit = evidence.work.workload.unit
    span = f"{units} {unit}{_plural(unit) if units > 1 else ''}"
    if not faster:
        best = min(known, key=lambda levers: (-known[levers].value, levers))
        if known[best].value < 1:
            return base, f"{what} stays: nothing that is known is faster over {span}"
        return base, (
            f"{what} stays: the best alternative, {name_of(best)}, is predicted {_times(known[best])} times as fast "
            f"over {span}, and this interval includes 1"
        )
    best = min(faster, key=lambda levers: (*_order(levers, predictions[levers])[:2], -faster[levers].value, levers))
    basis = {"measurement": "measured here", "model": "by the model", "rule": "carried over from other conditions"}
    return best, (
        f"{name_of(best)} is predicted {_times(faster[best])} times as fast as {what}, {name_of(base)}, over {span}, "
        f"{basis.get(predictions[best].basis, 'by a rule')}"
    )


def _nothing_known(evidence: Evidence, choice: Choice) -> str:
    if evidence.work.workload.model is None:
        return "the workload names no model, by which measurements could be found"
    if not evidence.measured():
        return f"nothing was measured for the workload {evidence.work.workload.model}"
    return f"no measurement compares {name_of(choice.base)} with another candidate that may be used"


def _plural(unit: str) -> str:
    return "es" if unit.endswith("ch") and unit != "epoch" else "s"


def _times(interval: Interval) -> str:
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _gain(interval: Interval | None) -> Gain | None:
    if interval is None:
        return None
    return Gain(ratio=round(interval.value, 4), low=round(interval.low, 4), high=round(interval.high, 4))
