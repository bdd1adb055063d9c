"""A new decision on what a Plan was asked, where something that it relied on turned out not to be available."""

from collections.abc import Mapping
from pathlib import Path

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser.instances import Limits, plan_on_instance
from modak_deploy.optimiser.planner import make_plan
from modak_deploy.performance.records import Measurements


def replan(
    plan: Plan, *, catalogue: Catalogue, measurements: Measurements, model: Path | None, unavailable: Mapping[str, str]
) -> Plan:
    """Return the decision on the same question, by the same rules, without the images in ``unavailable``.

    Each is named with the reason, which the new Plan repeats. InfeasibleError where nothing can do without them.
    """
    asked, now = plan.asked, plan.created_at
    if plan.instance is None:
        fresh = make_plan(
            asked,
            plan.facts,
            plan.sources,
            now=now,
            catalogue=catalogue,
            measurements=measurements,
            model=model,
            unavailable=unavailable,
        )
    else:
        fresh = plan_on_instance(
            asked,
            plan.sources,
            now=now,
            catalogue=catalogue,
            measurements=measurements,
            model=model,
            unavailable=unavailable,
            limits=Limits(only=plan.instance.chosen.name),
        )
    return fresh.model_copy(update={"other_targets": plan.other_targets, "secrets": plan.secrets})
