"""What a Plan says of a survey: how many units of work it takes, and why there is none, or nothing is kept of it."""

import math

from modak_deploy.launch.survey import COMBINATIONS, FINALISTS, FIRST_ROUNDS, ROUNDS
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Launch
from modak_deploy.util.text import plural

_BASELINE = 5
"""Units of the default alone, before all others."""
_STEP = 50
"""The number of units is told in steps of so many."""


def survey_remarks(deployment: Deployment, launch: Launch | None, ranks: int) -> list[str]:
    """Return the clauses of the Plan's reason on the survey that the request asks for; none where it asks for none."""
    if not deployment.request.surveys:
        return []
    if launch is None or not launch.candidates:
        return [f"no survey is made: {_obstacle(deployment, ranks)}"]
    count, needed = len(launch.candidates), _units(launch)
    together = " and their combinations" if count > 1 else ""
    clauses = [
        f"{plural(count, 'lever')}{together} will be measured in turns while it runs, in up to {needed} units of work, "
        "whatever that costs"
    ]
    if launch.units is not None and launch.units < needed:
        clauses.append(
            f"the job has {plural(launch.units, deployment.application.workload.unit)}, so that not all may be"
        )
    if deployment.application.workload.model is None:
        clauses.append("nothing of it is kept for later Plans, for the workload names no model")
    elif deployment.job.array is not None:
        clauses.append("nothing of it is kept for later Plans, for the job is an array")
    elif deployment.job.wall_time is not None:
        clauses.append("the wall time must have room for it")
    return clauses


def _units(launch: Launch) -> int:
    """Return how many units a survey does at most of one object of the program; in each turn a set does two."""
    asked = 1 if launch.levers else 0
    singles = len(launch.candidates) + asked
    checks = singles + COMBINATIONS
    first = FIRST_ROUNDS * (singles + 1 + COMBINATIONS + 1)
    last = (ROUNDS - FIRST_ROUNDS) * (FINALISTS + asked + 1)
    return math.ceil((_BASELINE + checks + 2 * (first + last)) / _STEP) * _STEP


def _obstacle(deployment: Deployment, ranks: int) -> str:
    if ranks > 1:
        return f"it is of one process, and the job has {ranks} ranks"
    if deployment.request.configuration is not None:
        return "the request names the one configuration to run"
    if deployment.request.require_levers:
        return "the request requires levers, or the launcher can switch none here"
    return "there are no levers that the launcher can switch in one process here"
