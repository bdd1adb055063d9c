"""The decision: measured beats model beats rule, and the default stays where nothing is known to be faster."""

from dataclasses import dataclass
from typing import get_args

from modak_deploy.errors import InfeasibleError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Basis, Gain, Prediction, Rejected
from modak_deploy.optimiser.candidates import Choice
from modak_deploy.optimiser.knowledge import Comparison, Knowledge
from modak_deploy.optimiser.limits import over_limit
from modak_deploy.optimiser.options import Option
from modak_deploy.optimiser.prediction import predict
from modak_deploy.performance.statistics import Interval
from modak_deploy.util.text import plural

_RANK = {basis: rank for rank, basis in enumerate(get_args(Basis))}
_BASES: dict[Basis, str] = {
    "measurement": "measured here",
    "trial": "tried here while a job ran",
    "model": "by the model",
    "modelled": "carried over by the hardware's figures",
    "rule": "carried over from other conditions",
}

GAIN = 1.05
"""Times as fast as the default that the model has to expect: less than this it cannot tell from nothing."""
LOSS = 1.2
"""Times as slow as the default that a choice by the model may be within its interval, of which one end counts.

Of ten values the interval holds nine, so that one of twenty is slower than that.
"""
_FAR = 10
"""Times as slow beyond which the model's figures say no more than that."""


@dataclass
class Decision:
    """The chosen option, the others in order, and why."""

    chosen: Option
    reason: str
    predictions: dict[Option, Prediction]
    """Of every feasible option that keeps to the limits, the best first; the chosen one is among them."""
    rejected: list[Rejected]

    @property
    def gain(self) -> Gain | None:
        """The gain of the chosen option over the default; None where the default is chosen."""
        return self.predictions[self.chosen].gain


def decide(choice: Choice, knowledge: Knowledge, deployment: Deployment, price: float | None = None) -> Decision:
    """Choose among ``choice.feasible``; InfeasibleError when the limits leave none.

    ``price`` is that of a node for an hour, where it has one.
    """
    predictions = {option: predict(option, choice, knowledge) for option in choice.feasible}
    rejected: list[Rejected] = []
    for option, prediction in list(predictions.items()):
        if reason := _over_limit(prediction, deployment, knowledge.evidence.work.nodes, price):
            rejected.append(Rejected(name=option.name, reason=reason))
            del predictions[option]
    if deployment.request.configuration is not None and choice.base in predictions:
        chosen, why = choice.base, "it is the configuration that the request names"
    elif choice.base in predictions:
        chosen, why = _against_base(choice, knowledge, predictions)
    else:
        chosen = _fastest(predictions, rejected)
        why = f"{choice.base.name} does not keep to the limits, and {chosen.name} is the fastest that does"
    ordered = dict(sorted(predictions.items(), key=lambda item: _order(*item)))
    return Decision(chosen, why, ordered, rejected)


def _fastest(predictions: dict[Option, Prediction], rejected: list[Rejected]) -> Option:
    """Return the fastest option whose seconds are known; InfeasibleError where nothing is known to keep the limits.

    Seconds that are only carried over were compared with no limit, so that they cannot tell what keeps one.
    """
    timed = [option for option, prediction in predictions.items() if prediction.is_sure]
    if timed:
        return min(timed, key=lambda option: _order(option, predictions[option]))
    reasons = [f"{r.name}: {r.reason}" for r in rejected]
    if predictions:
        reasons.append(
            f"the time of {len(predictions)} others, such as {next(iter(predictions)).name}, is not known well enough"
        )
    raise InfeasibleError(f"no candidate keeps to the limits: {'; '.join(reasons)}")


def _over_limit(prediction: Prediction, deployment: Deployment, nodes: int, price: float | None) -> str | None:
    """Limits are checked only against predictions that are meant as seconds."""
    if prediction.seconds is None or not prediction.is_sure:
        return None
    return over_limit(prediction.seconds, nodes, deployment, price)


def doubt_of_limits(prediction: Prediction, deployment: Deployment, nodes: int, price: float | None) -> str | None:
    """Return the clause on limits of the request that ``prediction`` of what was chosen cannot be compared with.

    A limit that the wall time keeps by itself is none of them.
    """
    request, wall_time = deployment.request, deployment.job.wall_time
    if prediction.is_sure:
        return None
    hourly = nodes * (1.0 if price is None else price)
    doubted = []
    if request.deadline is not None and (wall_time is None or wall_time > request.deadline):
        doubted.append(f"the deadline of {request.deadline} s")
    if request.budget is not None and (wall_time is None or wall_time * hourly / 3600 > request.budget):
        doubted.append(f"the budget of {request.budget:g}")
    if not doubted:
        return None
    why = "no time was measured or modelled" if prediction.seconds is None else "its seconds are only carried over"
    verb = "suffices" if len(doubted) == 1 else "suffice"
    return f"it is not known whether {' and '.join(doubted)} {verb}, since {why}"


def _order(option: Option, prediction: Prediction) -> tuple[object, ...]:
    """Seconds first, then gains where there are no seconds, then what nothing is known of."""
    seconds, gain = prediction.seconds, prediction.gain
    slowness = seconds if seconds is not None else -gain.ratio if gain else 0.0
    return (seconds is None, gain is None and seconds is None, slowness, _RANK[prediction.basis], option.name)


def _against_base(choice: Choice, knowledge: Knowledge, predictions: dict[Option, Prediction]) -> tuple[Option, str]:
    base = choice.base
    what = "the default" if base == choice.default else "what the request requires"
    compared = {option: knowledge.compare(base, option) for option in predictions if option != base}
    comparisons = {option: comparison for option, comparison in compared.items() if comparison is not None}
    if not comparisons:
        return base, f"{what} stays: {_no_comparison(knowledge, choice)}"
    faster = {option: comparison for option, comparison in comparisons.items() if _is_worth_it(comparison)}
    span = _span(knowledge)
    if not faster:
        best = _best(comparisons, predictions)
        if comparisons[best].ratio.value <= 1:
            return base, f"{what} stays: nothing that is known is faster over {span}"
        return base, (
            f"{what} stays: the best alternative, {best.name}, is predicted {_times(comparisons[best].ratio)} times as "
            f"fast over {span}, and {_doubt(comparisons[best])}"
        )
    best = _best(faster, predictions)
    basis = _BASES[faster[best].basis]
    times = _times(faster[best].ratio)
    risk = "" if faster[best].ratio.low > 1 else f"; {_doubt(faster[best])}"
    return best, f"{best.name} is predicted {times} times as fast as {what}, {base.name}, over {span}, {basis}{risk}"


def _is_worth_it(comparison: Comparison) -> bool:
    """Tell whether an option takes the default's place: it is surely faster, or a gain is expected and no great loss.

    The second holds for the model alone. What was measured is measured again, and is known then; a workload that was
    never measured would stay with its default for ever if only what is certain were chosen.
    """
    ratio = comparison.ratio
    return ratio.low > 1 or (comparison.basis == "model" and ratio.value >= GAIN and ratio.low >= 1 / LOSS)


def _doubt(comparison: Comparison) -> str:
    """Return what speaks against an option, by the lower end of its gain, beyond which one case in twenty lies."""
    times = 1 / max(comparison.ratio.low, 1 / _FAR)
    if comparison.basis != "model" or round(times, 2) <= 1:
        return "this interval includes 1"
    if times < 2:
        return f"one time in twenty it is over {times - 1:.0%} slower"
    return f"one time in twenty it takes over {times:.2g} times as long"


def _best(comparisons: dict[Option, Comparison], predictions: dict[Option, Prediction]) -> Option:
    """Of equals the one with fewer levers, then the preferred place, which comes first."""
    locations = {option: number for number, option in enumerate(predictions)}
    return min(
        comparisons, key=lambda option: (-comparisons[option].ratio.value, len(option.levers), locations[option])
    )


def _span(knowledge: Knowledge) -> str:
    workload = knowledge.evidence.work.workload
    return plural(workload.units, workload.unit)


def _no_comparison(knowledge: Knowledge, choice: Choice) -> str:
    if knowledge.evidence.work.workload.model is None:
        return "the workload names no model, by which measurements could be found"
    if not knowledge.evidence.any():
        return f"nothing was measured for the workload {knowledge.evidence.work.workload.model}"
    return f"no measurement compares {choice.base.name} with another candidate that may be used"


def _times(interval: Interval) -> str:
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
