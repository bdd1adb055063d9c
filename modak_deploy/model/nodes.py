"""Which partition a job goes to, and what a node of it has: what the user states over what was discovered."""

from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts, Node, Partition
from modak_deploy.util.text import nearest


def partition_of(deployment: Deployment, facts: Facts) -> Partition | None:
    """Return the partition that the job goes to; None for a machine, or where the target's are not known.

    What the user says of a partition stands over what was found. Raise InputError for a name that is not there and
    InfeasibleError for a partition that is down.
    """
    if deployment.target.kind.single_node:
        return None
    partitions = {p.name: p for p in facts.partitions}
    for described in deployment.target.partitions:
        partitions[described.name] = _merged(described, partitions.get(described.name))
    wanted = deployment.job.partition
    if not partitions:
        return None
    if wanted is not None and wanted not in partitions:
        hint = nearest(wanted, list(partitions)) or f"; it has {', '.join(sorted(partitions))}"
        raise InputError(f"the target {deployment.target.name} has no partition '{wanted}'{hint}", key="job.partition")
    chosen = partitions[wanted] if wanted is not None else next((p for p in partitions.values() if p.default), None)
    if chosen is not None and not chosen.available:
        raise InfeasibleError(f"the partition {chosen.name} of {deployment.target.name} takes no jobs at present")
    return chosen


def _merged(described: Partition, discovered: Partition | None) -> Partition:
    if discovered is None:
        return described
    node = described.node.model_dump(exclude_unset=True)
    update = {key: getattr(described, key) for key in described.model_fields_set if key != "node"}
    return discovered.model_copy(
        update={**update, "node": discovered.node.model_copy(update=_fields(described.node, node))}
    )


def _fields(node: Node, names: dict[str, object]) -> dict[str, object]:
    return {name: getattr(node, name) for name in names}


def node_of_plan(plan: Plan) -> Node:
    """Return the hardware of the node that the job of a Plan runs on."""
    return node_of(plan.asked, plan.facts, partition_of(plan.asked, plan.facts))


def node_of(deployment: Deployment, facts: Facts, partition: Partition | None) -> Node:
    """Return the hardware of the node that the job will run on: told by the user, else the partition's, else found.

    A partition that says nothing of its processor has the one that was found when it is the default.
    """
    node = facts.node
    if partition is not None:
        details = {name: getattr(partition.node, name) for name in Node.model_fields}
        details = {name: value for name, value in details.items() if value not in (None, [])}
        node = (facts.node if partition.default else Node()).model_copy(update=details)
    described = deployment.target.node
    return (
        node
        if described is None
        else node.model_copy(update=_fields(described, dict.fromkeys(described.model_fields_set)))
    )
