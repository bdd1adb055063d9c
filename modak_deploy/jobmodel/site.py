"""The target of a document: a site that describes itself, or any cluster of a kind; and the scripts of its jobs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modak_deploy.catalogue.catalogue import merge
from modak_deploy.documents.sitefiles import SiteFilePath
from modak_deploy.documents.sites import ReadFile, load_site_settings, read_site_file
from modak_deploy.documents.sites import Sites as SiteSettingsFiles
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobmodel.model import TargetSection
from modak_deploy.jobmodel.sitesettings import infrastructure_of
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.image import MpiLibrary
from modak_deploy.model.site import Infrastructure, SiteNode, SitePartition, SiteScript
from modak_deploy.model.target import Accelerator, Facts, Node, Partition, Target, TargetType
from modak_deploy.util.text import did_you_mean, nearest

RUNTIMES: tuple[RuntimeName, ...] = ("apptainer", "singularity")
"""Runtimes that start an image from its reference, by one command on every node."""
_ASSUMED: Mapping[RuntimeName, str] = {"singularity": "3.0"}
"""On a target that nobody describes: what the job model was made for; Apptainer brings this command as well."""
_ASSUMED_ROCM: Mapping[RuntimeName, str] = {"singularity": "3.5"}
"""The same for GPUs of AMD, which older releases have no option for."""


@dataclass(frozen=True)
class Site:
    """A target, what is known of it, and which scripts may concern it."""

    target: Target
    facts: Facts
    infrastructure: Infrastructure | None = None
    partition: SitePartition | None = None
    partition_name: str | None = None
    scripts: Sequence[SiteScript] = ()
    job: Mapping[str, Any] = field(default_factory=dict)
    """Options that the site's settings give each job."""

    @property
    def images(self) -> str | None:
        """The site's folder for images, without a slash at its end."""
        folder = self.infrastructure.images if self.infrastructure else None
        return folder.rstrip("/") if folder else None

    @property
    def assumes_runtime(self) -> bool:
        """Whether nobody says which container runtime its nodes have."""
        return self.infrastructure is None or not self.infrastructure.runtimes

    def storage(self, wanted: str | None) -> str | None:
        """Return the URL of the storage of class ``wanted``, the partition's before the site's."""
        if wanted is None:
            return None
        local = self.partition.storage if self.partition else {}
        have = {**local, **(self.infrastructure.storage if self.infrastructure else {})}
        for url, storage in have.items():
            if storage.storage_class == wanted:
                return url
        classes = sorted({storage.storage_class for storage in have.values()})
        available = f"it has {', '.join(classes)}" if classes else "its storage is not described"
        raise InfeasibleError(
            f"the target {self.target.name} has no storage of class {wanted}",
            key="application.storage_class_pref",
            hint=f"{available}",
        )


@dataclass(frozen=True)
class Sites:
    """What the site's folders and files say."""

    sites_by_name: Mapping[str, tuple[Infrastructure, Sequence[SiteScript]]] = field(default_factory=dict)
    catalogue: Sequence[str] = ()
    """The other files beside: images, levers, hardware."""
    job: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of each job, by the site's name."""
    files: Sequence[ReadFile] = ()
    """Files whose sites are in the common form."""
    signed: Sequence[str] = ()
    """Sites whose images must be signed."""

    def including(self, name: str | None) -> "Sites":
        """Return the same with the site of the common files that is called ``name``, unless it is there already."""
        if name is None or any(alike(name, other) for other in self.sites_by_name):
            return self
        settings = SiteSettingsFiles([*load_site_settings().files, *self.files])
        own = name if name in settings.names() else next((o for o in settings.names() if alike(name, o)), None)
        site = settings.find(own) if own else None
        if site is None:
            return self
        scripts = [s for file in settings.files if site.name in file.content.sites for s in file.content.scripts]
        job = site.settings.job.model_dump(mode="json", exclude_unset=True)
        return Sites(
            {**self.sites_by_name, site.name: (infrastructure_of(site), scripts)},
            [*self.catalogue, *site.data.get("catalogue", [])],
            {**self.job, site.name: job},
            self.files,
            [*self.signed, *([site.name] if site.settings.target.image_keys else [])],
        )


def alike(name: str, other: str) -> bool:
    return name.replace("-", "_") == other.replace("-", "_")


def load_sites(paths: Sequence[Path]) -> Sites:
    """Return what ``paths`` hold, files of sites or folders with ``sites*.yaml``; a later path replaces an earlier's.

    InputError for two sites of one name in one path.
    """
    sites_by_name: dict[str, tuple[Infrastructure, Sequence[SiteScript]]] = {}
    catalogue: list[str] = []
    read_files: list[ReadFile] = []
    for path in paths:
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        described = [file for file in files if file.name.startswith("sites") or not path.is_dir()]
        if not described:
            raise InputError("the folder has no file sites*.yaml", source=path)
        catalogue += [str(file.absolute()) for file in files if file not in described]
        folder = path if path.is_dir() else None
        read = [read_site_file(SiteFilePath(file, "named", folder)) for file in described]
        scripts = [script for file in read for script in file.content.scripts]
        own = merge((file.document.path, file.content.infrastructures) for file in read)
        sites_by_name.update({name: (infrastructure, scripts) for name, infrastructure in own.items()})
        read_files += [file for file in read if file.content.sites]
    return Sites(sites_by_name, catalogue, files=read_files)


def site_of(sites: Sites, name: str, section: TargetSection, partition: str | None, binds: Sequence[str]) -> Site:
    """Return the site that is called ``name``; InputError where it does not exist or is not what the document says."""
    names = list(sites.sites_by_name)
    similar = [other for other in names if alike(name, other)]
    if name not in names and len(similar) == 1:
        name = similar[0]
    if name not in names:
        available = f"there are {', '.join(sorted(names))}" if names else "name its description by --site"
        hint = did_you_mean(name, names) or available
        raise InputError(f"no site '{name}' is described", key="target.name", hint=hint)
    infrastructure, scripts = sites.sites_by_name[name]
    if not infrastructure.enabled:
        raise InfeasibleError(f"the site {name} is not enabled: it takes no jobs", key="target.name")
    scheduler = section.scheduler
    if scheduler is not None and scheduler != infrastructure.scheduler:
        key = "job_scheduler_type" if section.job_scheduler_type else "queue_type"
        raise InputError(f"it is {scheduler}, and the site {name} has {infrastructure.scheduler}", key=f"target.{key}")
    job = sites.job.get(name, {})
    chosen = _partition(infrastructure, partition or job.get("partition"))
    kind: TargetType = "machine" if infrastructure.scheduler == "none" else infrastructure.scheduler
    node = _node(infrastructure.partitions[chosen].node) if chosen else None
    partitions = [
        Partition(
            name=key,
            default=key == chosen,
            nodes=value.nnodes,
            maximum_wall_time=value.maximum_wall_time,
            node=_node(value.node),
        )
        for key, value in infrastructure.partitions.items()
    ]
    target = Target(
        name=name,
        type=kind,
        partitions=[] if kind == "machine" else partitions,
        node=node if kind == "machine" else None,
        modules=infrastructure.modules,
        gpu_spelling=infrastructure.gpu_spelling,
        parallel_environment=infrastructure.parallel_environment,
        mpi_type=infrastructure.mpi_type,
        binds=[*infrastructure.binds, *binds],
    )
    described = {name: version for name, version in infrastructure.runtimes.items() if name in RUNTIMES}
    facts = Facts(runtimes=described if infrastructure.runtimes else dict(_ASSUMED), mpi=infrastructure.mpi)
    site_partition = infrastructure.partitions[chosen] if chosen else None
    return Site(target, facts, infrastructure, site_partition, chosen, scripts, job)


def _partition(infrastructure: Infrastructure, wanted: str | None) -> str | None:
    have = infrastructure.partitions
    if wanted is not None and have and wanted not in have:
        available = nearest(wanted, list(have)) or f"; it has {', '.join(have)}"
        raise InputError(
            f"the site {infrastructure.name} has no partition '{wanted}'{available}", key="job_options.partition"
        )
    if not have:
        return None
    if wanted is not None:
        return wanted
    default = [name for name, partition in have.items() if partition.default or len(have) == 1]
    if len(default) != 1:
        raise InputError(
            f"the site {infrastructure.name} has no default one",
            key="job_options.partition",
            hint=f"name one of {', '.join(have)}",
        )
    return default[0]


def _node(node: SiteNode) -> Node:
    from archspec.cpu import TARGETS

    micro = node.cpu.microarch or node.cpu.arch
    if micro not in TARGETS:
        raise InputError(f"microarch '{micro}' is not known", hint=did_you_mean(micro, list(TARGETS)))
    if TARGETS[micro].family.name != node.cpu.arch:
        raise InputError(f"microarch '{micro}' is not {node.cpu.arch} but {TARGETS[micro].family.name}")
    accel = node.accel
    return Node(
        cores=node.ncpus * node.cpu.ncores,
        memory=node.memory,
        microarchitecture=micro,
        cpu_features=sorted(TARGETS[micro].features),
        accelerators=[Accelerator(model=accel.model, count=node.naccel, vendor=accel.type, driver=accel.driver)]
        if accel
        else [],
    )


def any_site(scheduler: str | None, node: Node, mpi: Sequence[MpiLibrary], binds: Sequence[str]) -> Site:
    """Return a target of which only the scheduler is known; what the job asks for is taken to be there."""
    kind: TargetType = "slurm" if scheduler == "slurm" else "torque" if scheduler == "torque" else "machine"
    target = Target(
        name=scheduler if kind != "machine" and scheduler else "localhost", type=kind, node=node, binds=list(binds)
    )
    rocm = any(accelerator.vendor == "amd" for accelerator in node.accelerators)
    return Site(target, Facts(runtimes=dict(_ASSUMED_ROCM if rocm else _ASSUMED), mpi=list(mpi)))


def path_of(url: str) -> str:
    """Return the path of a ``file://`` URL, and any other URL as it is."""
    match = re.fullmatch(r"file://(?:localhost)?(/.*)", url)
    return match[1] if match else url


def scripts_for(
    site: Site, names: Sequence[str], features: Mapping[str, object], storage_class: str | None
) -> tuple[list[SiteScript], set[str]]:
    """Return the scripts whose every condition holds, and the features that one of them asked for."""
    matches: list[SiteScript] = []
    used: set[str] = set()
    for script in site.scripts:
        application, infrastructure = script.conditions.application, script.conditions.infrastructure
        holds = (
            application.name in (None, *names)
            and all(key in features and _same(features[key], value) for key, value in application.feature.items())
            and infrastructure.name in (None, site.target.name)
            and infrastructure.storage_class in (None, storage_class)
        )
        if holds:
            matches.append(script)
            used |= set(application.feature)
    return matches, used


def _same(first: object, other: object) -> bool:
    """Tell whether two values are the same; true is no 1, and 1 no true."""
    return first == other and isinstance(first, bool) == isinstance(other, bool)
