"""What is valid TOSCA 1.3 and is not known to every tool, or not read alike by all of them."""

from collections.abc import Iterator

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.profiles import OPERA, PUCCINI
from modak_deploy.tosca.references import requirements_of
from modak_deploy.tosca.service import KINDS, Service

_KEYS = ("derived_from", "type", "node", "capability", "relationship")
"""Keys below which the name of a type stands."""


def check_portability(service: Service) -> Iterator[Diagnostic]:
    """Yield what one of the tools rejects although TOSCA 1.3 permits it, and no other check covers."""
    for own_type in service.types.own():
        if own_type.element is not None:
            yield from _types_unknown(service, own_type.element)
    for section in ("inputs", "node_templates", "relationship_templates", "groups", "policies"):
        for element in service.root.below("topology_template", section):
            yield from _types_unknown(service, element)
    for template in service.templates().values():
        yield from _host_first(service, template)
        yield from _relationships(service, template)


def _types_unknown(service: Service, element: SourceLocation) -> Iterator[Diagnostic]:
    """Report names of standard types that a tool lacks, wherever they stand in a definition or template."""
    if element.name in _KEYS and isinstance(element.value, str):
        for kind in KINDS:
            own_type = service.types.find(kind, element.value)
            if own_type is not None and own_type.unknown_to:
                yield element.diagnostic(
                    f"{' and '.join(own_type.unknown_to)} does not support '{own_type.name}'",
                    tools=own_type.unknown_to,
                    code="not-portable",
                )
    for inner in element.items():
        if inner.name not in ("default", "value"):
            yield from _types_unknown(service, inner)


def _host_first(service: Service, template: SourceLocation) -> Iterator[Diagnostic]:
    """Puccini goes through a node's requirements for its host, and fails at a relationship type without metadata."""
    lineage = service.types.lineage(service.type_of(template))
    if not any("'HOST'" in repr(ancestor.definition.get("interfaces")) for ancestor in lineage):
        return  # no operation of it refers to its host
    declared = service.types.collected(service.type_of(template), "requirements")
    before: list[str] = []
    for element in requirements_of(template):
        if element.name == "host" and before:
            yield element.diagnostic(
                f"Puccini does not find the host behind '{before[0]}'",
                hint="put 'host' first",
                tools=PUCCINI,
                code="not-portable",
            )
        definition = declared.get(element.name)
        kind = definition.get("relationship") if isinstance(definition, dict) else None
        own_type = service.types.find("relationship_types", kind)
        if own_type is not None and own_type.element is not None:
            before.append(element.name)


def _relationships(service: Service, template: SourceLocation) -> Iterator[Diagnostic]:
    """xOpera 0.7 ends with an AttributeError where neither a requirement nor its definition has a relationship."""
    declared = service.types.collected(service.type_of(template), "requirements")
    for element in requirements_of(template):
        definition = declared.get(element.name)
        given = isinstance(element.value, dict) and "relationship" in element.value
        if definition is not None and not given and not (isinstance(definition, dict) and "relationship" in definition):
            yield element.diagnostic(
                "xOpera requires the key 'relationship' in the requirement's definition",
                hint="write relationship: tosca.relationships.DependsOn there",
                tools=OPERA,
                code="not-portable",
            )
