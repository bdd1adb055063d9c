"""Checks of type definitions: what they derive from, their properties, and the playbooks of their operations."""

from collections.abc import Generator, Iterator

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.validation import shown
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.operations import check_calls, check_declared
from modak_deploy.tosca.profiles import OPERA, PUCCINI
from modak_deploy.tosca.references import Scope, calls_in
from modak_deploy.tosca.service import Service, Type, inside
from modak_deploy.tosca.values import (
    CONSTRAINTS,
    PRIMITIVES,
    check_value,
    is_function,
    is_version,
    limit_fault,
    primitive_of,
    type_name,
)
from modak_deploy.util.text import did_you_mean, nearest


def check_types(service: Service) -> Iterator[Diagnostic]:
    """Check every type that the blueprint defines or imports."""
    for own_type in service.types.own():
        if own_type.element is None:
            continue
        yield from _parent(service, own_type, own_type.element)
        for section in ("properties", "attributes"):
            for definition in own_type.element.below(section):
                yield from check_definition(service, definition)
        for interface in own_type.element.below("interfaces"):
            yield from _interface(service, interface, Scope(service, own=own_type))
        yield from _artifacts(service, own_type.element)
        yield from _version(own_type.element)
        yield from _requirements(service, own_type.element)
        yield from _capabilities(service, own_type.element)
        yield from _named_types(service, own_type.element)
        yield from _redefinitions(service, own_type, own_type.element)


def _parent(service: Service, own_type: Type, element: SourceLocation) -> Iterator[Diagnostic]:
    parent = element.get("derived_from")
    if parent is None:
        if own_type.kind == "data_types":  # of other types it is required by all
            yield element.diagnostic(
                "the key 'derived_from' is required by xOpera",
                hint="write derived_from: tosca.datatypes.Root",
                tools=OPERA,
                code="not-portable",
            )
        return
    if parent.value in PRIMITIVES and own_type.kind == "data_types":
        return
    if service.types.find(own_type.kind, parent.value) is None:
        yield parent.diagnostic(service.types.unknown(own_type.kind, parent.value), code="unknown-name")
    elif "derived_from" in service.types.lineage(own_type)[-1].definition:
        yield parent.diagnostic(f"'{own_type.name}' derives from itself")


def _artifacts(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    """Check that the files are there which each node of a type has as artifacts."""
    for artifact in element.below("artifacts"):
        file = artifact.get("file") if isinstance(artifact.value, dict) else artifact
        if file is not None and isinstance(file.value, str):
            _, problem = inside(file.document.path.parent, file.value, service.folder)
            if problem:
                yield file.diagnostic(f"'{file.value}' {problem}")


def _version(element: SourceLocation) -> Iterator[Diagnostic]:
    version = element.get("version")
    if version is not None and not (isinstance(version.value, str) and is_version(version.value)):
        tools = ("opera", "puccini") if is_version(version.value) else ()
        yield version.diagnostic(
            f"must be a version in quotes, such as '1.0', not {shown(version.value)}", tools=tools, code="wrong-type"
        )


def _interface(service: Service, interface: SourceLocation, scope: Scope) -> Iterator[Diagnostic]:
    kind = interface.get("type")
    if kind and service.types.find("interface_types", kind.value) is None:
        yield kind.diagnostic(service.types.unknown("interface_types", kind.value), code="unknown-name")
    for part in (interface, *interface.below("operations")):
        for definition in part.below("inputs"):
            # Where there are functions in a default, its type is not known.
            check = _schema if any(calls_in(definition)) else check_definition
            yield from check(service, definition)
    yield from check_calls(interface, scope)
    for operation in interface.below("operations"):
        yield from check_declared(service, operation, scope)


def _requirements(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    kinds = {"capability": "capability_types", "node": "node_types", "relationship": "relationship_types"}
    for item in element.below("requirements"):
        for requirement in item.items():
            for key, kind in kinds.items():
                named = requirement.get(key)
                if named and service.types.find(kind, named.value) is None:
                    yield named.diagnostic(service.types.unknown(kind, named.value), code="unknown-name")


def _capabilities(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    for capability in element.below("capabilities"):
        kind = capability.get("type") if isinstance(capability.value, dict) else capability
        if kind is not None and service.types.find("capability_types", kind.value) is None:
            yield kind.diagnostic(service.types.unknown("capability_types", kind.value), code="unknown-name")
        yield from _listed(service, capability, "valid_source_types", ("node_types",))


_LISTS = {
    ("relationship_types", "valid_target_types"): ("capability_types",),
    ("capability_types", "valid_source_types"): ("node_types",),
    ("group_types", "members"): ("node_types", "group_types"),
    ("policy_types", "targets"): ("node_types", "group_types"),
}
"""Lists of names in a definition of a type, and the kinds of types that they name."""


def _named_types(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    for (section, key), kinds in _LISTS.items():
        if element.location[0] == section:
            yield from _listed(service, element, key, kinds)


def _listed(service: Service, element: SourceLocation, key: str, kinds: tuple[str, ...]) -> Iterator[Diagnostic]:
    for name in element.below(key):
        if not any(service.types.find(kind, name.value) for kind in kinds):
            yield name.diagnostic(service.types.unknown(kinds[0], name.value), code="unknown-name")


def _redefinitions(service: Service, own_type: Type, element: SourceLocation) -> Iterator[Diagnostic]:
    """Check that a property declared again keeps its type, or gets one that derives from it."""
    types = service.types
    parent = types.find(own_type.kind, own_type.definition.get("derived_from"))
    for section in ("properties", "attributes"):
        inherited = types.collected(parent, section)
        for definition in element.below(section):
            old, new = type_name(inherited.get(definition.name)), type_name(definition.value)
            base = primitive_of(new, types)
            if old and new and old != new and base != old and not types.derives("data_types", new, old):
                sentence = f"{parent.name if parent else ''} declares it with the type {old}, which {new} is not"
                yield definition.diagnostic(sentence, "type" if "type" in definition.value else None)


def check_type_name(service: Service, element: SourceLocation, kind: str) -> Generator[Diagnostic, None, Type | None]:
    """Yield what is wrong with the key ``type`` of a template, and return the type that it names."""
    name = element.get("type")
    if name is None:
        return None
    own_type = service.types.find(kind, name.value)
    if own_type is None:
        yield name.diagnostic(service.types.unknown(kind, name.value), code="unknown-name")
    return own_type


def check_definition(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    """Check the definition of a property, attribute or input: its type, schemas, constraints and default."""
    if "type" not in element.value:
        return
    faults = list(_schema(service, element))
    yield from faults
    default = element.get("default")
    if default and not faults and default.value is not None and not is_function(default.value):
        yield from check_value(default, element.value, service.types, None)


def _schema(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    kind = element.get("type") if isinstance(element.value, dict) else element
    if kind is None:
        return
    if kind.value not in PRIMITIVES and service.types.find("data_types", kind.value) is None:
        expected = nearest(str(kind.value), sorted(PRIMITIVES))
        yield kind.diagnostic(
            f"type {shown(kind.value)} not found{expected}"
            if expected
            else service.types.unknown("data_types", kind.value),
            code="unknown-name",
        )
        return
    for clause in element.below("constraints"):
        yield from _clause(clause, primitive_of(kind.value, service.types) or kind.value)
    if kind.value in ("list", "map") and element.get("entry_schema") is None:
        yield element.diagnostic("the key 'entry_schema' is required by Puccini", tools=PUCCINI, code="missing-key")
    for key in ("entry_schema", "key_schema"):
        if inner := element.get(key):
            if isinstance(inner.value, str):
                hint = f"write {{type: {inner.value}}}"
                yield inner.diagnostic("xOpera requires a mapping", hint=hint, tools=OPERA)
            yield from _schema(service, inner)


def _clause(clause: SourceLocation, wanted: str) -> Iterator[Diagnostic]:
    ((keyword, limit),) = clause.value.items()
    if keyword not in CONSTRAINTS:
        yield clause.diagnostic(
            f"constraint '{keyword}' not found", hint=did_you_mean(keyword, sorted(CONSTRAINTS)), code="not-found"
        )
    elif problem := limit_fault(keyword, limit, wanted):
        yield clause.diagnostic(f"{keyword} {problem}")
