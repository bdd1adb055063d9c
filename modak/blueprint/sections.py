"""Checks of a topology's inputs, outputs, relationship templates, groups and policies."""

from collections.abc import Iterator, Mapping
from typing import Any

from modak.blueprint.references import Scope
from modak.blueprint.service import Service
from modak.blueprint.spot import Fault, Spot
from modak.blueprint.typedefs import check_definition, check_type_name
from modak.blueprint.values import check_properties, check_value, is_function, missing
from modak.documents.faults import nearest, shown

_SECTIONS = (
    "description",
    "inputs",
    "node_templates",
    "relationship_templates",
    "groups",
    "policies",
    "outputs",
)
_REFUSED = ("workflows", "substitution_mappings")
_OF_INPUT = (
    "type",
    "description",
    "required",
    "default",
    "value",
    "constraints",
    "entry_schema",
    "key_schema",
    "status",
)
_OF_OUTPUT = ("description", "value", "type")


def check_topology(service: Service, given: Mapping[str, Any] | None) -> Iterator[Fault]:
    """Check all of a topology but its node templates; ``given`` are the inputs of a file, or None without one."""
    topology = service.topology
    if topology is None or not isinstance(topology.value, dict):
        return
    yield from _inputs(service, given)
    yield from _outputs(service)
    yield from _relationship_templates(service)
    yield from _groups_and_policies(service)


def check_structure(service: Service) -> Iterator[Fault]:
    """Check that there is a topology, and its sections; the service is not whole without node templates."""
    topology = service.topology
    if topology is None:
        service.is_whole = False
        if not any(nearest(spot.name, ["topology_template"]) for spot in service.root.items()):
            yield service.root.fault("the key 'topology_template' is missing: there is nothing to deploy")
        return
    if not isinstance(topology.value, dict):
        service.is_whole = False
        return
    for spot in topology.items():
        if spot.name in _REFUSED:
            yield spot.fault(f"xOpera takes no '{spot.name}'")
        elif spot.name not in _SECTIONS:
            yield spot.fault(f"unknown section{nearest(spot.name, _SECTIONS)}")
        elif spot.name == "policies":
            if not isinstance(spot.value, list):
                yield spot.fault("must be a list, each entry with one policy")
        elif spot.name != "description" and not isinstance(spot.value, dict):
            yield spot.fault(f"must be a mapping, not {shown(spot.value)}")
    if not service.templates():
        service.is_whole = False
        misspelt = any(nearest(spot.name, ["node_templates"]) for spot in topology.items())
        if not misspelt or "node_templates" in topology.value:
            place = topology.get("node_templates") or topology
            yield place.fault("there is no node template: nothing would be deployed")


def _inputs(service: Service, given: Mapping[str, Any] | None) -> Iterator[Fault]:
    declared = {spot.name: spot for spot in service.root.below("topology_template", "inputs")}
    for spot in declared.values():
        yield from check_definition(service, spot, _OF_INPUT)
        if given is None or not isinstance(spot.value, dict):
            continue
        if spot.name in given:
            # The value is told at the declaration's line: the file of inputs has no lines here.
            inner = Spot(spot.document, spot.location, given[spot.name])
            yield from check_value(inner, spot.value, service.types, None)
        elif "default" not in spot.value and spot.value.get("required", True):
            yield spot.fault("the input has no value and no default")
    for name in given or {}:
        if name not in declared:
            line = (service.topology or service.root).get("inputs") or service.topology or service.root
            yield line.fault(f"there is no input '{name}', which a value is given for{nearest(name, list(declared))}")


def _outputs(service: Service) -> Iterator[Fault]:
    scope = Scope(service)
    for spot in service.root.below("topology_template", "outputs"):
        if not isinstance(spot.value, dict):
            yield spot.fault("must be a mapping with the key 'value'")
            continue
        for key in spot.value:
            if key not in _OF_OUTPUT:
                yield spot.at(key).fault(f"unknown key{nearest(key, _OF_OUTPUT)}")
        value = spot.get("value")
        if value is None:
            yield spot.fault("the key 'value' is missing")
        elif is_function(value.value):
            yield from scope(value, "")


def _relationship_templates(service: Service) -> Iterator[Fault]:
    for spot in service.root.below("topology_template", "relationship_templates"):
        found = yield from check_type_name(service, spot, "relationship_types")
        if found:
            definitions = service.types.collected(found, "properties")
            given = spot.get("properties")
            if given:
                yield from check_properties(given, definitions, service.types, Scope(service))
            for name in missing(given.value if given else {}, definitions):
                yield (given or spot).fault(f"the property '{name}' is missing")


def _groups_and_policies(service: Service) -> Iterator[Fault]:
    groups = list(service.root.below("topology_template", "groups"))
    templates = service.templates()
    for spot in groups:
        found = yield from check_type_name(service, spot, "group_types")
        yield from _members(spot, "members", list(templates))
        if found and (given := spot.get("properties")):
            definitions = service.types.collected(found, "properties")
            yield from check_properties(given, definitions, service.types, Scope(service))
    policies = service.topology.get("policies") if service.topology else None
    for item in policies.items() if policies and isinstance(policies.value, list) else ():
        if not isinstance(item.value, dict) or len(item.value) != 1:
            yield item.fault("must have the name of one policy")
            continue
        spot = item.at(next(iter(item.value)))
        found = yield from check_type_name(service, spot, "policy_types")
        yield from _members(spot, "targets", [*templates, *(group.name for group in groups)])
        if found:
            yield from _policy(service, spot, found)


def _policy(service: Service, spot: Spot, found: Any) -> Iterator[Fault]:
    definitions = service.types.collected(found, "properties")
    given = spot.get("properties")
    if given:
        yield from check_properties(given, definitions, service.types, Scope(service))
    for name in missing(given.value if given else {}, definitions):
        yield (given or spot).fault(f"the property '{name}' is missing")
    wanted = next((t.definition["targets"] for t in service.types.lineage(found) if "targets" in t.definition), None)
    templates = service.templates()
    for target in spot.below("targets"):
        of = service.type_of(templates.get(target.value)) if isinstance(target.value, str) else None
        if of and isinstance(wanted, list) and not any(service.types.derives("node_types", of.name, w) for w in wanted):
            yield target.fault(f"'{target.value}' is of type {of.name}, but this policy is for {' or '.join(wanted)}")


def _members(spot: Spot, key: str, known: list[str]) -> Iterator[Fault]:
    for member in spot.below(key):
        if member.value not in known:
            yield member.fault(f"there is no node template {shown(member.value)}{nearest(str(member.value), known)}")
