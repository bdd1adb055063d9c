"""The choice among targets: each has its own Plan, and the better one takes the other in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import overload

from modak_deploy.errors import InfeasibleError
from modak_deploy.model.cloud import Estimate
from modak_deploy.model.plan import Elsewhere, Plan, Unplanned
from modak_deploy.model.target import Target
from modak_deploy.optimiser.instances import seconds_of
from modak_deploy.optimiser.resources import price_of
from modak_deploy.performance.statistics import Interval
from modak_deploy.util.text import significant


@dataclass(frozen=True)
class Refused:
    """A target that cannot do what was asked, and why."""

    target: Target
    reason: str
    inputs: str
    """Hash of what was asked of it."""


def choose_target(outcomes: Sequence[Plan | Refused]) -> Plan:
    """Return the Plan of the best target, which tells why of each other one; the first needs no reason.

    A later target is taken where its whole interval lies below that of the best before: in seconds, or in costs where
    the objective is cost. The order of targets therefore matters only where nothing sure can be told. InfeasibleError
    when all refuse.
    """
    if len(outcomes) == 1 and isinstance(outcomes[0], Plan):
        return outcomes[0]
    plans = [outcome for outcome in outcomes if isinstance(outcome, Plan)]
    if not plans:
        comparison = "; ".join(f"on {o.target.name}: {o.reason}" for o in outcomes if isinstance(o, Refused))
        raise InfeasibleError(f"no target can do what was asked: {comparison}")
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    return reduce(refuse, refused, reduce(weigh, plans))


def weigh(plan: Plan, other: Plan) -> Plan:
    """Return the better of two Plans for one application, with the other one among its ``other_targets``."""
    here, there = _least(plan), _least(other)
    names = plan.target.name, other.target.name
    if here is None or there is None:
        why = f"no time is known on {names[0] if here is None else names[1]}, so that the two cannot be compared"
        return _joined(plan, other, why, moved=False)
    if (reason := _incomparable(here, there, names)) is not None:
        return _joined(plan, other, reason, moved=False)
    verb = "take" if here.unit == "s" else "cost"
    comparison = f"it is predicted to {verb} {there.text} on {names[1]} against {here.text} on {names[0]}"
    if there.amount.high < here.amount.low:
        return _joined(other, plan, comparison, moved=True)
    doubt = ", but these intervals meet" if there.amount.value < here.amount.value else ""
    return _joined(plan, other, comparison + doubt, moved=False)


def _incomparable(here: "_Amount", there: "_Amount", names: tuple[str, str]) -> str | None:
    """Return why two amounts cannot be compared; a price without a currency is in that of the other."""
    if here.unit == there.unit:
        return None
    if "node-hours" in (here.unit, there.unit):
        return f"a node has a price on one of {names[0]} and {names[1]} only, so that costs cannot be compared"
    if here.unit and there.unit:
        return f"prices are in {here.unit} on {names[0]} and in {there.unit} on {names[1]}, which cannot be compared"
    return None


@overload
def refuse(outcome: Plan, refused: Refused) -> Plan: ...
@overload
def refuse(outcome: Plan | Unplanned, refused: Refused) -> Plan | Unplanned: ...
def refuse(outcome: Plan | Unplanned, refused: Refused) -> Plan | Unplanned:
    """Return the outcome with a target among its ``other_targets`` that cannot do what was asked."""
    elsewhere = Elsewhere(target=refused.target, reason=refused.reason, inputs=refused.inputs)
    return outcome.model_copy(update={"other_targets": [*outcome.other_targets, elsewhere]})


def instead_of(refusal: Unplanned, plan: Plan) -> Plan:
    """Return the Plan with the targets among its ``other_targets`` that were asked before, and refused."""
    first = Elsewhere(target=refusal.target, reason=refusal.reason, inputs=refusal.inputs)
    return plan.model_copy(update={"other_targets": [first, *refusal.other_targets]})


def _joined(taken: Plan, left: Plan, why: str, *, moved: bool) -> Plan:
    elsewhere = Elsewhere(
        target=left.target,
        candidate=left.chosen,
        prediction=left.prediction,
        cost=cost_of(left),
        instance=left.instance.chosen.label if left.instance is not None else None,
        reason=why,
        inputs=left.inputs,
    )
    first, second = (left, taken) if moved else (taken, left)
    others = [*first.other_targets, *second.other_targets, elsewhere]
    update: dict[str, object] = {"other_targets": others, "cost": cost_of(taken)}
    if moved:
        update["reason"] = f"{taken.reason}; {why}"
    return taken.model_copy(update=update)


@dataclass(frozen=True)
class _Amount:
    """What is to be made least, with its unit."""

    amount: Interval
    unit: str

    @property
    def text(self) -> str:
        amount = self.amount
        between = f"{significant(amount.low)} to {significant(amount.high)}"
        return f"{significant(amount.value, 4)} {self.unit}".strip() + f" ({between})"


def _least(plan: Plan) -> _Amount | None:
    """Return seconds, or costs where the objective is cost; None where no absolute figure is known."""
    seconds = seconds_of(plan.prediction)
    least = cost_of(plan) if seconds is not None and plan.request.objective == "cost" else seconds
    return None if least is None else _Amount(Interval(least.value, least.low, least.high), least.unit or "")


def cost_of(plan: Plan) -> Estimate | None:
    """Return what the job is predicted to cost; None where no time is known."""
    if plan.instance is not None:
        return plan.instance.chosen.cost
    seconds = seconds_of(plan.prediction)
    if seconds is None:
        return None
    price = price_of(plan)
    factor = plan.chosen.resources.nodes * (1.0 if price is None else price) / 3600
    return Estimate(
        value=seconds.value * factor,
        low=seconds.low * factor,
        high=seconds.high * factor,
        unit=None if price is not None else "node-hours",
    )
