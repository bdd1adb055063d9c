"""The deployments that a blueprint describes: its jobs with their targets, inputs resolved, as the models want them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from modak_deploy.diagnostics import Diagnostic, Location
from modak_deploy.documents.sites import expand
from modak_deploy.documents.validation import problems
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.application import Workload
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target
from modak_deploy.tosca.library import RENAMED, application_properties, target_properties
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.preflight import rejections
from modak_deploy.tosca.references import artifacts_of, calls_in, file_of, host_of, requirements_of, target_of
from modak_deploy.tosca.service import Service
from modak_deploy.tosca.translate import documents
from modak_deploy.tosca.values import is_function

JOB, TARGET = "modak.nodes.Job", "modak.nodes.Target"
_UNKNOWN = object()
"""A value that only a deployment tells: an attribute, or an input without a value."""


@dataclass(frozen=True)
class Resolver:
    """Evaluates functions with the values that inputs have before anything is deployed."""

    service: Service
    inputs: Mapping[str, Any]
    path: tuple[tuple[str, str], ...] = ()
    """Nodes and properties that are being evaluated, each for the one before."""

    def value(self, value: Any, node: str | None) -> Any:
        """Return ``value`` with all functions evaluated; ``_UNKNOWN`` where one cannot be yet."""
        if is_function(value):
            ((function, argument),) = value.items()
            return self._call(function, argument, node)
        if isinstance(value, dict):
            parts = {k: self.value(v, node) for k, v in value.items()}
            return {k: v for k, v in parts.items() if v is not _UNKNOWN}
        if isinstance(value, list):
            items = [self.value(v, node) for v in value]
            return _UNKNOWN if _UNKNOWN in items else items
        return value

    def properties(self, template: SourceLocation, only: str | None = None) -> dict[str, Any]:
        """Return the properties of a node template with their defaults, or the one named ``only``.

        Those that cannot be told yet are absent.
        """
        definitions = self.service.types.collected(self.service.type_of(template), "properties")
        given = template.value.get("properties") or {}
        values = {
            name: self.value(given.get(name, definition.get("default")), template.name)
            for name, definition in definitions.items()
            if (name in given or "default" in definition) and only in (None, name)
        }
        return {name: value for name, value in values.items() if value is not _UNKNOWN}

    def _call(self, function: str, argument: Any, node: str | None) -> Any:
        templates = self.service.templates()
        match function, argument:
            case "get_input", [str(name)] | str(name):
                return self._input(name)
            case "get_property", [str(entity), str(name)]:
                template = templates.get(node or "") if entity == "SELF" else templates.get(entity)
                if entity == "HOST":
                    template = host_of(self.service, templates.get(node or ""))
                return self._property(template, name) if template else _UNKNOWN
            case "get_artifact", [_, str(name), *_]:
                owner = templates.get(node or "")
                file = file_of(artifacts_of(self.service, owner).get(name)) if owner else None
                return PurePosixPath(file).name if file else _UNKNOWN
            case "concat", [*parts]:
                return self._joined(parts, "", node)
            case "join", [[*parts]]:
                return self._joined(parts, "", node)
            case "join", [[*parts], str(delimiter)]:
                return self._joined(parts, delimiter, node)
            case "token", [str(text), str(separator), int(index)] if separator:
                pieces = text.split(separator)
                return pieces[index] if 0 <= index < len(pieces) else _UNKNOWN
        return _UNKNOWN

    def unknown(self, element: SourceLocation, node: str | None) -> Iterator[SourceLocation]:
        """Yield the calls in a value of the template ``node`` that only a deployment, or an input, gives a value."""
        yield from (call for call in calls_in(element) if self.value(call.value, node) is _UNKNOWN)

    def _property(self, template: SourceLocation, name: str) -> Any:
        if (template.name, name) in self.path:
            return _UNKNOWN
        deeper = replace(self, path=(*self.path, (template.name, name)))
        return deeper.properties(template, name).get(name, _UNKNOWN)

    def _input(self, name: str) -> Any:
        if name in self.inputs:
            return self.inputs[name]
        inputs = self.service.topology.get("inputs") if self.service.topology else None
        declared = inputs.get(name) if inputs else None
        return declared.value.get("default", _UNKNOWN) if declared else _UNKNOWN

    def _joined(self, parts: list[Any], delimiter: str, node: str | None) -> Any:
        values = [self.value(part, node) for part in parts]
        return _UNKNOWN if _UNKNOWN in values else delimiter.join(map(str, values))


def jobs(service: Service) -> Iterator[tuple[SourceLocation, SourceLocation]]:
    """Yield each node template that is a job, with the node template of the target that hosts it."""
    for template in service.templates().values():
        outcome = service.type_of(template)
        target = host_of(service, template) if outcome else None
        if outcome and target and service.types.derives("node_types", outcome.name, JOB):
            yield template, target


def other_targets(service: Service, template: SourceLocation) -> Iterator[tuple[SourceLocation, SourceLocation]]:
    """Yield each requirement of a job that names another target that would do, with that target's node template."""
    templates = service.templates()
    for requirement in requirements_of(template):
        other = templates.get(target_of(requirement) or "") if requirement.name == "other_target" else None
        if other is not None:
            yield requirement, other


def document_of(
    service: Service, inputs: Mapping[str, Any], template: SourceLocation, target: SourceLocation
) -> dict[str, Any]:
    """Return the deployment document that a job of the blueprint stands for."""
    resolver = Resolver(service, inputs)
    own, where = resolver.properties(template), resolver.properties(target)
    valid_names = ("type", *application_properties())
    application = {name: value for name, value in own.items() if name in valid_names}
    names = {shown: field for field, shown in RENAMED.items()}
    of_target = ("type", *target_properties())
    described = {names.get(k, k): v for k, v in where.items() if k in of_target}
    if target != host_of(service, template):
        described["tosca_name"] = target.name
    return documents({**application, "tosca_name": template.name}, described, own.get("request"), own.get("job"))


def check_deployments(service: Service, inputs: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Check every job of the blueprint against the models, and that its files are among its artifacts."""
    for template, host in jobs(service):
        names: set[str] = set()
        for requirement, target in [(host, host), *other_targets(service, template)]:
            outcome = _checked(service, inputs, template, target)
            yield from outcome if isinstance(outcome, list) else ()
            if isinstance(outcome, Deployment):
                if target is host:
                    yield from _preflight(service, inputs, template, host, outcome)
                if outcome.target.name in names:
                    yield requirement.diagnostic(
                        f"two targets have the name '{outcome.target.name}'", hint="give each its own"
                    )
                names.add(outcome.target.name)
        if names and not template.value.get("properties", {}).get("input_folders"):
            yield from _files(service, document_of(service, inputs, template, host), template)


def _preflight(
    service: Service,
    inputs: Mapping[str, Any],
    template: SourceLocation,
    host: SourceLocation,
    deployment: Deployment,
) -> Iterator[Diagnostic]:
    """Report what a Plan would reject; with other targets, one that cannot run the job is left out instead.

    Options of the job are of no use where one of them, or what the host has, is yet to be told.
    """
    resolver = Resolver(service, inputs)
    parts = ((template, "job"), (host, "node"), (host, "partitions"))
    is_open = any(_is_open(resolver, of, of.get("properties"), name) for of, name in parts)
    if is_open or any(other_targets(service, template)):
        deployment = deployment.model_copy(update={"job": JobOptions()})
    for diagnostic in rejections(deployment):
        yield _element_at(template, host, diagnostic.path).adopted(diagnostic)


def _checked(
    service: Service, inputs: Mapping[str, Any], template: SourceLocation, target: SourceLocation
) -> Deployment | list[Diagnostic]:
    """Return the deployment of a job on a target, or what is wrong with it."""
    document: Mapping[str, Any] = {}
    try:
        document = document_of(service, inputs, template, target)
        document = expand(document).data
    except (InputError, InfeasibleError) as error:
        if not document:
            return [_element_at(template, target, _location(d.path)).adopted(d) for d in error.diagnostics]
        # A site that is not described here may be where the blueprint is deployed; modak_deploy.tosca.notices warns of
        # it.
        if error.diagnostics[0].code != "not-found":
            return [d if d.source else _element_at(template, target, d.path).adopted(d) for d in error.diagnostics]
    try:
        return Deployment.model_validate(document)
    except ValidationError as error:
        resolver = Resolver(service, inputs)
        faults = []
        for where, diagnostic in problems(error, Deployment):
            element, of = _element_at(template, target, where), target if where[:1] == ("target",) else template
            # What a whole section lacks may be what is yet to be told of it.
            if len(where) > 1 or not _is_open(resolver, of, element):
                faults.append(element.adopted(diagnostic))
        return faults


def _is_open(resolver: Resolver, template: SourceLocation, element: SourceLocation | None, *keys: str) -> bool:
    """Tell whether a part of a template holds what only an input, or the deployment, gives a value."""
    for key in keys:
        element = element.get(key) if element is not None else None
    return element is not None and any(resolver.unknown(element, template.name))


def _location(path: Location) -> Location:
    """Return the location in the deployment document of the property that a translation names."""
    if path[:1] in (("request",), ("job",)):
        return path
    return ("target" if path[:1] and path[0] in Target.model_fields else "application", *path)


def _element_at(template: SourceLocation, target: SourceLocation, location: Location) -> SourceLocation:
    """Return the part of the blueprint that a location in the deployment document comes from."""
    section, *rest = location or ("application",)
    element = target if section == "target" else template
    path = [str(section), *rest] if section in ("request", "job") else rest
    if path[:1] == ["workload"]:
        path = path[1:] if len(path) > 1 and path[1] in Workload.model_fields else []
    path = [RENAMED.get(str(path[0]), path[0]), *path[1:]] if path else []
    for key in ("properties", *path):
        there = (
            key in element.value
            if isinstance(element.value, dict)
            else isinstance(element.value, list) and key != "properties"
        )
        if not there:
            break
        element = element.at(key)
    return element


def _files(service: Service, document: Mapping[str, Any], template: SourceLocation) -> Iterator[Diagnostic]:
    application = document["application"]
    files = map(file_of, artifacts_of(service, template).values())
    there = [PurePosixPath(file).name for file in files if file]
    named = [("script", application.get("script"))] + [("inputs", name) for name in application.get("inputs", [])]
    for key, name in named:
        if name is not None and PurePosixPath(name).parts[0] not in there:
            element = _element_at(template, template, ("application", key))
            valid_names = f"; there are {', '.join(there)}" if there else ": it has none"
            yield element.diagnostic(f"'{name}' is not an artifact of '{template.name}'{valid_names}")
