"""Changes of a Plan that need no new decision. Whoever wants one asks for it here: all others only read Plans."""

from collections.abc import Mapping

from modak_deploy.model.execution import Image, Launch
from modak_deploy.model.plan import Plan
from modak_deploy.model.trials import RestartPlan


def with_image(plan: Plan, image: Image | None) -> Plan:
    """Return the Plan with its image as it was resolved, by digest."""
    if image == plan.chosen.image:
        return plan
    return plan.model_copy(update={"chosen": plan.chosen.model_copy(update={"image": image})})


def with_secrets(plan: Plan, hashes: Mapping[str, str]) -> Plan:
    """Return the Plan for secrets with these keyed hashes, by the names of their variables."""
    return plan.model_copy(update={"secrets": dict(hashes)})


def with_launch(plan: Plan, launch: Launch | None) -> Plan:
    """Return the Plan with other work for the launcher."""
    return plan.model_copy(update={"chosen": plan.chosen.model_copy(update={"launch": launch})})


def with_threads(plan: Plan, threads: int | None) -> Plan:
    """Return the Plan with so many cores reserved for each rank."""
    resources = plan.chosen.resources.model_copy(update={"threads": threads})
    return plan.model_copy(update={"chosen": plan.chosen.model_copy(update={"resources": resources})})


def only_trials(plan: Plan, restart: RestartPlan, *, name: str, wall_time: int) -> Plan:
    """Return the Plan of a job that carries out trials and not the program itself; ``wall_time`` is in seconds."""
    return plan.model_copy(
        update={
            "name": name,
            "application": plan.application.model_copy(update={"outputs": [], "metrics": None}),
            "job": plan.job.model_copy(update={"wall_time": wall_time, "array": None}),
            "restart": restart,
        }
    )
