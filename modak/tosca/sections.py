"""Checks of a topology's inputs, outputs, relationship templates, groups and policies."""

from collections.abc import Iterator, Mapping
from typing import Any

from modak.diagnostics import Diagnostic
from modak.documents.validation import shown
from modak.tosca.locations import SourceLocation
from modak.tosca.profiles import OPERA, PUCCINI
from modak.tosca.references import Scope, calls_in
from modak.tosca.service import Service, Type
from modak.tosca.typedefs import check_definition, check_type_name
from modak.tosca.values import (
    OTHER_FUNCTIONS,
    check_properties,
    check_value,
    is_function,
    missing,
    misspelt_function,
)
from modak.util.text import did_you_mean, nearest


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
    """Check that there is a topology, and its sections; the service is not whole without node templates."""
    topology = service.topology
    if topology is None:
        service.is_whole = False
        if not any(nearest(spot.name, ["topology_template"]) for spot in service.root.items()):
            yield service.root.diagnostic("the key 'topology_template' is required", code="missing-key")
        return
    if not service.templates():
        service.is_whole = False
        misspelt = any(nearest(spot.name, ["node_templates"]) for spot in topology.items())
        if not misspelt or "node_templates" in topology.value:
            place = topology.get("node_templates") or topology
            yield place.diagnostic("at least one node template is required", code="missing-key")


def _inputs(service: Service, given: Mapping[str, Any] | None) -> Iterator[Diagnostic]:
    declared = {spot.name: spot for spot in service.root.below("topology_template", "inputs")}
    for spot in declared.values():
        yield from check_definition(service, spot)
        default = spot.get("default")
        if default and is_function(default.value):
            yield default.diagnostic("no function may stand here")
        if given is None:
            continue
        if spot.name in given:
            # The value is told at the declaration's line: the file of inputs has no lines here.
            inner = SourceLocation(spot.document, spot.location, given[spot.name])
            yield from check_value(inner, spot.value, service.types, None)
        elif "default" not in spot.value and spot.value.get("required", True):
            yield spot.diagnostic("the input has no value and no default")
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
    for spot in service.root.below("topology_template", "outputs"):
        value = spot.get("value")
        if value and value.value in (None, "", [], {}):
            yield value.diagnostic("must not be empty")
        elif value:
            yield from _function_names(value)
            for call in [value] if is_function(value.value) else calls_in(value):
                if len(call.location) - len(value.location) > 1:
                    sentence = "xOpera evaluates functions in an output or one level below it, but not here"
                    yield call.diagnostic(sentence, tools=OPERA, code="not-portable")
                yield from scope(call, "")


def _function_names(spot: SourceLocation) -> Iterator[Diagnostic]:
    """Tell misspelt names of functions, which would be given out as they are."""
    if told := misspelt_function(spot):
        yield told
    if isinstance(spot.value, dict) and len(spot.value) == 1 and next(iter(spot.value)) in OTHER_FUNCTIONS:
        name = next(iter(spot.value))
        yield spot.diagnostic(f"'{name}' is not supported by xOpera", name, tools=OPERA, code="not-portable")
    for inner in spot.items():
        yield from _function_names(inner)


def _relationship_templates(service: Service) -> Iterator[Diagnostic]:
    for spot in service.root.below("topology_template", "relationship_templates"):
        found = yield from check_type_name(service, spot, "relationship_types")
        if found:
            yield from _properties(service, spot, found)


def _properties(service: Service, spot: SourceLocation, found: Type) -> Iterator[Diagnostic]:
    definitions = service.types.collected(found, "properties")
    given = spot.get("properties")
    if given:
        yield from check_properties(given, definitions, service.types, Scope(service))
    for name in missing(given.value if given else {}, definitions):
        yield (given or spot).diagnostic(f"the property '{name}' is required", code="missing-key")


def _groups_and_policies(service: Service) -> Iterator[Diagnostic]:
    groups = list(service.root.below("topology_template", "groups"))
    templates = service.templates()
    for spot in groups:
        found = yield from check_type_name(service, spot, "group_types")
        yield from _members(spot, "members", list(templates))
        if spot.name in templates:
            sentence = f"there is a node template '{spot.name}' as well, and xOpera requires names that differ"
            yield spot.diagnostic(sentence, tools=OPERA, code="not-portable")
        if found:
            yield from _properties(service, spot, found)
    names: set[str] = set()
    for item in service.root.below("topology_template", "policies"):
        spot = item.at(next(iter(item.value)))
        if spot.name in names:
            yield spot.diagnostic(f"there is a policy '{spot.name}' already", tools=PUCCINI, code="not-portable")
        names.add(spot.name)
        found = yield from check_type_name(service, spot, "policy_types")
        yield from _members(spot, "targets", [*templates, *(group.name for group in groups)])
        if found:
            yield from _policy(service, spot, found)


def _policy(service: Service, spot: SourceLocation, found: Type) -> Iterator[Diagnostic]:
    yield from _properties(service, spot, found)
    yield from _triggers(service, spot)
    wanted = next((t.definition["targets"] for t in service.types.lineage(found) if "targets" in t.definition), None)
    templates = service.templates()
    for target in spot.below("targets"):
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
    known = {
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
            if call is not None and known and call.value not in known:
                hint = nearest(str(call.value), sorted(known))
                yield call.diagnostic(f"no target of the policy has the operation {shown(call.value)}{hint}")


def _members(spot: SourceLocation, key: str, known: list[str]) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for member in spot.below(key):
        if member.value in seen:
            yield member.diagnostic(f"'{member.value}' is named twice")
        seen.add(member.value)
        if member.value not in known:
            yield member.diagnostic(
                f"node template {shown(member.value)} not found",
                hint=did_you_mean(str(member.value), known),
                code="not-found",
            )
