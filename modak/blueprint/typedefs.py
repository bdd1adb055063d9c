"""Checks of type definitions: what they derive from, their properties, and the playbooks of their operations."""

from collections.abc import Generator, Iterator

from modak.blueprint.nodes import check_implementation
from modak.blueprint.service import KINDS, Service, Type
from modak.blueprint.spot import Fault, Spot
from modak.blueprint.values import CONSTRAINTS, PRIMITIVES, check_value, is_function, limit_fault
from modak.documents.faults import nearest, shown

_OF_EVERY_TYPE = ("derived_from", "version", "metadata", "description")
_OF_TYPE = {
    "artifact_types": ("mime_type", "file_ext", "properties"),
    "capability_types": ("properties", "attributes", "valid_source_types"),
    "data_types": ("properties", "constraints", "key_schema", "entry_schema"),
    "group_types": ("properties", "attributes", "members", "capabilities", "requirements", "interfaces"),
    "interface_types": ("inputs", "operations", "notifications"),
    "node_types": ("properties", "attributes", "requirements", "capabilities", "interfaces", "artifacts"),
    "policy_types": ("properties", "targets", "triggers"),
    "relationship_types": ("properties", "attributes", "interfaces", "valid_target_types"),
}
_OF_PROPERTY = (
    "type",
    "description",
    "required",
    "default",
    "status",
    "constraints",
    "key_schema",
    "entry_schema",
    "external_schema",
    "metadata",
)


def check_types(service: Service) -> Iterator[Fault]:
    """Check every type that the blueprint defines or imports."""
    for found in service.types.own():
        spot = found.spot
        if spot is None or not isinstance(spot.value, dict):
            if spot:
                yield spot.fault(f"must be a mapping, not {shown(spot.value)}")
            continue
        known = (*_OF_EVERY_TYPE, *_OF_TYPE[found.kind])
        for key in spot.value:
            if key not in known:
                yield spot.at(key).fault(f"unknown key{nearest(key, known)}")
        yield from _parent(service, found, spot)
        for section in ("properties", "attributes"):
            for definition in spot.below(section):
                yield from check_definition(service, definition, _OF_PROPERTY)
        for interface in spot.below("interfaces"):
            yield from _interface(service, interface)
        yield from _requirements(service, spot)


def _parent(service: Service, found: Type, spot: Spot) -> Iterator[Fault]:
    parent = spot.get("derived_from")
    if parent is None:
        if found.kind != "data_types":
            yield spot.fault("the key 'derived_from' is missing")
    elif parent.value in PRIMITIVES and found.kind == "data_types":
        return
    elif service.types.find(found.kind, parent.value) is None:
        yield parent.fault(service.types.unknown(found.kind, parent.value))
    elif "derived_from" in service.types.lineage(found)[-1].definition:
        yield parent.fault(f"'{found.name}' derives from itself")


def _interface(service: Service, interface: Spot) -> Iterator[Fault]:
    kind = interface.get("type")
    if kind and service.types.find("interface_types", kind.value) is None:
        yield kind.fault(service.types.unknown("interface_types", kind.value))
    for spot in interface.items():
        if spot.name not in ("type", "description", "inputs", "operations", "notifications"):
            yield spot.fault("unknown key: operations stand below the key 'operations', which xOpera wants")
    for operation in interface.below("operations"):
        yield from check_implementation(service, operation)


def _requirements(service: Service, spot: Spot) -> Iterator[Fault]:
    kinds = {"capability": "capability_types", "node": "node_types", "relationship": "relationship_types"}
    for item in spot.below("requirements"):
        for requirement in item.items():
            for key, kind in kinds.items():
                named = requirement.get(key)
                if named and service.types.find(kind, named.value) is None:
                    yield named.fault(service.types.unknown(kind, named.value))


def check_type_name(service: Service, spot: Spot, kind: str) -> Generator[Fault, None, Type | None]:
    """Yield what is wrong with the key ``type`` of a template, and return the type that it names."""
    name = spot.get("type")
    if name is None:
        yield spot.fault(f"must be a mapping with the key 'type', the name of a {KINDS[kind]}")
        return None
    found = service.types.find(kind, name.value)
    if found is None:
        yield name.fault(service.types.unknown(kind, name.value))
    return found


def check_definition(service: Service, spot: Spot, keys: tuple[str, ...]) -> Iterator[Fault]:
    """Check the definition of a property, attribute or input: its type, schemas, constraints and default."""
    if not isinstance(spot.value, dict):
        yield spot.fault(f"must be a mapping with the key 'type', not {shown(spot.value)}")
        return
    for key in spot.value:
        if key not in keys:
            yield spot.at(key).fault(f"unknown key{nearest(key, keys)}")
    if "type" not in spot.value:
        yield spot.fault("the key 'type' is missing")
        return
    faults = list(_schema(service, spot))
    yield from faults
    default = spot.get("default")
    if default and not faults and default.value is not None and not is_function(default.value):
        yield from check_value(default, spot.value, service.types, None)


def _schema(service: Service, spot: Spot) -> Iterator[Fault]:
    kind = spot.get("type") if isinstance(spot.value, dict) else spot
    if kind is None:
        yield spot.fault("the key 'type' is missing")
        return
    if kind.value not in PRIMITIVES and service.types.find("data_types", kind.value) is None:
        words = nearest(str(kind.value), sorted(PRIMITIVES))
        yield kind.fault(
            f"there is no type {shown(kind.value)}{words}" if words else service.types.unknown("data_types", kind.value)
        )
    for clause in spot.below("constraints"):
        yield from _clause(clause)
    for key in ("entry_schema", "key_schema"):
        if inner := spot.get(key):
            if isinstance(inner.value, str):
                yield inner.fault(f"xOpera wants a mapping here: write {{type: {inner.value}}}")
            yield from _schema(service, inner)


def _clause(clause: Spot) -> Iterator[Fault]:
    if not isinstance(clause.value, dict) or len(clause.value) != 1:
        yield clause.fault("must have the name of one constraint")
        return
    ((keyword, limit),) = clause.value.items()
    if keyword not in CONSTRAINTS:
        yield clause.fault(f"there is no constraint '{keyword}'{nearest(keyword, sorted(CONSTRAINTS))}")
    elif problem := limit_fault(keyword, limit):
        yield clause.fault(f"{keyword} {problem}, not {shown(limit)}")
