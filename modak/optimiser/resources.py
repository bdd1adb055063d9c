"""What is reserved: the job's options as nodes x ranks x threads, checked against the target."""

import difflib
import math

from modak.errors import InfeasibleError, InputError, TargetError
from modak.model.base import SchedulerName
from modak.model.deployment import Deployment
from modak.model.plan import Plan, Resources
from modak.model.target import Facts, Node, Partition


def partition_of(deployment: Deployment, facts: Facts) -> Partition | None:
    """Return the partition that the job goes to; None for a machine, or where the target's are not known.

    What the user says of a partition stands over what was found. Raise InputError for a name that is not there and
    InfeasibleError for a partition that is down.
    """
    if deployment.target.type == "machine":
        return None
    partitions = {p.name: p for p in facts.partitions}
    for told in deployment.target.partitions:
        partitions[told.name] = _merged(told, partitions.get(told.name))
    wanted = deployment.job.partition
    if not partitions:
        return None
    if wanted is not None and wanted not in partitions:
        close = difflib.get_close_matches(wanted, partitions, 1)
        names = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(sorted(partitions))}"
        raise InputError(f"job.partition: the target {deployment.target.name} has no partition '{wanted}'; {names}")
    chosen = partitions[wanted] if wanted is not None else next((p for p in partitions.values() if p.default), None)
    if chosen is not None and not chosen.available:
        raise InfeasibleError(f"the partition {chosen.name} of {deployment.target.name} takes no jobs at present")
    return chosen


def _merged(told: Partition, found: Partition | None) -> Partition:
    if found is None:
        return told
    node = told.node.model_dump(exclude_unset=True)
    update = {key: getattr(told, key) for key in told.model_fields_set if key != "node"}
    return found.model_copy(update={**update, "node": found.node.model_copy(update=_fields(told.node, node))})


def _fields(node: Node, names: dict[str, object]) -> dict[str, object]:
    return {name: getattr(node, name) for name in names}


def node_of(deployment: Deployment, facts: Facts, partition: Partition | None) -> Node:
    """Return the hardware of the node that the job will run on: told by the user, else the partition's, else found.

    A partition that says nothing of its processor has the one that was found when it is the default.
    """
    node = facts.node
    if partition is not None:
        known = {name: getattr(partition.node, name) for name in Node.model_fields}
        known = {name: value for name, value in known.items() if value not in (None, [])}
        node = (facts.node if partition.default else Node()).model_copy(update=known)
    told = deployment.target.node
    return node if told is None else node.model_copy(update=_fields(told, dict.fromkeys(told.model_fields_set)))


def price_of(plan: Plan) -> float | None:
    """Return the price of a node that a Plan reserves for an hour; None where it has none."""
    asked = Deployment(application=plan.application, target=plan.target, request=plan.request, job=plan.job)
    return node_of(asked, plan.facts, partition_of(asked, plan.facts)).price


def scheduler_of(deployment: Deployment, facts: Facts) -> SchedulerName:
    """Return the scheduler that takes the job: the user's, or Slurm where Torque's commands are its wrappers.

    Raise TargetError when the target was looked at and has another scheduler than the user says, or none.
    """
    wanted = deployment.target.type
    if wanted == "machine":
        return "process"
    if facts.hostname is None or facts.scheduler == wanted:
        return wanted
    if facts.scheduler == "slurm" and facts.wrapped:
        return facts.scheduler
    found = f"{facts.scheduler} was found" if facts.scheduler else "no scheduler's commands were found"
    raise TargetError(
        f"the target {deployment.target.name} is said to be of type {wanted}, but {found} on {facts.hostname}"
    )


def resources_of(deployment: Deployment, node: Node, partition: Partition | None) -> Resources:
    """Return what the job reserves; InfeasibleError names the limit that it breaks."""
    job = deployment.job
    ranks = job.ranks or (job.ranks_per_node or 1) * job.nodes
    per_node = job.ranks_per_node or math.ceil(ranks / job.nodes)
    threads = job.cores_per_rank or job.threads
    alone = ranks == job.nodes and deployment.application.type != "hpc"
    if threads is None and alone and deployment.target.type != "machine":
        threads = node.cores
    resources = Resources(nodes=job.nodes, ranks=ranks, ranks_per_node=per_node, threads=threads, gpus=job.gpus)
    where = f"the partition {partition.name}" if partition else f"the target {deployment.target.name}"
    _check_nodes(deployment, where, partition)
    _check_cores(resources, where, node)
    _check_gpus(deployment, where, node, partition)
    _check_limits(deployment, where, node, partition)
    return resources


def _check_nodes(deployment: Deployment, where: str, partition: Partition | None) -> None:
    nodes = deployment.job.nodes
    if deployment.target.type == "machine" and nodes > 1:
        raise InfeasibleError(f"job.nodes: {nodes} nodes were asked for, and a target of type machine is one")
    if partition is not None and partition.nodes is not None and nodes > partition.nodes:
        raise InfeasibleError(f"job.nodes: {nodes} nodes were asked for, and {where} has {partition.nodes}")


def _check_cores(resources: Resources, where: str, node: Node) -> None:
    used = resources.ranks_per_node * (resources.threads or 1)
    if node.cores is not None and used > node.cores:
        threads = resources.threads or 1
        layout = f"{_count(resources.ranks_per_node, 'rank')} on a node with {_count(threads, 'core')} each"
        raise InfeasibleError(f"{layout} need {used} cores, and a node of {where} has {node.cores}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_gpus(deployment: Deployment, where: str, node: Node, partition: Partition | None) -> None:
    gpus = deployment.job.gpus
    have = sum(accelerator.count for accelerator in node.accelerators)
    known = partition is not None or bool(node.accelerators) or node.cores is not None
    if gpus > have and known:
        raise InfeasibleError(
            f"job.gpus: {gpus} GPUs per node were asked for, and a node of {where} has {have or 'none'}"
        )


def _check_limits(deployment: Deployment, where: str, node: Node, partition: Partition | None) -> None:
    job, needed = deployment.job, deployment.application.workload.memory
    limit = partition.maximum_wall_time if partition is not None else None
    if job.wall_time is not None and limit is not None and job.wall_time > limit:
        raise InfeasibleError(f"job.wall_time: {job.wall_time} s were asked for, and {where} permits {limit} s at most")
    for key, memory in (("job.memory", job.memory), ("application.workload.memory", needed)):
        if memory is not None and node.memory is not None and memory > node.memory:
            raise InfeasibleError(f"{key}: {_gib(memory)} are needed, and a node of {where} has {_gib(node.memory)}")
    if needed is not None and job.memory is not None and needed > job.memory:
        raise InfeasibleError(
            f"job.memory: {_gib(job.memory)} are fewer than the {_gib(needed)} that the workload needs"
        )


def _gib(size: int) -> str:
    amount = size / 1024**3
    return f"{amount:.3g} GiB" if amount < 1000 else f"{amount:.0f} GiB"
