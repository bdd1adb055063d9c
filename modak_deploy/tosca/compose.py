"""A blueprint for a deployment document: the reverse of ``translate``."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from modak_deploy.diagnostics import Diagnostic, Locate
from modak_deploy.documents import LocalSource, PlaybookOptions, find_sources, folders, read_description
from modak_deploy.errors import InputError
from modak_deploy.model.base import Model
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Target
from modak_deploy.model.trials import RestartBudget
from modak_deploy.tosca import library
from modak_deploy.tosca.fields import Schema, schema_of
from modak_deploy.tosca.library import RENAMED, Dumper
from modak_deploy.tosca.service import VERSION
from modak_deploy.tosca.translate import OF_APPLICATION_TYPE, OF_TARGET_TYPE
from modak_deploy.tosca.values import FUNCTIONS

JOB, TARGET = "job", "target"
"""Names of the node templates of the job and its host; other targets are ``target_2`` and so on."""
_OUTPUTS = {
    "job_id": "The job's id.",
    "job_state": "State of the job.",
    "chosen": "What the Plan chose.",
    "predicted_seconds": "Predicted run time in seconds.",
    "measured_seconds": "Measured run time in seconds.",
    "results_path": "Folder with the run's results.",
}


def properties_of(model: Model, *omitted: str) -> dict[str, Any]:
    """Return the fields of ``model`` that differ from their defaults, as properties of a node."""
    properties = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name in omitted or (not field.is_required() and value == field.get_default()):
            continue
        properties[RENAMED.get(name, name)] = _value(value, schema_of(field.annotation, field.metadata), name)
    return properties


def _value(value: Any, schema: Schema, path_of_key: str) -> Any:
    if isinstance(value, RestartBudget):
        value = _budget(value, path_of_key)
    elif isinstance(value, Model):
        value = properties_of(value)
    elif schema.entry is not None and isinstance(value, Mapping):
        value = {k: _value(v, schema.entry, f"{path_of_key}.{k}") for k, v in value.items()}
    elif schema.entry is not None:
        value = [_value(v, schema.entry, f"{path_of_key}[{i}]") for i, v in enumerate(value)]
    elif schema.type == "scalar-unit.time":
        value = f"{value} s"
    elif schema.type == "scalar-unit.size":
        value = f"{value} B"
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in FUNCTIONS:
        raise InputError(
            f"TOSCA takes a mapping with '{next(iter(value))}' alone for a call of that function", key=path_of_key
        )
    if value in ("", [], {}) and schema.optional:
        raise InputError(
            "TOSCA cannot tell an empty value from one that is not given", key=path_of_key, hint="leave it out"
        )
    return value


def _budget(trials: RestartBudget, path_of_key: str) -> str:
    """Return the text that stands for the mapping, since TOSCA has no unions."""
    if not trials.live:
        raise InputError(
            "TOSCA has no form for restart trials without live ones", key=f"{path_of_key}.live", hint="leave 'live' out"
        )
    return trials.budget if isinstance(trials.budget, str) else f"{trials.budget} s"


def compose(
    deployment: Deployment, artifacts: Sequence[str] = (), run: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a blueprint that deploys what ``deployment`` says; ``artifacts`` are files and folders beside it.

    ``run`` has the properties of the job that are no part of a deployment.

    InputError names a value that TOSCA cannot express.
    """
    application = deployment.application
    properties = properties_of(application, "type", "workload") | properties_of(application.workload)
    request, job = properties_of(deployment.request), properties_of(deployment.job)
    template: dict[str, Any] = {
        "type": OF_APPLICATION_TYPE[application.type],
        "properties": properties | {k: v for k, v in (("request", request), ("job", job)) if v} | dict(run or {}),
    }
    if artifacts:
        template["artifacts"] = {f"file_{number}": _artifact(path) for number, path in enumerate(artifacts, 1)}
    others = {f"{TARGET}_{number}": target for number, target in enumerate(deployment.other_targets, 2)}
    requirements = [{"host": TARGET}, *({"other_target": name} for name in others)]
    return {
        "tosca_definitions_version": VERSION,
        "description": f"The application {application.name} on the target {deployment.target.name}.",
        "imports": [f"{library.FOLDER}/{library.NAME}"],
        "topology_template": {
            "node_templates": {
                **{name: _target(target) for name, target in {TARGET: deployment.target, **others}.items()},
                JOB: template | {"requirements": requirements},
            },
            "outputs": {
                name: {"description": text, "value": {"get_attribute": [JOB, name]}} for name, text in _OUTPUTS.items()
            },
        },
    }


def _run_properties(options: PlaybookOptions, locate: Locate) -> dict[str, Any]:
    """Return what a document says of its run as properties; InputError names what a blueprint has no form for."""
    properties: dict[str, Any] = {}
    faults = []
    for key in ("force", "record"):
        if getattr(options, key) != PlaybookOptions.model_fields[key].default:
            faults.append(Diagnostic("TOSCA has no form for it", "invalid-value", (key,), hint_text="leave it out"))
    if not options.wait:
        properties["wait"] = False
    if options.timeout_seconds:
        properties["timeout"] = options.timeout_seconds
    if options.results != PlaybookOptions.model_fields["results"].default:
        properties["results"] = options.results
        if not options.results.startswith(("/", "~")):
            text, hint = "a blueprint takes no relative path here", "write an absolute one, or one below '~/'"
            faults.append(Diagnostic(text, "invalid-value", ("results",), hint_text=hint))
    if faults:
        raise InputError(faults).located(locate)
    return properties


def _target(target: Target) -> dict[str, Any]:
    """Return a target's node template; a scheduler of another distribution has no node type of its own."""
    if target.type in OF_TARGET_TYPE:
        return {"type": OF_TARGET_TYPE[target.type], "properties": properties_of(target, "type")}
    return {"type": "modak.nodes.Target", "properties": properties_of(target)}


def _artifact(path: str) -> dict[str, str]:
    kind = "PythonScript" if path.endswith(".py") else "Input"
    return {"type": f"modak.artifacts.{kind}", "file": path}


def as_yaml(blueprint: Mapping[str, Any]) -> str:
    """Return the text of a blueprint."""
    return yaml.dump(
        dict(blueprint), Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True, explicit_start=True
    )


def write_blueprint(document: Path, folder: Path) -> Path:
    """Write a blueprint for a deployment document into a new folder, with its files and the library; return its path.

    InputError names what is wrong with the document, a value that TOSCA cannot express, or the folder that is there.
    """
    description = read_description(document)
    deployment, options = description.parse()
    run = _run_properties(options, description.locate)
    application = deployment.application
    search = folders([Path(path) for path in options.search_paths], [document])
    sources = find_sources(application.model_copy(update={"objects": None}), search)
    paths = [*([application.script] if application.script else []), *application.inputs]
    names = {path: PurePosixPath(path).name for path in paths}
    flat = application.model_copy(
        update={
            "script": names[application.script] if application.script else None,
            "inputs": [names[path] for path in application.inputs],
        }
    )
    if len(set(names.values())) < len(names):
        raise InputError("two files have one name, and xOpera copies all files into one folder", source=document)
    text = as_yaml(compose(deployment.model_copy(update={"application": flat}), sorted(names.values()), run))
    try:
        folder.mkdir(parents=True)
        shutil.copytree(library.folder(), folder / library.FOLDER)
        if any(target.type not in OF_TARGET_TYPE for target in deployment.targets):
            library.write(folder / library.FOLDER)  # the type's permitted values have the scheduler then
        _copy(sources, names, folder)
        blueprint = folder / f"{application.name}.yaml"
        blueprint.write_text(text)
    except FileExistsError:
        raise InputError("the folder already exists", source=folder, hint="name a new one") from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=folder) from None
    return blueprint


def _copy(sources: Sequence[LocalSource], names: Mapping[str, str], folder: Path) -> None:
    for source in sources:
        where = PurePosixPath(source.source.path)
        for path, name in names.items():
            whole = PurePosixPath(path)
            if where == whole or whole in where.parents:
                where = PurePosixPath(name) / where.relative_to(whole)
        target = folder / where
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.local, target)
