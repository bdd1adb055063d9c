"""Nodes, ranks and cores: the document's limits, and what is used of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobmodel.model import JobBody
from modak_deploy.jobmodel.site import Site
from modak_deploy.util.text import plural


@dataclass(frozen=True)
class Layout:
    """What is reserved, which is what is used."""

    nodes: int
    ranks: int
    cores: int | None
    """Cores per rank."""
    threads: int | None
    """Threads per rank."""
    notes: Sequence[str] = ()
    """Where it is not what the document asks for, in sentences."""


def layout_of(job: JobBody, cores_per_node: int | None = None) -> Layout:
    """Return the largest layout within the document's limits that keeps the efficiency asked for.

    Without ``node_count`` it has as many nodes as the ranks need; ``cores_per_node`` is None where nobody knows.
    """
    options, application = job.job_options, job.application
    nodes = options.node_count or 1
    hpc = job.optimisation.hpc if job.optimisation else None
    limits = [application.threads, hpc.openmp.number_of_threads if hpc and hpc.openmp else None]
    threads = min((limit for limit in limits if limit is not None), default=None)
    parallel = is_parallel(job)
    cores = options.core_count_per_process or threads
    if not parallel and cores is None:
        cores = options.process_count_per_node or (options.core_count or 0) // nodes or None
    if threads is not None and cores is not None and threads > cores:
        raise InputError(
            f"{threads} threads do not fit on job_options.core_count_per_process {cores}", key="application.threads"
        )
    if parallel and options.node_count is None:
        nodes = _nodes(job, cores, cores_per_node)
    ranks = _ranks(job, nodes, cores) if parallel else 1
    notes = _notes(job, nodes, ranks)
    if not parallel and nodes > 1:
        raise InputError(
            f"{nodes} nodes are requested, but the application is one process",
            key="job_options.node_count",
            hint="give app_type mpi, mpi_ranks or distributed_training",
        )
    ranks, kept = _efficient(job, ranks, threads)
    if kept != threads and options.core_count_per_process is None:
        cores = kept
    return Layout(min(nodes, ranks), ranks, cores, kept, notes)


def _nodes(job: JobBody, cores: int | None, cores_per_node: int | None) -> int:
    """Return how many nodes the ranks need: as many as fit on one by process_count_per_node, or by its cores."""
    options, wanted = job.job_options, job.application.mpi_ranks
    if wanted is None:
        return 1
    if options.core_count is not None:
        wanted = max(1, min(wanted, options.core_count // (cores or 1)))
    fitting = None if cores_per_node is None else cores_per_node // (cores or 1)
    per_node = options.process_count_per_node or fitting
    return math.ceil(wanted / per_node) if per_node else 1


def check_capacity(job: JobBody, layout: Layout, site: Site) -> None:
    """Raise InfeasibleError for ranks that the site's partition cannot hold."""
    partition, wanted = site.partition, job.application.mpi_ranks
    if partition is None or wanted is None:
        return
    node, name = partition.node, site.partition_name
    have, cores = node.ncpus * node.cpu.ncores, layout.cores or 1
    key, ranks = "application.mpi_ranks", f"{layout.ranks} ranks"
    if job.job_options.node_count is None and layout.nodes > partition.nnodes:
        raise InfeasibleError(
            f"{ranks} need {layout.nodes} nodes of {have} cores, and the partition {name} has {partition.nnodes}",
            key=key,
        )
    each = math.ceil(layout.ranks / layout.nodes)
    if each * cores > have:
        raise InfeasibleError(
            f"{ranks} on {plural(layout.nodes, 'node')} need {each * cores} cores, and a node of the partition {name} "
            f"has {have}",
            key=key,
        )


def _notes(job: JobBody, nodes: int, ranks: int) -> list[str]:
    wanted, options = job.application.mpi_ranks, job.job_options
    if wanted is None and job.application.app_type is None and nodes > 1:
        return [f"application.app_type: it is not given, and {nodes} nodes are: {ranks} ranks are started"]
    if wanted is None or ranks >= wanted:
        return []
    limits = []
    if options.process_count_per_node is not None:
        limits.append(f"job_options.process_count_per_node {options.process_count_per_node} on {nodes} nodes")
    if options.core_count is not None:
        limits.append(f"job_options.core_count {options.core_count}")
    return [f"application.mpi_ranks: {ranks} of {wanted} ranks are started, within {' and '.join(limits)}"]


def is_parallel(job: JobBody) -> bool:
    """Tell whether the application is more than one process, or may be."""
    application = job.application
    training = job.optimisation.training if job.optimisation else None
    distributed = training.config.distributed_training if training else None
    if distributed is False and (application.mpi_ranks or 1) > 1:
        raise InputError(
            f"{application.mpi_ranks} ranks are requested, but distributed_training is false",
            key="application.mpi_ranks",
        )
    several = application.app_type is None and (job.job_options.node_count or 1) > 1 and distributed is None
    return application.app_type in ("mpi", "hpc") or (application.mpi_ranks or 1) > 1 or distributed is True or several


def _ranks(job: JobBody, nodes: int, cores: int | None) -> int:
    options = job.job_options
    limits = [job.application.mpi_ranks]
    if options.process_count_per_node is not None:
        limits.append(options.process_count_per_node * nodes)
    if options.core_count is not None:
        limits.append(options.core_count // (cores or 1))
    ranks = min((limit for limit in limits if limit is not None), default=nodes)
    if ranks == 0:
        raise InfeasibleError(
            f"{options.core_count} cores are fewer than the {cores} of one process", key="job_options.core_count"
        )
    return ranks


def stated_efficiency(job: JobBody) -> float | None:
    """Return the efficiency at the limits that the document states; without one, measurements must tell it."""
    hpc = job.optimisation.hpc if job.optimisation else None
    sections = (hpc.mpi, hpc.openmp) if hpc else ()
    return next((s.scaling_efficiency for s in sections if s is not None and s.scaling_efficiency is not None), None)


def _efficient(job: JobBody, ranks: int, threads: int | None) -> tuple[int, int | None]:
    """Return ranks and threads that keep the least efficiency, by Amdahl's law through the one that was stated.

    An efficiency of E on p cores means a serial share of (1/E - 1)/(p - 1); none of it, and nothing is given up.
    """
    least = job.application.minimal_efficiency
    cores = ranks * (threads or 1)
    if least is None or cores == 1:
        return ranks, threads
    stated = stated_efficiency(job)
    if stated is None or stated >= least:
        return ranks, threads
    serial = (1 / stated - 1) / (cores - 1)
    # Of an efficiency below 1e-308 the share is infinite.
    most = math.floor(1 + (1 / least - 1) / serial) if math.isfinite(serial) else 1
    while most > 1 and 1 / (1 + serial * (most - 1)) < least:
        most -= 1
    if most >= (threads or 1):
        return max(1, most // (threads or 1)), threads
    return 1, most
