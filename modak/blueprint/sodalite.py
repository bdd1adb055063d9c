"""SODALITE's node types, whose properties bear the names of the JSON job model, as sections of a document.

A job there is an execution (options of the job, and perhaps a ready script) of an application, in a container runtime,
on a workload manager. What the job model describes goes through its own translation; a ready script is run as it is.
"""

from collections.abc import Mapping
from typing import Any

from modak.blueprint.sodalite_types import APPLICATION, EXECUTION, MANAGER
from modak.blueprint.translate import target_section
from modak.catalogue.catalogue import load_catalogue
from modak.documents import check
from modak.dsl.model import JobDocument, without_blanks
from modak.dsl.names import in_its_words
from modak.dsl.site import Sites
from modak.dsl.translate import translate
from modak.errors import InputError, ModakError
from modak.model.base import Model
from modak.shell import quote

_OPTIONS = frozenset(EXECUTION) - {"content", "workspace"}
_SCHEDULERS = {"slurm": ("slurm", "slurm"), "torque": ("torque", "torque"), "pbs": ("torque", "openpbs")}
"""What each scheduler is called in the job model, and among targets."""
_SCRIPT = "job-script.sh"


def sections(told: Mapping[str, Any], manager: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a deployment document, and ``files``: texts of files that the job needs, by name.

    ``told`` holds the properties of a job's runtime, application and execution, ``env`` and the template's name;
    ``manager`` those of the workload manager and its address. InputError names a property that cannot be honoured.
    """
    scheduler, kind = _scheduler(manager)
    content = told.get("content") or ""
    options = {k: v for k, v in told.items() if k in _OPTIONS and _is_given(v)}
    described = {k: v for k, v in told.items() if k in APPLICATION and _is_given(v)}
    described.setdefault("app_tag", options.get("job_name") or told["tosca_name"])
    if content:
        described.pop("container_runtime", None)  # the script starts its container itself
        described["executable"], described["arguments"] = f"./{_SCRIPT}", ""
        described["app_type"] = "mpi"  # what it reserves is for the ranks that it starts
    elif not described.get("executable"):
        raise InputError("executable: there is neither a ready script in 'content' nor an application's 'executable'")
    deployment = _translated({"job_options": options, "application": described, "target": {"queue_type": scheduler}})
    found = {key: value.model_dump(mode="json", exclude_unset=True) for key, value in _parts(deployment).items()}
    found["target"] = _target(manager, kind)
    found["application"]["environment"] = {**found["application"].get("environment", {}), **(told.get("env") or {})}
    if content:
        found["application"] |= _ready(told)
        found["job"]["mpi_launcher"] = "none"
        found["files"] = {_SCRIPT: content}
    return found


def _parts(deployment: Any) -> dict[str, Model]:
    return {"application": deployment.application, "request": deployment.request, "job": deployment.job}


def _is_given(value: Any) -> bool:
    return value is not None and value not in ("", [], {}) and not (value == 0 and not isinstance(value, bool))


def _translated(job: Mapping[str, Any]) -> Any:
    try:
        body = check(JobDocument, without_blanks({"job": dict(job)}), origin="the blueprint").job
        return translate(body, Sites(), load_catalogue(), origin="the blueprint").deployment
    except ModakError as error:
        lines = str(in_its_words(error)).splitlines()
        told = [line.removeprefix("the blueprint: ").removeprefix("job.") for line in lines]
        raise type(error)("\n".join(_property(line) for line in told)) from None


def _property(line: str) -> str:
    """Return a fault with the property's own name: the blueprint has no sections."""
    for section in ("job_options.", "application.", "target."):
        line = line.removeprefix(section)
    return line


def _scheduler(manager: Mapping[str, Any]) -> tuple[str, str]:
    name = manager.get("scheduler") or "batch"
    if name not in _SCHEDULERS:
        raise InputError(f"scheduler: '{name}' does not say which one it is: write {', '.join(_SCHEDULERS)}")
    return _SCHEDULERS[name]


def _target(manager: Mapping[str, Any], kind: str) -> dict[str, Any]:
    told = {k: v for k, v in manager.items() if k not in (*MANAGER, "public_address")}
    told["type"] = kind
    told["host"] = told.get("host") or manager.get("public_address")
    told["user"] = told.get("user") or manager.get("username")
    told["private_key"] = told.get("private_key") or manager.get("ssh-key")
    return target_section(told)


def _ready(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program that runs a ready script, with the variables that such scripts go by."""
    workspace = _home(told.get("workspace") or "~/")
    images = _home(told.get("images_location") or "images", below_home=True)
    line = (
        f"SINGULARITY_DIR={images} WORKSPACE_DIR={workspace} PBS_O_WORKDIR=$PWD; "
        "export SINGULARITY_DIR WORKSPACE_DIR PBS_O_WORKDIR; "
    )
    starts = 'exec "$0"' if told["content"].startswith("#!") else 'exec /bin/sh "$0"'
    return {"executable": "/bin/sh", "arguments": ["-c", line + starts, f"./{_SCRIPT}"], "inputs": [_SCRIPT]}


def _home(path: str, *, below_home: bool = False) -> str:
    """Return a folder of the target as a shell word."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"/{quote(path[2:])}' if path[2:] else '"$HOME"'
    return f'"$HOME"/{quote(path)}' if below_home and not path.startswith("/") else quote(path)
