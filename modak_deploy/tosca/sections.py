"""Checks of a topology's inputs, outputs, relationship templates, groups and policies."""

from collections.abc import Iterator, Mapping
from typing import Any

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.validation import shown
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.operations import check_implementation
from modak_deploy.tosca.profiles import OPERA, PUCCINI
from modak_deploy.tosca.references import Scope, calls_in
from modak_deploy.tosca.service import Service, Type
from modak_deploy.tosca.typedefs import check_definition, check_type_name
from modak_deploy.tosca.values import (
    OTHER_FUNCTIONS,
    check_properties,
    check_value,
    is_function,
    missing,
    misspelt_function,
)
from modak_deploy.util.text import did_you_mean, nearest


def check_topology(service: Service, given: Mapping[str, Any] | None) -> Iterator[Diagnostic]:
    """Check all of a topology but its node templates; ``given`` are the inputs of a file, or None without one."""
    topology = service.topology
    if topology is None:
        return
    yield from _inputs(service, given)
    yield from _outputs(service)
    yield from _relationship_templates(service)
    yield from _groups_and_policies(service)


def check_structure(service: Service) -> Iterator[Diagnostic]:
    """Check that there is a topology; node templates are only missed where their section is misspelt or empty."""
    topology = service.topology
    if topology is None:
        service.is_whole = False
        if not any(nearest(element.name, ["topology_template"]) for element in service.root.items()):
            yield service.root.diagnostic("the key 'topology_template' is required", code="missing-key")
        return
    if not service.templates():
        service.is_whole = "node_templates" not in topology.value and not any(
            nearest(element.name, ["node_templates"]) for element in topology.items()
        )
        if template_list := topology.get("node_templates"):
            yield template_list.diagnostic("at least one node template is required", code="missing-key")


def _inputs(service: Service, given: Mapping[str, Any] | None) -> Iterator[Diagnostic]:
    declared = {element.name: element for element in service.root.below("topology_template", "inputs")}
    for element in declared.values():
        yield from check_definition(service, element)
        default = element.get("default")
        if default and is_function(default.value):
            yield default.diagnostic("no function may stand here")
        if given is None:
            continue
        if element.name in given:
            # The value is told at the declaration's line: the file of inputs has no lines here.
            inner = SourceLocation(element.document, element.location, given[element.name])
            yield from check_value(inner, element.value, service.types, None)
        elif "default" not in element.value and element.value.get("required", True):
            yield element.diagnostic("the input has no value and no default")
    for name in given or {}:
        if name not in declared:
            line = (service.topology or service.root).get("inputs") or service.topology or service.root
            yield line.diagnostic(
                f"input '{name}' not found, which a value is given for",
                hint=did_you_mean(name, list(declared)),
                code="not-found",
            )


def _outputs(service: Service) -> Iterator[Diagnostic]:
    scope = Scope(service)
    for element in service.root.below("topology_template", "outputs"):
        value = element.get("value")
        if value and value.value in (None, "", [], {}):
            yield value.diagnostic("must not be empty")
        elif value:
            yield from _function_names(value)
            for call in [value] if is_function(value.value) else calls_in(value):
                if len(call.location) - len(value.location) > 1:
                    sentence = "xOpera evaluates functions in an output or one level below it, but not here"
                    yield call.diagnostic(sentence, tools=OPERA, code="not-portable")
                yield from scope(call, "")


def _function_names(element: SourceLocation) -> Iterator[Diagnostic]:
    """Tell misspelt names of functions, which would be given out as they are."""
    if problem := misspelt_function(element):
        yield problem
    if isinstance(element.value, dict) and len(element.value) == 1 and next(iter(element.value)) in OTHER_FUNCTIONS:
        name = next(iter(element.value))
        yield element.diagnostic(f"'{name}' is not supported by xOpera", name, tools=OPERA, code="not-portable")
    for inner in element.items():
        yield from _function_names(inner)


def _relationship_templates(service: Service) -> Iterator[Diagnostic]:
    for element in service.root.below("topology_template", "relationship_templates"):
        own_type = yield from check_type_name(service, element, "relationship_types")
        for interface in element.below("interfaces"):
            for operation in interface.below("operations"):
                yield from check_implementation(service, operation)
        if own_type:
            yield from _properties(service, element, own_type)


def _properties(service: Service, element: SourceLocation, own_type: Type) -> Iterator[Diagnostic]:
    definitions = service.types.collected(own_type, "properties")
    given = element.get("properties")
    if given:
        yield from check_properties(given, definitions, service.types, Scope(service))
    for name in missing(given.value if given else {}, definitions):
        yield (given or element).diagnostic(f"the property '{name}' is required", code="missing-key")


def _groups_and_policies(service: Service) -> Iterator[Diagnostic]:
    groups = list(service.root.below("topology_template", "groups"))
    templates = service.templates()
    for element in groups:
        own_type = yield from check_type_name(service, element, "group_types")
        yield from _members(element, "members", list(templates))
        if element.name in templates:
            sentence = f"there is a node template '{element.name}' as well, and xOpera requires names that differ"
            yield element.diagnostic(sentence, tools=OPERA, code="not-portable")
        if own_type:
            yield from _properties(service, element, own_type)
    names: set[str] = set()
    for item in service.root.below("topology_template", "policies"):
        element = item.at(next(iter(item.value)))
        if element.name in names:
            yield element.diagnostic(f"there is a policy '{element.name}' already", tools=PUCCINI, code="not-portable")
        names.add(element.name)
        own_type = yield from check_type_name(service, element, "policy_types")
        yield from _members(element, "targets", [*templates, *(group.name for group in groups)])
        if own_type:
            yield from _policy(service, element, own_type)


def _policy(service: Service, element: SourceLocation, own_type: Type) -> Iterator[Diagnostic]:
    yield from _properties(service, element, own_type)
    yield from _triggers(service, element)
    wanted = next((t.definition["targets"] for t in service.types.lineage(own_type) if "targets" in t.definition), None)
    templates = service.templates()
    for target in element.below("targets"):
        of = service.type_of(templates.get(target.value)) if isinstance(target.value, str) else None
        if of and isinstance(wanted, list) and not any(service.types.derives("node_types", of.name, w) for w in wanted):
            yield target.diagnostic(
                f"'{target.value}' is of type {of.name}, but this policy is for {' or '.join(wanted)}",
                code="wrong-type",
            )


def _triggers(service: Service, policy: SourceLocation) -> Iterator[Diagnostic]:
    """Check that the operations which triggers call belong to a node template that the policy is for."""
    templates = service.templates()
    groups = {g.name: g.value.get("members") or [] for g in service.root.below("topology_template", "groups")}
    named = [name for target in policy.below("targets") for name in groups.get(str(target.value), [target.value])]
    valid_names = {
        f"{interface}.{operation}"
        for name in named or templates
        for interface, operations in service.types.operations(service.type_of(templates.get(str(name)))).items()
        for operation in operations
    }
    for trigger in policy.below("triggers"):
        for action in trigger.below("action"):
            call = action.get("call_operation")
            if call is not None and isinstance(call.value, dict):
                call = call.get("operation")
            if call is not None and valid_names and call.value not in valid_names:
                hint = nearest(str(call.value), sorted(valid_names))
                yield call.diagnostic(f"no target of the policy has the operation {shown(call.value)}{hint}")


def _members(element: SourceLocation, key: str, valid_names: list[str]) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for member in element.below(key):
        if member.value in seen:
            yield member.diagnostic(f"'{member.value}' is named twice")
        seen.add(member.value)
        if member.value not in valid_names:
            yield member.diagnostic(
                f"node template {shown(member.value)} not found",
                hint=did_you_mean(str(member.value), valid_names),
                code="not-found",
            )
