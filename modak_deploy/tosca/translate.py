"""Properties of TOSCA nodes as the sections of a deployment document, and a Plan and its job as attributes.

In TOSCA an empty text, list or map, and 0 for a number that must be above 0, stand for "not given"; sizes and times
carry their unit.
"""

from collections.abc import Mapping
from typing import Any

from modak_deploy.documents import expand
from modak_deploy.errors import InputError
from modak_deploy.model.application import Application, Workload
from modak_deploy.model.base import Model
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Target
from modak_deploy.tosca.fields import Schema, schemas_of
from modak_deploy.tosca.library import RENAMED
from modak_deploy.tosca.scalars import UNITS, amount

OF_APPLICATION_TYPE = {
    "ai_training": "modak.nodes.application.AITraining",
    "ai_inference": "modak.nodes.application.AIInference",
    "big_data": "modak.nodes.application.BigDataAnalytics",
    "hpc": "modak.nodes.application.HPC",
}
"""The node type for each type of application."""
OF_TARGET_TYPE = {
    "machine": "modak.nodes.target.Machine",
    "slurm": "modak.nodes.target.SlurmCluster",
    "torque": "modak.nodes.target.TorqueCluster",
    "openpbs": "modak.nodes.target.PBSCluster",
    "gridengine": "modak.nodes.target.GridEngineCluster",
    "cloud": "modak.nodes.target.CloudInstance",
    "kubernetes": "modak.nodes.target.KubernetesCluster",
}
"""The node type for each type of target."""
_FIELDS = {shown: field for field, shown in RENAMED.items()}


def documents(
    application: Mapping[str, Any],
    target: Mapping[str, Any],
    request: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the sections ``application``, ``target``, ``request`` and ``job`` of a deployment document.

    The arguments are what the operations of ``modak.nodes.Job`` are told; InputError names a value that has no meaning.
    Whether the whole is right is for the models to say.
    """
    own, workload = _split(application)
    described = _document(Application, own, "")
    described["name"] = described.get("name") or application.get("tosca_name")
    if measured := _document(Workload, workload, ""):
        described["workload"] = measured
    return {
        "application": {k: v for k, v in described.items() if v is not None},
        "request": _document(Request, request or {}, "request."),
        **image_documents(target, job),
    }


def image_documents(target: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the sections ``target`` and ``job`` for what the operations of ``modak.nodes.ContainerImage`` are told."""
    return {"target": target_section(target), "job": _document(JobOptions, job or {}, "job.")}


def named(document: Mapping[str, Any], deployment: str) -> dict[str, Any]:
    """Return a document whose target names the deployment to which its instance belongs, unless it does already.

    ``deployment`` is empty for a target that nobody creates. A site's settings are filled in, since they say what the
    cloud is.
    """
    if not deployment:
        return dict(document)
    target = expand({"target": document["target"]}).data["target"]
    cloud = {"deployment": deployment, **target.get("cloud", {})}
    return {**document, "target": {**target, "cloud": cloud}}


def target_section(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section ``target`` for the properties of a node; its template's name, or its type, names it."""
    where = _document(Target, {k: v for k, v in target.items() if k != "tosca_name"}, "")
    if "site" in where:
        # A property that is not given has its default, and must not hide the site's setting.
        where = {key: value for key, value in where.items() if not _is_default(Target, key, value)}
    where.setdefault("name", target.get("tosca_name") or where.get("site") or where.get("type") or "machine")
    return where


def _is_default(model: type[Model], name: str, value: Any) -> bool:
    field = model.model_fields.get(name)
    default = field.get_default(call_default_factory=True, validated_data={}) if field else None
    plain = default.model_dump(mode="json") if isinstance(default, Model) else default
    return field is not None and name != "type" and value == plain


def _split(application: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties that are the application's own and those of its workload."""
    own = {k: v for k, v in application.items() if k not in Workload.model_fields and k != "tosca_name"}
    return own, {k: v for k, v in application.items() if k in Workload.model_fields}


def _document(model: type[Model], values: Mapping[str, Any], path: str) -> dict[str, Any]:
    document = {}
    for shown, value in values.items():
        name = _FIELDS.get(shown, shown)
        field = model.model_fields.get(name)
        if field is None:
            document[name] = value  # the model refuses it, with the nearest valid key
            continue
        schema = schemas_of(model)[name]
        if _is_given(value, schema, field.is_required()):
            document[name] = value_of(value, schema, path + shown)
    return document


def _is_given(value: Any, schema: Schema, required: bool) -> bool:
    if value is None or value in ("", [], {}):
        return False
    unset_number = (
        schema.optional and schema.type in ("integer", "float") and not isinstance(value, bool) and value == 0
    )
    return required or not unset_number or ("greater_or_equal", 0) in schema.constraints


def value_of(value: Any, schema: Schema, path: str) -> Any:
    """Return a property's value as the model wants it; ``path`` names it in an error."""
    if schema.model is not None and isinstance(value, Mapping):
        return _document(schema.model, value, path + ".")
    if schema.entry is not None and isinstance(value, list):
        return [_entry(v, schema.entry, f"{path}[{i}]") for i, v in enumerate(value)]
    if schema.entry is not None and isinstance(value, Mapping):
        return {k: _entry(v, schema.entry, f"{path}.{k}") for k, v in value.items()}
    if schema.type.startswith("scalar-unit."):
        return scalar(value, schema.type, path)
    return value


def _entry(value: Any, schema: Schema, path: str) -> Any:
    if schema.type == "string" and isinstance(value, int | float):
        # An input that is a number may stand among the arguments or in the environment.
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value_of(value, schema, path)


def scalar(value: Any, kind: str, path: str) -> int:
    """Return bytes for a ``scalar-unit.size`` and seconds for a ``scalar-unit.time``, by TOSCA's units."""
    exact = amount(value, kind)
    if exact is None:
        raise InputError(f"'{value}' is not an amount with one of the units {', '.join(UNITS[kind])}", key=path)
    if exact.denominator != 1 or exact <= 0:
        whole = "bytes" if kind == "scalar-unit.size" else "seconds"
        raise InputError(f"'{value}' is not a whole number of {whole} above zero", key=path)
    return int(exact)


def attributes_without_plan(unplanned: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return the attributes of ``modak.nodes.Job`` where no target that was asked can run the application."""
    nothing = dict.fromkeys(("target", "chosen", "runtime", "image", "interpreter"), "")
    return {"plan": {}, **nothing, "predicted_seconds": None, "unplanned": dict(unplanned), "refusal": reason}


def attributes(plan: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the attributes of ``modak.nodes.Job`` for a Plan and, once there is one, its job or service, as JSON."""
    chosen, facts = plan["chosen"], plan["facts"]
    native = chosen["runtime"] == "native"
    uses_python = plan["application"].get("script") is not None
    result: dict[str, Any] = {
        "plan": dict(plan),
        "target": plan["target"]["name"],
        "chosen": chosen["name"],
        "runtime": chosen["runtime"],
        "image": (chosen.get("image") or {}).get("reference") or "",
        "interpreter": (plan["target"].get("python") or facts.get("python") or "") if native and uses_python else "",
        "predicted_seconds": plan["prediction"].get("seconds"),
        "unplanned": {},
        "refusal": "",
    }
    if job is None:
        return result
    if plan["application"].get("service") is not None:
        job = {"id": job["name"], "state": "ready" if job["ready"] else "not_ready", "url": job["url"]}
    metrics = job.get("metrics") or {}
    # All of them: opera 0.7 fails where an operation's output is missing.
    return result | {
        "job_id": str(job["id"]),
        "job_state": job["state"],
        "service_url": job.get("url") or "",
        "job_attempt": job.get("attempt", 1),
        "measured_seconds": job.get("seconds"),
        "metric_values": metrics,
        "accuracy": metrics.get("accuracy"),
        "results_path": job.get("results") or "",
    }
