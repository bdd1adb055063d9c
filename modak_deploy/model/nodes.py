"""Which partition a job goes to, and what a node of it has: what the user states over what was discovered."""

from collections.abc import Callable, Sequence

from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts, Node, NodeKind, Partition
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
    return chosen if chosen is None or chosen.name not in facts.node_kinds else _for_job(chosen, facts, deployment)


def _for_job(partition: Partition, facts: Facts, deployment: Deployment) -> Partition:
    """Return a partition of unlike nodes with the kind of node that the job can have; InfeasibleError for too few.

    The partition itself has the GPUs and the memory of those of its nodes that have most, and the cores of others: no
    node may have them all at once.
    """
    fitting = _described_kinds(partition.name, facts, deployment)
    for needed, has in _demands(deployment):
        enough = [kind for kind in fitting if has(kind.node) is None or (has(kind.node) or 0) >= needed]
        if not enough:  # what is missing is told of the kind that has most of it
            return _with_node(partition, max(fitting, key=lambda kind: has(kind.node) or 0).node)
        fitting = enough
    nodes, asked = sum(kind.nodes for kind in fitting), deployment.job.nodes
    if nodes < asked <= (partition.nodes or 0):
        raise InfeasibleError(
            f"{asked} nodes are requested, and {nodes} of the {partition.nodes} of the partition {partition.name} have "
            "what the job asks for of each",
            key="job.nodes",
        )
    return _with_node(partition, next((kind.node for kind in fitting if kind.nodes >= asked), None) or _least(fitting))


def _described_kinds(name: str, facts: Facts, deployment: Deployment) -> list[NodeKind]:
    """Return the kinds of nodes of a partition, and over each what the user says of its nodes or of all the target's.

    What was found of the partition itself, as ``modak site add`` writes it down, is left out: it is of no kind. GPUs
    are those of the kinds that have some, such as their model and memory; of all where none was found anywhere.
    """
    described = next((p.node for p in deployment.target.partitions if p.name == name), Node())
    reported = next((p.node for p in facts.partitions if p.name == name), Node())
    own = [key for key in described.model_fields_set if getattr(described, key) != getattr(reported, key)]
    update = _fields(described, dict.fromkeys(own))
    if (every := deployment.target.node) is not None:
        update |= _fields(every, dict.fromkeys(every.model_fields_set))
    kinds = facts.node_kinds[name]
    without = {key: value for key, value in update.items() if key != "accelerators"}
    if not any(kind.node.accelerators for kind in kinds):
        without = update
    return [
        NodeKind(nodes=k.nodes, node=k.node.model_copy(update=update if k.node.accelerators else without))
        for k in kinds
    ]


def _with_node(partition: Partition, node: Node) -> Partition:
    hardware = {name: getattr(node, name) for name in ("cores", "memory", "accelerators")}
    return partition.model_copy(update={"node": partition.node.model_copy(update=hardware)})


def _demands(deployment: Deployment) -> list[tuple[int, Callable[[Node], int | None]]]:
    """Return what a node must have for the job, each with what tells how much of it a node has."""
    job = deployment.job
    per_node = job.ranks_per_node or -(-ranks_of(deployment) // job.nodes)
    cores = per_node * (job.cores_per_rank or job.threads or 1)
    memory = max(job.memory or 0, deployment.application.workload.memory or 0, (job.memory_per_core or 0) * cores)
    demands: list[tuple[int, Callable[[Node], int | None]]] = [
        (job.gpus, lambda node: sum(gpu.count for gpu in node.accelerators)),
        (memory, lambda node: node.memory),
        (cores, lambda node: node.cores),
    ]
    if job.memory_per_core is not None and takes_node(deployment):  # whatever number of cores it has
        demands.append((job.memory_per_core, lambda node: node.memory and node.cores and node.memory // node.cores))
    return demands


def ranks_of(deployment: Deployment) -> int:
    """Return how many ranks the job's options ask for in all: those of each node, or one, where no total is given."""
    job = deployment.job
    return job.ranks or (job.ranks_per_node or 1) * job.nodes


def takes_node(deployment: Deployment) -> bool:
    """Return whether each rank gets a whole node, since nobody asks for cores."""
    job = deployment.job
    is_asked = job.cores_per_rank is not None or job.threads is not None
    return not is_asked and ranks_of(deployment) == job.nodes and deployment.application.type != "hpc"


def _least(kinds: Sequence[NodeKind]) -> Node:
    """Return what all nodes of these kinds have, for a job that needs nodes of several."""
    cores = [kind.node.cores for kind in kinds if kind.node.cores]
    memory = [kind.node.memory for kind in kinds if kind.node.memory]
    fewest = min(kinds, key=lambda kind: sum(gpu.count for gpu in kind.node.accelerators))
    return fewest.node.model_copy(update={"cores": min(cores, default=None), "memory": min(memory, default=None)})


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
