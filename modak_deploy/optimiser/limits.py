"""The limits of a request: what seconds and costs are compared with."""

from modak_deploy.model.deployment import Deployment
from modak_deploy.util.text import significant


def over_limit(seconds: float, nodes: int, deployment: Deployment, price: float | None) -> str | None:
    """Return which limit ``seconds`` on so many nodes break, as one clause; None where they keep all.

    ``price`` is that of a node for an hour, where it has one.
    """
    wall_time, deadline = deployment.job.wall_time, deployment.request.deadline
    if wall_time is not None and seconds > wall_time:
        return f"it is predicted to take {significant(seconds, 4)} s, over the wall time of {wall_time} s"
    if deadline is not None and seconds > deadline:
        return f"it is predicted to take {significant(seconds, 4)} s, over the deadline of {deadline} s"
    cost = _cost(seconds, nodes, price)
    budget = deployment.request.budget
    if budget is not None and cost > budget:
        unit = "" if price is not None else " node-hours"
        return f"it is predicted to cost {significant(cost, 4)}{unit}, over the budget of {budget:g}"
    return None


def excess(seconds: float, nodes: int, deployment: Deployment, price: float | None) -> float:
    """Return how many times the tightest limit ``seconds`` on so many nodes are; 0 where there is no limit."""
    shares = [seconds / limit for limit in (deployment.job.wall_time, deployment.request.deadline) if limit]
    if deployment.request.budget:
        shares.append(_cost(seconds, nodes, price) / deployment.request.budget)
    return max(shares, default=0.0)


def _cost(seconds: float, nodes: int, price: float | None) -> float:
    return seconds * nodes / 3600 * (1.0 if price is None else price)


def keeping(deployment: Deployment) -> tuple[str, str]:
    """Return the key of the first limit, and the clause on what keeps to all; both are empty where there is none."""
    wall_time, request = deployment.job.wall_time, deployment.request
    clauses = {
        "job.wall_time": None if wall_time is None else f"ends within the wall time of {wall_time} s",
        "request.deadline": None if request.deadline is None else f"ends within the deadline of {request.deadline} s",
        "request.budget": None if request.budget is None else f"costs no more than the budget of {request.budget:g}",
    }
    given = {key: clause for key, clause in clauses.items() if clause is not None}
    return next(iter(given), ""), " and ".join(given.values())
