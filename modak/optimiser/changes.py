"""Changes of a Plan that need no new decision. Whoever wants one asks for it here: all others only read Plans."""

from collections.abc import Mapping

from modak.model.execution import Image
from modak.model.plan import Plan


def with_image(plan: Plan, image: Image | None) -> Plan:
    """Return the Plan with its image as it was resolved, by digest."""
    if image == plan.chosen.image:
        return plan
    return plan.model_copy(update={"chosen": plan.chosen.model_copy(update={"image": image})})


def with_secrets(plan: Plan, hashes: Mapping[str, str]) -> Plan:
    """Return the Plan for secrets with these keyed hashes, by the names of their variables."""
    return plan.model_copy(update={"secrets": dict(hashes)})
