"""Checks of type definitions: what they derive from, their properties, and the playbooks of their operations."""

from collections.abc import Generator, Iterator

from modak.documents.faults import shown
from modak.tosca.operations import check_calls, check_declared
from modak.tosca.profiles import PUCCINI
from modak.tosca.references import Scope, calls_in
from modak.tosca.service import Service, Type
from modak.tosca.spot import Fault, Spot
from modak.tosca.values import (
    CONSTRAINTS,
    PRIMITIVES,
    check_value,
    is_function,
    is_version,
    limit_fault,
    primitive_of,
    type_name,
)
from modak.util.text import nearest


def check_types(service: Service) -> Iterator[Fault]:
    """Check every type that the blueprint defines or imports."""
    for found in service.types.own():
        if found.spot is None:
            continue
        yield from _parent(service, found, found.spot)
        for section in ("properties", "attributes"):
            for definition in found.spot.below(section):
                yield from check_definition(service, definition)
        for interface in found.spot.below("interfaces"):
            yield from _interface(service, interface, Scope(service, own=found))
        yield from _version(found.spot)
        yield from _requirements(service, found.spot)
        yield from _capabilities(service, found.spot)
        yield from _named_types(service, found.spot)
        yield from _redefinitions(service, found, found.spot)


def _parent(service: Service, found: Type, spot: Spot) -> Iterator[Fault]:
    parent = spot.get("derived_from")
    if parent is None:
        return
    if parent.value in PRIMITIVES and found.kind == "data_types":
        return
    if service.types.find(found.kind, parent.value) is None:
        yield parent.fault(service.types.unknown(found.kind, parent.value))
    elif "derived_from" in service.types.lineage(found)[-1].definition:
        yield parent.fault(f"'{found.name}' derives from itself")


def _version(spot: Spot) -> Iterator[Fault]:
    version = spot.get("version")
    if version is not None and not (isinstance(version.value, str) and is_version(version.value)):
        tools = ("opera", "puccini") if is_version(version.value) else ()
        yield version.fault(f"must be a version in quotes, such as '1.0', not {shown(version.value)}", tools=tools)


def _interface(service: Service, interface: Spot, scope: Scope) -> Iterator[Fault]:
    kind = interface.get("type")
    if kind and service.types.find("interface_types", kind.value) is None:
        yield kind.fault(service.types.unknown("interface_types", kind.value))
    for part in (interface, *interface.below("operations")):
        for definition in part.below("inputs"):
            # Where there are functions in a default, its type is not known.
            check = _schema if any(calls_in(definition)) else check_definition
            yield from check(service, definition)
    yield from check_calls(interface, scope)
    for operation in interface.below("operations"):
        yield from check_declared(service, operation, scope)


def _requirements(service: Service, spot: Spot) -> Iterator[Fault]:
    kinds = {"capability": "capability_types", "node": "node_types", "relationship": "relationship_types"}
    for item in spot.below("requirements"):
        for requirement in item.items():
            for key, kind in kinds.items():
                named = requirement.get(key)
                if named and service.types.find(kind, named.value) is None:
                    yield named.fault(service.types.unknown(kind, named.value))


def _capabilities(service: Service, spot: Spot) -> Iterator[Fault]:
    for capability in spot.below("capabilities"):
        kind = capability.get("type") if isinstance(capability.value, dict) else capability
        if kind is not None and service.types.find("capability_types", kind.value) is None:
            yield kind.fault(service.types.unknown("capability_types", kind.value))
        yield from _listed(service, capability, "valid_source_types", ("node_types",))


_LISTS = {
    ("relationship_types", "valid_target_types"): ("capability_types",),
    ("capability_types", "valid_source_types"): ("node_types",),
    ("group_types", "members"): ("node_types", "group_types"),
    ("policy_types", "targets"): ("node_types", "group_types"),
}
"""Lists of names in a definition of a type, and the kinds of types that they name."""


def _named_types(service: Service, spot: Spot) -> Iterator[Fault]:
    for (section, key), kinds in _LISTS.items():
        if spot.location[0] == section:
            yield from _listed(service, spot, key, kinds)


def _listed(service: Service, spot: Spot, key: str, kinds: tuple[str, ...]) -> Iterator[Fault]:
    for name in spot.below(key):
        if not any(service.types.find(kind, name.value) for kind in kinds):
            yield name.fault(service.types.unknown(kinds[0], name.value))


def _redefinitions(service: Service, found: Type, spot: Spot) -> Iterator[Fault]:
    """Check that a property declared again keeps its type, or gets one that derives from it."""
    types = service.types
    parent = types.find(found.kind, found.definition.get("derived_from"))
    for section in ("properties", "attributes"):
        inherited = types.collected(parent, section)
        for definition in spot.below(section):
            old, new = type_name(inherited.get(definition.name)), type_name(definition.value)
            base = primitive_of(new, types)
            if old and new and old != new and base != old and not types.derives("data_types", new, old):
                sentence = f"{parent.name if parent else ''} declares it with the type {old}, which {new} is not"
                yield definition.fault(sentence, "type" if "type" in definition.value else None)


def check_type_name(service: Service, spot: Spot, kind: str) -> Generator[Fault, None, Type | None]:
    """Yield what is wrong with the key ``type`` of a template, and return the type that it names."""
    name = spot.get("type")
    if name is None:
        return None
    found = service.types.find(kind, name.value)
    if found is None:
        yield name.fault(service.types.unknown(kind, name.value))
    return found


def check_definition(service: Service, spot: Spot) -> Iterator[Fault]:
    """Check the definition of a property, attribute or input: its type, schemas, constraints and default."""
    if "type" not in spot.value:
        return
    faults = list(_schema(service, spot))
    yield from faults
    default = spot.get("default")
    if default and not faults and default.value is not None and not is_function(default.value):
        yield from check_value(default, spot.value, service.types, None)


def _schema(service: Service, spot: Spot) -> Iterator[Fault]:
    kind = spot.get("type") if isinstance(spot.value, dict) else spot
    if kind is None:
        return
    if kind.value not in PRIMITIVES and service.types.find("data_types", kind.value) is None:
        words = nearest(str(kind.value), sorted(PRIMITIVES))
        yield kind.fault(
            f"there is no type {shown(kind.value)}{words}" if words else service.types.unknown("data_types", kind.value)
        )
        return
    for clause in spot.below("constraints"):
        yield from _clause(clause, primitive_of(kind.value, service.types) or kind.value)
    if kind.value in ("list", "map") and spot.get("entry_schema") is None:
        yield spot.fault("the key 'entry_schema' is missing, which Puccini wants", tools=PUCCINI)
    for key in ("entry_schema", "key_schema"):
        if inner := spot.get(key):
            if isinstance(inner.value, str):
                yield inner.fault(f"xOpera wants a mapping here: write {{type: {inner.value}}}")
            yield from _schema(service, inner)


def _clause(clause: Spot, wanted: str) -> Iterator[Fault]:
    ((keyword, limit),) = clause.value.items()
    if keyword not in CONSTRAINTS:
        yield clause.fault(f"there is no constraint '{keyword}'{nearest(keyword, sorted(CONSTRAINTS))}")
    elif problem := limit_fault(keyword, limit, wanted):
        yield clause.fault(f"{keyword} {problem}")
