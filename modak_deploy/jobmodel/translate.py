"""From the document to a deployment for a target that nobody has to ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.documents import check
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobmodel.arguments import argv_of
from modak_deploy.jobmodel.collected import Errors
from modak_deploy.jobmodel.features import check_honoured, check_sections, features_of, names_of, preferences_of
from modak_deploy.jobmodel.imagebuild import JOB_FOLDER
from modak_deploy.jobmodel.images import Narrowed, file_beside, mpi_image, permitted, reference_of
from modak_deploy.jobmodel.layout import Layout, check_capacity, is_parallel, layout_of, stated_efficiency
from modak_deploy.jobmodel.model import JobBody
from modak_deploy.jobmodel.options import (
    begin_of,
    check_memory,
    copied,
    events_of,
    joined,
    mail_notes,
    options_of,
    partition_of,
)
from modak_deploy.jobmodel.site import RUNTIMES, Site, Sites, any_site, path_of, scripts_for, site_of
from modak_deploy.jobmodel.source import source_of
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.image import MpiLibrary
from modak_deploy.model.target import Accelerator, Facts, Node
from modak_deploy.util.architectures import FAMILIES


@dataclass(frozen=True)
class Translation:
    """A deployment, what is known of its target, and what only the scripts need to know."""

    deployment: Deployment
    facts: Facts
    catalogue: Catalogue
    passed: Sequence[str]
    """Variables of the submitter that the job gets."""
    site: Site
    assumed: Sequence[str]
    """What is taken for granted, in sentences."""


def translate(job: JobBody, sites: Sites, catalogue: Catalogue, *, origin: str, travels: bool = False) -> Translation:
    """Return the deployment of the document; InputError or InfeasibleError names every field that cannot be honoured.

    ``travels`` tells that modak starts the job itself, so that its launcher can go with it; a script stands alone.
    """
    site, layout, features = _understood(job, sites, catalogue)
    names = names_of(job)
    storage_class = job.application.storage_class_pref
    storage = site.storage(storage_class)
    site = _with_binds(site, [*_binds(features), *([path_of(storage)] if storage else [])])
    scripts, used = scripts_for(site, names, {**_mpi_of_site(job, site), **features}, storage_class)
    unheld = check_honoured(job, features, used, described=site.infrastructure is not None)
    narrowed = permitted(catalogue, job, site)
    image = reference_of(job.application.container_runtime, site, catalogue)
    if travels and image is not None and image.startswith(f"{JOB_FOLDER}/"):
        raise InputError(
            f"'{job.application.container_runtime}' is a file, and nothing names its folder",
            key="application.container_runtime",
            hint="give its absolute path",
        )
    application = _application(job, site, narrowed, features, image)
    options = options_of(job, site, layout, _name(job))
    if storage is not None:
        options["environment"]["STORAGE"] = path_of(storage)
    stages = {stage: [s.data.raw for s in scripts if s.data.stage == stage] for stage in ("pre", "post")}
    options["pre_execution"] = joined([*stages["pre"], job.application.pre_execution])
    options["post_execution"] = joined([job.application.post_execution, *stages["post"]])
    contained = application.get("image") is not None or application.get("framework") is not None
    data = {
        "application": application,
        "target": site.target.model_dump(mode="json", exclude_none=True),
        "request": _request(job, narrowed, contained, application.get("image"), travels=travels),
        "job": _over_site(site, options),
    }
    deployment = check(Deployment, data, origin=origin)
    _check_mpi(job, site, application)
    _, passed = copied(job.job_options.copy_environment_variable)
    preferences = preferences_of(job, travels=travels)
    assumed = [*layout.notes, *preferences, *mail_notes(job, site), *unheld, *_assumed(job, site, contained)]
    return Translation(deployment, site.facts, narrowed, passed, site, assumed)


def _over_site(site: Site, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's options over those of the site; 0 and false are what a document says, an empty list is not."""
    given = {key: value for key, value in options.items() if value is not None}
    return {**site.job, **{key: value for key, value in given.items() if value not in ([], {}) or key not in site.job}}


def _understood(job: JobBody, sites: Sites, catalogue: Catalogue) -> tuple[Site, Layout, dict[str, Any]]:
    """Return site, layout and features; one error names every field that no part of the translation understands."""
    o, application, errors = job.job_options, job.application, Errors()
    errors.of(lambda: check_sections(job))
    features = errors.of(lambda: features_of(job))
    site = errors.of(lambda: _site(job, sites, catalogue))
    layout = errors.of(lambda: layout_of(job, _cores(site)))
    if site is not None and layout is not None:
        errors.of(lambda: check_capacity(job, layout, site))
    errors.of(lambda: copied(o.copy_environment_variable))
    errors.of(lambda: partition_of(job))
    errors.of(lambda: check_memory(job))
    errors.of(lambda: begin_of(o.defer_job))
    errors.of(lambda: events_of(o.request_event_notification))
    errors.of(lambda: _argv(job, layout.ranks if layout else 1))
    if site is not None:
        errors.of(lambda: reference_of(application.container_runtime, site, catalogue))
        errors.of(lambda: site.storage(application.storage_class_pref))
    if application.build is not None:
        build = application.build
        errors.of(lambda: source_of(build))
    errors.check()
    if site is None or layout is None or features is None:
        raise InputError("the document cannot be translated")  # cannot be: check has raised what kept them back
    return site, layout, features


def _argv(job: JobBody, ranks: int = 1) -> list[str]:
    application = job.application
    return argv_of(
        "application.executable",
        application.executable,
        "application.arguments",
        application.arguments or "",
        ranks=ranks,
        python=application.app_type == "python",
    )


def _mpi_of_site(job: JobBody, site: Site) -> dict[str, Any]:
    """Return the library of a site that has one alone, for conditions of scripts where an MPI job names none."""
    families = {library.family for library in site.facts.mpi}
    return {"library": families.pop()} if len(families) == 1 and is_parallel(job) else {}


def _cores(site: Site | None) -> int | None:
    """Return the cores of a node that the site's description has for the job's partition."""
    node = site.partition.node if site is not None and site.partition else None
    return None if node is None else node.ncpus * node.cpu.ncores


def _name(job: JobBody) -> str:
    return job.job_options.job_name or job.application.app_tag or "job"


def _site(job: JobBody, sites: Sites, catalogue: Catalogue) -> Site:
    target, options = job.target, job.job_options
    if target.name is not None and sites.sites_by_name:
        site = site_of(sites, target.name, target, options.partition or options.queue, ())
        _check_hardware(job, site)
        return site if site.partition is not None else _with_accelerators(site, _accelerators(job, catalogue))
    build = job.optimisation.opt_build if job.optimisation and job.optimisation.enable_opt_build else None
    family = FAMILIES[build.cpu_type] if build and build.cpu_type else None
    accelerators = _accelerators(job, catalogue)
    return any_site(target.scheduler, Node(microarchitecture=family, accelerators=accelerators), _stated_mpi(job), ())


def _accelerators(job: JobBody, catalogue: Catalogue) -> list[Accelerator]:
    """Return the accelerators that the job asks for, for nodes that nobody describes."""
    gpus = job.job_options.request_gpus
    if not gpus:
        return []
    build = job.optimisation.opt_build if job.optimisation and job.optimisation.enable_opt_build else None
    vendor = build.acc_type if build and build.acc_type in ("nvidia", "amd") else "nvidia"
    drivers = [i.driver for i in catalogue.images.values() if i.accelerator == vendor and i.driver]
    return [Accelerator(model="any", count=gpus, vendor=vendor, driver=max(drivers, key=Version, default=None))]


def _with_accelerators(site: Site, accelerators: Sequence[Accelerator]) -> Site:
    """Return a site without partitions whose nodes have what the job asks for, so that its container gets it."""
    if not accelerators:
        return site
    node = (site.target.node or Node()).model_copy(update={"accelerators": list(accelerators)})
    target = site.target.model_copy(update={"node": node})
    return replace(site, target=target)


def _check_hardware(job: JobBody, site: Site) -> None:
    """Refuse processors and accelerators that the site's nodes do not have."""
    optimisation, partition = job.optimisation, site.partition
    if optimisation is None or not optimisation.enable_opt_build or partition is None:
        return
    build, node = optimisation.opt_build, partition.node
    if build.cpu_type is not None and FAMILIES[build.cpu_type] != node.cpu.arch:
        raise InfeasibleError(
            f"it is {build.cpu_type}, and the nodes of {site.target.name} are {node.cpu.arch}",
            key="optimisation.opt_build.cpu_type",
        )
    if build.acc_type is not None and node.accel is not None and node.accel.type != build.acc_type:
        raise InfeasibleError(
            f"it is {build.acc_type}, and the nodes of {site.target.name} have {node.accel.type}",
            key="optimisation.opt_build.acc_type",
        )


def _stated_mpi(job: JobBody) -> list[MpiLibrary]:
    mpi = job.optimisation.hpc.mpi if job.optimisation and job.optimisation.hpc else None
    if mpi is None or mpi.library is None or mpi.version is None or not mpi.version[:1].isdigit():
        return []
    return [MpiLibrary(family=mpi.library, version=mpi.version)]


def _check_mpi(job: JobBody, site: Site, application: Mapping[str, Any]) -> None:
    """Refuse an MPI library that a described site does not have, for a program that runs on the site itself."""
    from modak_deploy.optimiser.conditions import satisfies

    mpi = job.optimisation.hpc.mpi if job.optimisation and job.optimisation.hpc else None
    if mpi is None or mpi.library is None or application.get("image") is not None or site.infrastructure is None:
        return
    have = site.facts.mpi
    if have and not any(
        library.family == mpi.library and (mpi.version is None or satisfies(library.version, mpi.version))
        for library in have
    ):
        present = ", ".join(f"{library.family} {library.version}" for library in have)
        raise InfeasibleError(
            f"{' '.join(filter(None, (mpi.library, mpi.version)))} is requested, but {site.target.name} has {present}",
            key="optimisation.app_type-hpc.parallelisation-mpi.library",
        )


def _binds(features: Mapping[str, Any]) -> list[str]:
    location = features.get("location")
    return [location] if isinstance(location, str) and location.startswith("/") else []


def _with_binds(site: Site, binds: Sequence[str]) -> Site:
    paths = [path for path in dict.fromkeys([*site.target.binds, *binds]) if path.startswith("/")]
    target = site.target.model_copy(update={"binds": paths})
    return replace(site, target=target)


def _application(
    job: JobBody, site: Site, catalogue: Narrowed, features: Mapping[str, Any], image: str | None
) -> dict[str, Any]:
    application, optimisation = job.application, job.optimisation
    argv = _argv(job)
    kind = optimisation.app_type if optimisation else "big_data" if application.app_type == "python" else "hpc"
    mpi = optimisation.hpc.mpi if optimisation and optimisation.hpc else None
    if image is None and mpi is not None and mpi.library is not None and site.facts.runtimes:
        image = mpi_image(catalogue, mpi)
    result: dict[str, Any] = {
        "name": application.app_tag or _name(job),
        "type": kind,
        "executable": argv[0],
        "arguments": argv[1:],
        "framework": _framework(job),
        "image": image,
        "workload": _workload(job, features),
    }
    return {key: value for key, value in result.items() if value is not None}


def _framework(job: JobBody) -> dict[str, Any] | None:
    training = job.optimisation.training if job.optimisation else None
    if training is None:
        return None
    name = training.config.ai_framework
    section = getattr(training, name, None)
    result = {"name": name, "version": section.version if section is not None else None}
    return {key: value for key, value in result.items() if value is not None}


def _workload(job: JobBody, features: Mapping[str, Any]) -> dict[str, Any]:
    tag, dataset = job.application.app_tag, features.get("basedata")
    result = {
        "model": tag.lower() if tag and job.optimisation else None,
        "unit": None if job.optimisation and job.optimisation.training else "run",
        "dataset": dataset.lower() if dataset else None,
        "samples": features.get("count"),
        "layers": features.get("layers"),
        "parameters": features.get("parameters"),
    }
    return {key: value for key, value in result.items() if value is not None}


def _request(
    job: JobBody, catalogue: Catalogue, contained: bool, image: str | None, *, travels: bool
) -> dict[str, Any]:
    """Return the request: containers where an image is meant, and the levers that the document switches.

    Levers of the launcher, and trials, need the launcher beside the job: a script that stands alone has none.
    """
    inside = [] if travels else [lever.name for lever in catalogue.levers.values() if lever.launch is not None]
    tuned = travels and job.optimisation is not None and job.optimisation.enable_autotuning
    runtimes = list(RUNTIMES) if contained else ["native"]
    if travels and contained and image is None:
        runtimes.insert(0, "native")  # the target is asked which packages it has
    request: dict[str, Any] = {
        "runtimes": runtimes,
        "trials": "live" if tuned else "none",
        "forbid_levers": inside,
    }
    training = job.optimisation.training if job.optimisation else None
    required: list[str] = []
    if training and training.keras and training.keras.backend:
        backend = {"tensorflow": "keras-tensorflow", "pytorch": "keras-torch"}[training.keras.backend]
        required.append(backend)
    xla = training.tensorflow.xla if training and training.tensorflow else None
    levers = [
        lever.name
        for lever in catalogue.levers.values()
        if lever.compiler == "xla" and "tensorflow" in lever.when.packages
    ]
    if xla is not None and not levers:
        raise InputError(
            "no lever of the catalogue has XLA", key="optimisation.app_type-ai_training.ai_framework-tensorflow.xla"
        )
    if xla is True:
        required.append(levers[0])
    if xla is False:
        request["forbid_levers"] = [*inside, *levers]
    least = job.application.minimal_efficiency
    if least is not None and stated_efficiency(job) is None:
        request |= {"objective": "efficiency", "minimal_efficiency": least}
    return {**request, "require_levers": required}


def _assumed(job: JobBody, site: Site, contained: bool) -> list[str]:
    if site.infrastructure is None:
        name = job.target.name
        described = f"target.name: the site {name} is not described" if name else "no site is named"
        notes = [f"{described}: what the job asks for is taken to be there"]
    else:
        notes = []
    if contained and site.assumes_runtime:
        notes.append("singularity is taken to be on its nodes, and their processors to be as new as the image needs")
    image = job.application.container_runtime
    if contained and image is not None and (file := file_beside(image, site)):
        notes.append(f"application.container_runtime: '{image}' is the file {file} in the folder of the job")
    return notes
