"""Targets and instance types in one table, by time and cost."""

from collections.abc import Sequence

from modak_deploy.model.cloud import Estimate, InstanceCandidate, InstancePlan
from modak_deploy.model.plan import Plan, Prediction
from modak_deploy.model.target import Target
from modak_deploy.optimiser.instances import seconds_of
from modak_deploy.optimiser.targets import cost_of
from modak_deploy.util.text import significant
from modak_deploy.util.units import clock

Row = tuple[str, str, str, str, str, str, str]
_MOST = 8
"""Instance types shown; the Plan has all of them."""
_LEFT = (0, 1, 4)
"""Columns of words."""
_HEAD = ("target", "instance", "seconds", "interval", "basis", "cost", "interval")


def instance_text(instance: InstancePlan) -> str:
    """Return what the instance is, what it costs and when it ends itself."""
    chosen, currency = instance.chosen, instance.currency
    text = f"{chosen.label} of {instance.provider} in {instance.region}, {chosen.hourly:g} {currency} an hour"
    text += f" ({instance.price_source}, {instance.price_date})"
    if chosen.cost is not None:
        text += f"; expected {_text_of(chosen.cost)} {currency}"
    end = f"; it ends itself after {clock(instance.lease)}, at {instance.maximum_cost:.4g} {currency}"
    return text + end + (" with all restarts" if chosen.interruptible else "")


def _text_of(amount: Estimate) -> str:
    return f"{significant(amount.value)} ({significant(amount.low, 2)} to {significant(amount.high, 2)})"


def target_lines(plan: Plan) -> list[str]:
    """Return the table of all targets and instance types; empty where there is just one machine or cluster."""
    if plan.instance is None and not plan.other_targets:
        return []
    name = plan.target.name
    if plan.instance is None:
        rows = [_row("* " + name, _kind(plan.target), plan.prediction, cost_of(plan))]
    else:
        rows = [_instance("* " + name, plan.instance.chosen)]
    for other in plan.other_targets:
        kind = other.instance or _kind(other.target)
        rows.append(_row("  " + other.target.name, kind, other.prediction, other.cost))
    left: list[str] = []
    if plan.instance is not None:
        further = plan.instance.candidates
        rows += [_instance("  " + name, candidate) for candidate in further[:_MOST]]
        if len(further) > _MOST:
            left = [f"  and {len(further) - _MOST} more instance types"]
    return ["", *_aligned([_HEAD, *rows]), *left]


def _kind(target: Target) -> str:
    return target.type if target.cloud is None else f"{target.cloud.provider}"


def _instance(name: str, candidate: InstanceCandidate) -> Row:
    return (name, candidate.label, *_cells(candidate.seconds), candidate.basis, *_price(candidate.cost))


def _row(name: str, kind: str, prediction: Prediction | None, cost: Estimate | None) -> Row:
    """Return the row of a target; one without a prediction cannot do it, and the reason stands below the table."""
    if prediction is None:
        return (name, kind, "-", "-", "cannot", "-", "-")
    return (name, kind, *_cells(seconds_of(prediction)), prediction.basis, *_price(cost))


def _price(cost: Estimate | None) -> tuple[str, str]:
    """A target without ``node.price`` has costs in node-hours, which nobody can hold against a price."""
    return ("not stated", "-") if cost is not None and cost.unit == "node-hours" else _cells(cost)


def _cells(amount: Estimate | None) -> tuple[str, str]:
    if amount is None:
        return ("-", "-")
    unit = f" {amount.unit}" if amount.unit not in (None, "s") else ""
    return (f"{significant(amount.value)}{unit}", f"{significant(amount.low)} to {significant(amount.high)}")


def _aligned(rows: Sequence[Row]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [cell.ljust(widths[n]) if n in _LEFT else cell.rjust(widths[n]) for n, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return lines
