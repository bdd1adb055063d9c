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
from modak_deploy.model.kubernetes import Placement
from modak_deploy.model.plan import Plan
from modak_deploy.outputs import write_output
from modak_deploy.paths import expanded
from modak_deploy.providers.kubernetes import WORK, Workload, manifests
from modak_deploy.providers.kubernetesplan import check_plan, image_of
from modak_deploy.util.files import PRIVATE


def read_plan(path: Path) -> Plan:
    """Return the Plan in a file, as ``modak plan --output`` writes it."""
    return check(Plan, read_document(path).data, origin=str(path))


def manifest(plan: Plan, placement: Placement, search: Sequence[Path]) -> str:
    """Return the manifests as one YAML stream; InputError for what an indexed Job cannot do."""
    return yaml.safe_dump_all(manifests(workload_of(plan, search), placement), sort_keys=False, width=1000)


def workload_of(plan: Plan, search: Sequence[Path], *, returned: bool = False) -> Workload:
    """Return what the Job of a Plan runs; ``returned`` has the outputs come back in the pod's log."""
    request = job_request(plan)
    check_plan(plan, request)
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
        image=image_of(request),
        argv=launching.launched(request, request.argv, WORK),
        environment=environment,
        secrets=sorted(request.secret_environment),
        files=files,
        outputs=list(declared_outputs(request)),
        returned=returned,
        records=launching.RECORD if returned and request.launch is not None else None,
        cores=cores,
        memory=memory,
        gpus=request.resources.gpus,
        wall_time=options.wall_time,
        array=options.array,
    )


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
    folders = list(dict.fromkeys(expanded(folder).absolute() for folder in folders))
    text = manifest(read_plan(path), placement, folders)
    if output is None:
        parts = list(yaml.safe_load_all(text))
        answer(parts[0] if len(parts) == 1 else {"apiVersion": "v1", "kind": "List", "items": parts}, text)
        return
    write_output(output, text, inputs=[path], mode=PRIVATE)
    answer({"written": output})


def _pair(text: str, key: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"'{text[:80]}' is not of the form NAME=VALUE", key=key)
    return name, value
