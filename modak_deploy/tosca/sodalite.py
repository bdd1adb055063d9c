"""SODALITE's node types, whose properties bear the names of the JSON job model, as sections of a document.

A job there is an execution (options of the job, and perhaps a ready script) of an application, in a container runtime,
on a workload manager. What the job model describes goes through its own translation; a ready script is run as it is.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.diagnostics import Diagnostic, Position
from modak_deploy.documents import check
from modak_deploy.errors import InputError, ModakError
from modak_deploy.jobmodel.model import Build, JobBody, JobDocument, without_blanks
from modak_deploy.jobmodel.names import in_job_model
from modak_deploy.jobmodel.options import joined
from modak_deploy.jobmodel.script import build_here
from modak_deploy.jobmodel.site import Sites
from modak_deploy.jobmodel.translate import translate
from modak_deploy.model.base import Model
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import TargetType
from modak_deploy.shell import quote
from modak_deploy.tosca.sodalite_modak import in_job_model_spelling, without_nulls
from modak_deploy.tosca.sodalite_types import APPLICATION, EXECUTION, MANAGER, MANAGER_ATTRIBUTES
from modak_deploy.tosca.translate import target_section

T = TypeVar("T")
_OPTIONS = frozenset(EXECUTION) - {"content", "workspace"}
_SCHEDULERS: dict[str, tuple[str, TargetType]] = {
    "slurm": ("slurm", "slurm"),
    "torque": ("torque", "torque"),
    "pbs": ("torque", "openpbs"),
    "batch": ("none", "machine"),
}
"""What each scheduler is called in the job model, and among targets; a batch host without one is a plain machine."""
SCRIPT, _BUILD = "job-script.sh", "job-build.sh"


def sections(given: Mapping[str, Any], manager: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """Return the sections of a deployment document, and ``files``: texts of files that the job needs, by name.

    ``given`` holds the properties of a job's runtime, application and execution, ``env`` and the template's name;
    ``manager`` those of the workload manager and its address. ``section`` is the type of target that a manager whose
    scheduler is ``batch`` turned out to be; until it is asked, the first is taken that can do what is asked.
    InputError names a property that cannot be honoured.
    """
    faults = []
    for scheduler, kind in _kinds(manager.get("scheduler") or "batch", section):
        try:
            return _sections(given, manager, scheduler, kind)
        except ModakError as error:
            faults.append(error)
    raise faults[0]


def _kinds(name: str, section: str) -> list[tuple[str, TargetType]]:
    if name not in _SCHEDULERS:
        raise InputError(f"'{name}' is not supported", key="scheduler", hint=f"write {', '.join(_SCHEDULERS)}")
    if name != "batch":
        return [_SCHEDULERS[name]]
    return [pair for pair in _SCHEDULERS.values() if section in ("", pair[1])]


def _sections(given: Mapping[str, Any], manager: Mapping[str, Any], scheduler: str, kind: TargetType) -> dict[str, Any]:
    content = given.get("content") or ""
    options = {k: v for k, v in given.items() if k in _OPTIONS and _is_given(v)}
    described = {k: v for k, v in given.items() if k in APPLICATION and _is_given(v)}
    described.setdefault("app_tag", options.get("job_name") or given["tosca_name"])
    if "build" in described:
        described["build"] = _build(described["build"], described.get("container_runtime"))
    if content:
        if "optimisation" in described:
            hint = "describe the program by 'executable'"
            raise InputError("is not supported for a ready script in 'content'", key="optimisation", hint=hint)
        described.pop("container_runtime", None)  # the script starts its container itself
        described["executable"], described["arguments"] = f"./{SCRIPT}", ""
        described["app_type"] = "mpi"  # what it reserves is for the ranks that it starts
    elif not described.get("executable"):
        raise InputError("either a ready script in 'content' or an 'executable' is required", key="executable")
    if image := described.get("container_runtime"):
        described["container_runtime"] = _image(image, given.get("private_registry"))
    model = {"job_options": options, "application": described, "target": {"queue_type": scheduler}}
    optimisation = in_job_model_spelling(without_nulls(described.pop("optimisation", {})))
    if described.pop("enable_autotuning", False):
        optimisation["enable_autotuning"] = True
    if optimisation:
        model["optimisation"] = optimisation
    job, deployment = _translated(model)
    section = {key: value.model_dump(mode="json", exclude_unset=True) for key, value in _parts(deployment).items()}
    section["target"] = _target(manager, kind)
    section["application"]["environment"] = {
        **section["application"].get("environment", {}),
        **(given.get("env") or {}),
    }
    if given.get("node_list"):
        # The name of a machine; what 'request_specific_nodes' holds may be a property of nodes to Torque.
        section["job"]["node_list"] = given["node_list"]
    section["files"] = {}
    if content:
        section["application"] |= _ready(given)
        section["job"]["mpi_launcher"] = "none"
        section["files"][SCRIPT] = content
    if job.application.build is not None:
        _add_build(section, job.application.build, _home(given.get("workspace") or "~/") if content else ".")
    return section


def _add_build(section: dict[str, Any], build: Build, folder: str) -> None:
    """Let the job build its application in ``folder``, a shell word, before anything else."""
    if section["job"].get("array"):
        raise InputError("each task of 'job_array' would build anew", key="build", hint="build in a job before it")
    section["files"][_BUILD] = _of_properties(lambda: build_here(build, section["application"]["name"]))
    section["application"]["inputs"] = [*section["application"].get("inputs", []), _BUILD]
    line = f'(build=$PWD/{_BUILD}; mkdir -p {folder} && cd {folder} && sh "$build")'
    section["job"]["pre_execution"] = joined([line, section["job"].get("pre_execution")])


def _image(name: str, registry: str | None) -> str:
    """Return an image of a private registry by the registry's address."""
    if not name.startswith("private://"):
        return name
    if not registry:
        raise InputError(
            f"'{name}' is in a private registry, and the runtime's 'private_registry' is empty", key="container_runtime"
        )
    return f"docker://{registry.removeprefix('https://').strip('/')}/{name.removeprefix('private://')}"


def _build(given: Any, image: str | None) -> Any:
    """Return how the application is built: what the map holds, or what its one entry does."""
    if image:
        raise InputError(
            f"it cannot be built inside the image '{image}'",
            key="build",
            hint="build it in the image's definition, or in 'content'",
        )
    if isinstance(given, Mapping) and len(given) == 1 and isinstance(next(iter(given.values())), Mapping):
        given = next(iter(given.values()))
    if isinstance(given, Mapping) and str(given.get("build_parallelism", "")).isdecimal():
        return {**given, "build_parallelism": int(given["build_parallelism"])}  # the map holds texts
    return given


def _parts(deployment: Deployment) -> dict[str, Model]:
    return {"application": deployment.application, "request": deployment.request, "job": deployment.job}


def _is_given(value: Any) -> bool:
    return value is not None and value not in ("", [], {}) and not (value == 0 and not isinstance(value, bool))


def _translated(job: Mapping[str, Any]) -> tuple[JobBody, Deployment]:
    """Return the job in the job model and what it comes to, without asking the target."""

    def both() -> tuple[JobBody, Deployment]:
        body = check(JobDocument, without_blanks({"job": dict(job)}), origin="the blueprint").job
        return body, translate(body, Sites(), load_catalogue(), origin="the blueprint", travels=True).deployment

    return _of_properties(both)


def _of_properties(make: Callable[[], T]) -> T:
    """Return what is made; the problems in an error come under the names of properties."""
    try:
        return make()
    except ModakError as error:
        raise in_job_model(error).mapped(_of_property) from None


def _of_property(diagnostic: Diagnostic) -> Diagnostic:
    """Return a problem under the property's own name: a blueprint has no sections."""
    path = diagnostic.path[1:] if diagnostic.path[:1] == ("job",) else diagnostic.path
    path = path[1:] if path[:1] and path[0] in ("job_options", "application", "target") else path
    return diagnostic.at(Position(""), path)


def _target(manager: Mapping[str, Any], kind: TargetType) -> dict[str, Any]:
    own = (*MANAGER, *MANAGER_ATTRIBUTES.values(), "public_address")
    given = {k: v for k, v in manager.items() if k not in own}
    given["type"] = kind
    given["host"] = given.get("host") or manager.get("public_address")
    for key, name in (("user", "username"), ("private_key", "ssh-key")):
        given[key] = given.get(key) or manager.get(MANAGER_ATTRIBUTES[name]) or manager.get(name)
    return target_section(given)


def _ready(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program that runs a ready script in its workspace, with the variables that such scripts go by."""
    workspace = _home(given.get("workspace") or "~/")
    images = _home(given.get("images_location") or "images", below_home=True)
    line = (
        f"SINGULARITY_DIR={images} WORKSPACE_DIR={workspace}; PBS_O_WORKDIR=$WORKSPACE_DIR "
        "SLURM_SUBMIT_DIR=$WORKSPACE_DIR script=$PWD/$0; "
        "export SINGULARITY_DIR WORKSPACE_DIR PBS_O_WORKDIR SLURM_SUBMIT_DIR; "
        'mkdir -p "$WORKSPACE_DIR" && cd "$WORKSPACE_DIR" && '
    )
    starts = 'exec "$script"' if given["content"].startswith("#!") else 'exec /bin/sh "$script"'
    return {"executable": "/bin/sh", "arguments": ["-c", line + starts, SCRIPT], "inputs": [SCRIPT]}


def _home(path: str, *, below_home: bool = False) -> str:
    """Return a folder of the target as a shell word."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"/{quote(path[2:])}' if path[2:] else '"$HOME"'
    return f'"$HOME"/{quote(path)}' if below_home and not path.startswith("/") else quote(path)
