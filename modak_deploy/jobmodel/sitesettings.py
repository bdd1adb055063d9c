"""A site of the common files as the job model sees it: it asks no target, so that the description must be complete."""

from typing import get_args

from archspec.cpu import TARGETS as MICROARCHITECTURES

from modak_deploy.diagnostics import Location
from modak_deploy.documents.sites import Site
from modak_deploy.errors import InputError
from modak_deploy.extensions import TARGETS
from modak_deploy.model.site import Accel, Cpu, Infrastructure, SiteNode, SitePartition
from modak_deploy.model.target import Node, Partition


def infrastructure_of(site: Site) -> Infrastructure:
    """Return a site's settings in the older form; InputError names the key that planning without the target needs."""
    settings, target = site.settings, site.settings.target
    if target.type == "cloud":
        raise _error(site, ("target", "type"), "not supported by the job model: its documents create no instances")
    if target.type in TARGETS and target.type != "machine":
        what = f"{target.type} is not supported by the job model: its scripts are for machines and schedulers"
        raise _error(site, ("target", "type"), what)
    partitions = {p.name: _partition(site, n, p) for n, p in enumerate(target.partitions)}
    if target.node is not None and not partitions and target.type in (None, "machine"):
        partitions = {"*": SitePartition(nnodes=1, default=True, node=_node(site, ("target", "node"), target.node))}
    return Infrastructure(
        name=site.name,
        description=settings.description,
        enabled=settings.enabled,
        scheduler="none" if target.type in (None, "machine") else target.type,
        partitions=partitions,
        storage=settings.storage,
        runtimes=settings.software.runtimes,
        mpi=settings.software.mpi,
        images=target.images,
        modules=target.modules,
        gpu_spelling=target.gpu_spelling,
        parallel_environment=target.parallel_environment,
        mpi_type=target.mpi_type,
        binds=target.binds,
        specific_nodes=settings.specific_nodes,
    )


def _partition(site: Site, index: int, partition: Partition) -> SitePartition:
    location: Location = ("target", "partitions", index)
    if not partition.nodes:
        raise _error(site, location, "the key 'nodes' is required for documents of the job model")
    usual = site.settings.job.partition
    return SitePartition(
        nnodes=partition.nodes,
        default=partition.name == usual if usual else partition.default,
        maximum_wall_time=partition.maximum_wall_time,
        node=_node(site, (*location, "node"), partition.node),
    )


def _node(site: Site, location: Location, node: Node) -> SiteNode:
    if node.cores is None:
        raise _error(site, location, "the key 'cores' is required for documents of the job model")
    if len(node.accelerators) > 1:
        raise _error(site, (*location, "accelerators"), "more than one kind is not supported by the job model")
    micro = node.microarchitecture
    family = MICROARCHITECTURES[micro].family.name if micro in MICROARCHITECTURES else "x86_64"
    if family not in get_args(Cpu.model_fields["arch"].annotation):
        raise _error(
            site, (*location, "microarchitecture"), f"processors of {family} are not supported by the job model"
        )
    accel = [Accel(type=a.vendor, model=a.model, driver=a.driver) for a in node.accelerators]
    return SiteNode.model_validate(
        {
            "ncpus": 1,
            "cpu": Cpu.model_validate({"arch": family, "microarch": micro, "ncores": node.cores}),
            "naccel": sum(a.count for a in node.accelerators),
            "accel": accel[0] if accel else None,
            "memory": node.memory,
        }
    )


def _error(site: Site, location: Location, text: str) -> InputError:
    position = site.locate(location)
    return InputError(
        text,
        key=("sites", site.name, *location),
        source=position.source if position else "",
        line=position.line if position else None,
    )
