"""Checking jobs with SODALITE's node types: what their parts come to must be a deployment."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from modak_deploy.diagnostics import Diagnostic, dotted
from modak_deploy.documents.validation import problems
from modak_deploy.errors import ModakError
from modak_deploy.model.deployment import Deployment
from modak_deploy.tosca.deployments import Resolver
from modak_deploy.tosca.library import RENAMED, target_properties
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.references import host_of, requirements_of, target_of
from modak_deploy.tosca.service import Service
from modak_deploy.tosca.sodalite import sections
from modak_deploy.tosca.sodalite_types import (
    APPLICATION,
    CLIENT,
    EXECUTION,
    JOB,
    MANAGER,
    MANAGER_ATTRIBUTES,
    MANAGER_TYPE,
    RUNTIME,
    TRANSFER,
)

_PROPERTIES = {"host": "public_address", "user": "username", "private_key": "ssh-key"}
"""Properties of the workload manager, by the keys of a target that they become."""
_FIELDS = {shown: field for field, shown in RENAMED.items()}


def check_jobs(service: Service, inputs: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Check every job with SODALITE's node types against the models; each fault is told at the property's line."""
    for name, template in service.templates().items():
        if _is(service, template, TRANSFER):
            yield from _client(service, template)
        if not _is(service, template, JOB):
            continue
        execution = _other(service, template, "execution")
        parts = [_other(service, execution, "application"), _other(service, execution, "runtime")]
        manager = host_of(service, template)
        if manager is not None and not _is(service, manager, MANAGER_TYPE):
            yield _no_login(service, template, "host")
        elif execution is not None and manager is not None:
            present = [part for part in (execution, *parts, manager) if part is not None]
            yield from _check(service, inputs, name, present, manager)


def _is(service: Service, template: SourceLocation | None, kind: str) -> bool:
    described = service.type_of(template) if template is not None else None
    return described is not None and service.types.derives("node_types", described.name, kind)


def _no_login(service: Service, template: SourceLocation, requirement: str) -> Diagnostic:
    """Return the error of a host whose type has no properties for logging in."""
    element = next(element for element in requirements_of(template) if element.name == requirement)
    described = service.type_of(service.templates()[target_of(element) or ""])
    return element.diagnostic(
        f"'{target_of(element)}' is of type {described.name if described else ''}, which does not say how to log in",
        hint="write type: sodalite.nodes.remote, with the attributes public_address, username and ssh-key",
        code="wrong-type",
    )


def _client(service: Service, template: SourceLocation) -> Iterator[Diagnostic]:
    """Check what starts a transfer: a machine, or a client beside the machine that has it."""
    client = _other(service, template, "client")
    if client is None or _is(service, client, MANAGER_TYPE):
        return
    if not _is(service, client, CLIENT):
        yield _no_login(service, template, "client")
    elif host_of(service, template) is None:
        host = host_of(service, client)
        yield (template.get("requirements") or template).diagnostic(
            f"the requirement 'host' is required beside the client '{client.name}'",
            hint=f"write - host: {host.name}" if host else "",
            code="missing-key",
        )


def _other(service: Service, template: SourceLocation | None, requirement: str) -> SourceLocation | None:
    named = (r for r in requirements_of(template) if r.name == requirement) if template is not None else ()
    return next((service.templates().get(target_of(r) or "") for r in named), None)


def _check(
    service: Service, inputs: Mapping[str, Any], name: str, parts: list[SourceLocation], manager: SourceLocation
) -> Iterator[Diagnostic]:
    resolver = Resolver(service, inputs)
    collected: dict[str, Any] = {"tosca_name": name, "env": _attribute(resolver, parts[0], "env") or {}}
    for part in parts:
        values = resolver.properties(part)
        collected |= {k: v for k, v in values.items() if k in (*EXECUTION, *APPLICATION, *RUNTIME)}
    wanted = {*target_properties(), *MANAGER}
    where = {_FIELDS.get(k, k): v for k, v in resolver.properties(manager).items() if k in wanted}
    where["public_address"] = _attribute(resolver, manager, "public_address")
    for attribute, key in MANAGER_ATTRIBUTES.items():
        where[key] = _attribute(resolver, manager, attribute)
    try:
        described = sections(collected, where)
        described.pop("files", None)
        Deployment.model_validate(described)
    except ModakError as error:
        for diagnostic in error.diagnostics:
            yield _of_property(parts, diagnostic)
    except ValidationError as error:
        for location, diagnostic in problems(error, Deployment):
            yield _of_property(parts, replace(diagnostic, path=location[1:]))


def _attribute(resolver: Resolver, template: SourceLocation, name: str) -> Any:
    given = (template.value.get("attributes") or {}).get(name)
    value = resolver.value(given, template.name)
    return value if isinstance(value, str | dict) else None


def _of_property(parts: list[SourceLocation], diagnostic: Diagnostic) -> Diagnostic:
    """Return a problem at the property that its path begins with, or at the execution where it names none."""
    name = str(diagnostic.path[0]) if diagnostic.path else ""
    key = _PROPERTIES.get(name, name)
    for part in parts:
        for section in ("properties", "attributes"):
            values = part.get(section)
            if values is not None and isinstance(values.value, dict) and key in values.value:
                return values.at(key).adopted(diagnostic)
    if name and name not in (*EXECUTION, *APPLICATION, *MANAGER):
        diagnostic = replace(diagnostic, text=f"{dotted(diagnostic.path)}: {diagnostic.message}")
    return parts[0].adopted(diagnostic)
