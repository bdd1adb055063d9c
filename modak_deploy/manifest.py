"""A Plan with a container image as an indexed Job of Kubernetes, for ``kubectl apply``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.answers import answer
from modak_deploy.documents import check, find_sources, read_document
from modak_deploy.errors import InputError
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs import launching
from modak_deploy.jobs.job import specification
from modak_deploy.jobs.results import declared_outputs
from modak_deploy.jobs.script import merged_environment
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.model.reference import parse
from modak_deploy.providers.kubernetes import WORK, Placement, Workload, manifests
from modak_deploy.util.files import PRIVATE, write_atomically

_SUPPORTED = frozenset(
    {
        *("name", "wall_time", "nodes", "ranks", "ranks_per_node", "cores_per_rank", "threads", "memory"),
        *("memory_per_core", "gpus", "array", "environment", "retry", "mpi_launcher", "mpi"),
    }
)
"""Options of a job that have a place in a Job of Kubernetes, or are about ranks, of which it has one."""


def read_plan(path: Path) -> Plan:
    """Return the Plan in a file, as ``modak plan --output`` writes it."""
    return check(Plan, read_document(path).data, origin=str(path))


def manifest(plan: Plan, placement: Placement, search: Sequence[Path]) -> str:
    """Return the manifests as one YAML stream; InputError for what an indexed Job cannot do."""
    return yaml.safe_dump_all(manifests(workload_of(plan, search), placement), sort_keys=False, width=1000)


def workload_of(plan: Plan, search: Sequence[Path], *, returned: bool = False) -> Workload:
    """Return what the Job of a Plan runs; ``returned`` has the outputs come back in the pod's log."""
    request = job_request(plan)
    _check(plan, request)
    files = {
        **_sources(plan, search),
        **{path: (content, True) for path, content in request.programs.items()},
        **{path: (content, False) for path, content in launching.files(request).items()},
    }
    environment = dict(merged_environment(request, specification(request, WORK)))
    if request.preload:
        given = [environment["LD_PRELOAD"]] if environment.get("LD_PRELOAD") else []
        environment["LD_PRELOAD"] = ":".join([*request.preload, *given])
    options = plan.job
    memory = options.memory
    cores = request.resources.threads or options.cores_per_rank
    if memory is None and options.memory_per_core is not None:
        memory = options.memory_per_core * (cores or 1)
    return Workload(
        run=request.name,
        tag=request.tag,
        image=_image(request),
        argv=launching.launched(request, request.argv, WORK),
        environment=environment,
        secrets=sorted(request.secret_environment),
        files=files,
        outputs=list(declared_outputs(request)),
        returned=returned,
        cores=cores,
        memory=memory,
        gpus=request.resources.gpus,
        wall_time=options.wall_time,
        array=options.array,
    )


def _check(plan: Plan, request: JobRequest) -> None:
    if plan.restart is not None:
        raise InputError(
            "restart trials are not supported by Kubernetes", key="request.trials", hint="plan with 'live' or 'none'"
        )
    if request.resources.nodes > 1 or request.resources.ranks > 1:
        raise InputError(
            f"{request.resources.ranks} ranks on {request.resources.nodes} nodes are not supported by Kubernetes",
            key="job",
            hint="plan for one node with one rank; an array 0-N runs independent tasks",
        )
    for name, option in type(plan.job).model_fields.items():
        if name not in _SUPPORTED and getattr(plan.job, name) != option.get_default(call_default_factory=True):
            raise InputError("not supported by Kubernetes", key=f"job.{name}", hint="leave it out, and plan again")


def _image(request: JobRequest) -> str:
    """Return the image as a node pulls it, by its digest."""
    if request.image is None:
        raise InputError(
            f"the Plan's candidate '{request.candidate}' runs in no image",
            key="chosen.image",
            hint="name 'application.image', or 'request.runtimes: [docker]', and plan again",
        )
    reference = parse(request.image.reference)
    if reference.scheme != "docker":
        raise InputError(
            f"the image '{request.image.reference}' cannot be pulled by Kubernetes",
            key="chosen.image",
            hint="use an image of a registry, docker://HOST/NAME@sha256:...; push one that was built with modak image",
        )
    digest = reference.digest or request.image.digest
    if digest is None:
        raise InputError(
            f"the image '{request.image.reference}' has no digest", key="chosen.image", hint="modak image inspect"
        )
    return str(reference.pinned(digest)).removeprefix("docker://")


def _sources(plan: Plan, search: Sequence[Path]) -> dict[str, tuple[bytes, bool]]:
    """Return the user's files; InputError where one is no longer what was planned for."""
    planned = {source.path: source.sha256 for source in plan.sources}
    files: dict[str, tuple[bytes, bool]] = {}
    for local in find_sources(plan.application, search):
        if planned.get(local.source.path) != local.source.sha256:
            raise InputError("the file differs from the Plan's", source=local.local, hint="plan again")
        try:
            files[local.source.path] = (local.local.read_bytes(), local.source.executable)
        except OSError as error:
            raise InputError(f"the file cannot be read: {error.strerror}", source=local.local) from None
    if missing := sorted(planned.keys() - files.keys()):
        raise InputError(f"the file '{missing[0]}' of the Plan is not found", hint="name its folder by --search")
    return files


def placement_of(values: Mapping[str, Any], pairs: Mapping[str, Sequence[str]]) -> Placement:
    """Return the placement that options say; ``pairs`` are those that are given as ``NAME=VALUE``, several times."""
    mappings = {key: dict(_pair(text, key) for text in texts) for key, texts in pairs.items()}
    for key, texts in pairs.items():
        if len(mappings[key]) < len(texts):
            raise InputError("a name is given twice", key=key)
    return check(Placement, {**values, **mappings}, origin="options")


def write_manifest(
    path: Path,
    values: Mapping[str, Any],
    pairs: Mapping[str, Sequence[str]],
    *,
    search: Sequence[Path],
    output: Path | None,
) -> None:
    """Write the manifests of the Plan in ``path`` to ``output`` or the standard output.

    ``values`` are options of the placement, ``pairs`` those that are given as ``NAME=VALUE``, several times.
    """
    placement = placement_of(values, pairs)
    folders = [*search, path.parent, Path()]
    folders = list(dict.fromkeys(folder.expanduser().absolute() for folder in folders))
    text = manifest(read_plan(path), placement, folders)
    if output is None:
        answer(yaml.safe_load(text), text)
        return
    try:
        write_atomically(output, text, mode=PRIVATE)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", source=output) from None
    answer({"written": output})


def _pair(text: str, key: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"'{text[:80]}' is not of the form NAME=VALUE", key=key)
    return name, value
