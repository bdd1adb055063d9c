"""What is valid TOSCA 1.3 and is not known to every tool, or not read alike by all of them."""

from collections.abc import Iterator

from modak.diagnostics import Diagnostic
from modak.tosca.locations import SourceLocation
from modak.tosca.profiles import PUCCINI
from modak.tosca.references import requirements_of
from modak.tosca.service import KINDS, Service

_KEYS = ("derived_from", "type", "node", "capability", "relationship")
"""Keys below which the name of a type stands."""


def check_portability(service: Service) -> Iterator[Diagnostic]:
    """Yield what one of the tools rejects although TOSCA 1.3 permits it, and no other check covers."""
    for found in service.types.own():
        if found.spot is not None:
            yield from _types_unknown(service, found.spot)
    for section in ("inputs", "node_templates", "relationship_templates", "groups", "policies"):
        for spot in service.root.below("topology_template", section):
            yield from _types_unknown(service, spot)
    for template in service.templates().values():
        yield from _host_first(service, template)


def _types_unknown(service: Service, spot: SourceLocation) -> Iterator[Diagnostic]:
    """Report names of standard types that a tool lacks, wherever they stand in a definition or template."""
    if spot.name in _KEYS and isinstance(spot.value, str):
        for kind in KINDS:
            found = service.types.find(kind, spot.value)
            if found is not None and found.unknown_to:
                yield spot.diagnostic(
                    f"{' and '.join(found.unknown_to)} does not support '{found.name}'",
                    tools=found.unknown_to,
                    code="not-portable",
                )
    for inner in spot.items():
        if inner.name not in ("default", "value"):
            yield from _types_unknown(service, inner)


def _host_first(service: Service, template: SourceLocation) -> Iterator[Diagnostic]:
    """Puccini goes through a node's requirements for its host, and fails at a relationship type without metadata."""
    lineage = service.types.lineage(service.type_of(template))
    if not any("'HOST'" in repr(ancestor.definition.get("interfaces")) for ancestor in lineage):
        return  # no operation of it refers to its host
    known = service.types.collected(service.type_of(template), "requirements")
    before: list[str] = []
    for spot in requirements_of(template):
        if spot.name == "host" and before:
            yield spot.diagnostic(
                f"Puccini does not find the host behind '{before[0]}'",
                hint="put 'host' first",
                tools=PUCCINI,
                code="not-portable",
            )
        definition = known.get(spot.name)
        kind = definition.get("relationship") if isinstance(definition, dict) else None
        found = service.types.find("relationship_types", kind)
        if found is not None and found.spot is not None:
            before.append(spot.name)
