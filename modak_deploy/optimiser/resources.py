"""What is reserved: the job's options as nodes x ranks x threads, checked against the target."""

import math

from modak_deploy.catalogue.effects import Cores
from modak_deploy.errors import InfeasibleError, TargetError
from modak_deploy.model.base import SchedulerName
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.nodes import node_of_plan, partition_of, ranks_of, takes_node
from modak_deploy.model.plan import Plan, Resources
from modak_deploy.model.target import Facts, Node, Partition
from modak_deploy.util.text import plural
from modak_deploy.util.units import gib


def price_of(plan: Plan) -> float | None:
    """Return the price of a node that a Plan reserves for an hour; None where it has none."""
    return node_of_plan(plan).price


def scheduler_of(deployment: Deployment, facts: Facts) -> SchedulerName:
    """Return the scheduler that takes the job: the user's, or Slurm where Torque's commands are its wrappers.

    Raise TargetError when the target was looked at and has another scheduler than the user says, or none.
    """
    wanted = deployment.target.type
    if deployment.target.kind.single_node:
        return "process"
    if facts.hostname is None or facts.scheduler == wanted:
        return wanted
    if facts.wrapped and facts.scheduler is not None:
        return facts.scheduler
    present = f"{facts.scheduler} was found" if facts.scheduler else "no scheduler's commands were found"
    raise TargetError(
        f"the target {deployment.target.name} is said to be of type {wanted}, but {present} on {facts.hostname}"
    )


def resources_of(deployment: Deployment, node: Node, partition: Partition | None) -> Resources:
    """Return what the job reserves; InfeasibleError names the limit that it breaks."""
    job = deployment.job
    ranks = ranks_of(deployment)
    per_node = job.ranks_per_node or math.ceil(ranks / job.nodes)
    threads = job.cores_per_rank or job.threads
    if threads is None and takes_node(deployment) and not deployment.target.kind.single_node:
        threads = node.cores
    if threads is None and deployment.target.kind.needs_cores:
        threads = node.cores  # the Plan is made for those
    resources = Resources(nodes=job.nodes, ranks=ranks, ranks_per_node=per_node, threads=threads, gpus=job.gpus)
    where = f"the partition {partition.name}" if partition else f"the target {deployment.target.name}"
    _check_nodes(deployment, where, partition)
    _check_cores(resources, where, node)
    _check_gpus(deployment, where, node, partition)
    _check_wall_time(deployment, where, partition)
    _check_memory(deployment, where, node, resources)
    return resources


def asked_resources(plan: Plan) -> Resources:
    """Return what the job of a Plan would reserve whatever levers were chosen."""
    return resources_of(plan.asked, node_of_plan(plan), partition_of(plan.asked, plan.facts))


def cores_of(deployment: Deployment, node: Node) -> Cores:
    """Return the cores that each rank has: what is reserved, its share of a single machine, else the site's one."""
    job = deployment.job
    ranks = ranks_of(deployment)
    count = job.cores_per_rank or job.threads
    if count is None and (deployment.target.kind.single_node or takes_node(deployment)):
        count = node.cores and max(1, node.cores // math.ceil(ranks / job.nodes))
    elif count is None:
        count = 1
    return Cores(count, node.threads_per_core)


def with_threads(resources: Resources, deployment: Deployment, threads: int | None) -> Resources:
    """Return what is reserved where levers use so many ``threads``.

    What they use less is not reserved, unless the user asked for it by number, or the memory that the workload needs
    comes with it.
    """
    job, needed = deployment.job, deployment.application.workload.memory
    if threads is None or job.cores_per_rank is not None or deployment.target.kind.single_node:
        return resources
    if needed is not None and job.memory_per_core is not None:
        threads = max(threads, -(-needed // (job.memory_per_core * resources.ranks_per_node)))
    return resources.model_copy(update={"threads": threads})


def has_memory(resources: Resources, deployment: Deployment) -> bool:
    """Return whether the cores of each node bring the memory that the workload needs, where it comes with them."""
    needed, each = deployment.application.workload.memory, deployment.job.memory_per_core
    return needed is None or each is None or each * resources.ranks_per_node * (resources.threads or 1) >= needed


def reserved_cores(resources: Resources, node: Node) -> int | None:
    """Return the cores of a node that are the job's; all of them where no number is reserved."""
    return resources.threads * resources.ranks_per_node if resources.threads else node.cores


def _check_nodes(deployment: Deployment, where: str, partition: Partition | None) -> None:
    nodes = deployment.job.nodes
    kind = deployment.target.type
    if deployment.target.kind.single_node and nodes > 1:
        raise InfeasibleError(f"{nodes} nodes are requested, but a target of type {kind} is one", key="job.nodes")
    if partition is not None and partition.nodes is not None and nodes > partition.nodes:
        raise InfeasibleError(f"{nodes} nodes are requested, but {where} has {partition.nodes}", key="job.nodes")


def _check_cores(resources: Resources, where: str, node: Node) -> None:
    used = resources.ranks_per_node * (resources.threads or 1)
    if node.cores is not None and used > node.cores:
        threads = resources.threads or 1
        layout = f"{plural(resources.ranks_per_node, 'rank')} on a node with {plural(threads, 'core')} each"
        raise InfeasibleError(f"{layout} need {used} cores, and a node of {where} has {node.cores}")


def _check_gpus(deployment: Deployment, where: str, node: Node, partition: Partition | None) -> None:
    gpus = deployment.job.gpus
    have = sum(accelerator.count for accelerator in node.accelerators)
    is_described = partition is not None or bool(node.accelerators) or node.cores is not None
    if gpus > have and is_described:
        asked = f"{plural(gpus, 'GPU')} per node {'is' if gpus == 1 else 'are'} requested"
        raise InfeasibleError(f"{asked}, but a node of {where} has {have or 'none'}", key="job.gpus")


def _check_wall_time(deployment: Deployment, where: str, partition: Partition | None) -> None:
    job = deployment.job
    limit = partition.maximum_wall_time if partition is not None else None
    if job.wall_time is not None and limit is not None and job.wall_time > limit:
        raise InfeasibleError(
            f"{job.wall_time} s are requested, but {where} permits {limit} s at most", key="job.wall_time"
        )


def _check_memory(deployment: Deployment, where: str, node: Node, resources: Resources) -> None:
    job, needed = deployment.job, deployment.application.workload.memory
    for key, memory in (("job.memory", job.memory), ("application.workload.memory", needed)):
        if memory is not None and node.memory is not None and memory > node.memory:
            raise InfeasibleError(f"{gib(memory)} are needed, and a node of {where} has {gib(node.memory)}", key=key)
    key, reserved, text = "job.memory", job.memory, "" if job.memory is None else gib(job.memory)
    if job.memory_per_core is not None:
        cores = resources.ranks_per_node * (resources.threads or 1)
        key, reserved = "job.memory_per_core", job.memory_per_core * cores
        text = f"{gib(job.memory_per_core)} for each of {plural(cores, 'core')} per node, {gib(reserved)} in all,"
        if node.memory is not None and reserved > node.memory:
            raise InfeasibleError(f"{text} are requested, and a node of {where} has {gib(node.memory)}", key=key)
    if needed is not None and reserved is not None and needed > reserved:
        raise InfeasibleError(f"{text} are fewer than the {gib(needed)} that the workload needs", key=key)
