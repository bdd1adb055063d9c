"""What is worth knowing of a blueprint and is no fault."""

from collections.abc import Iterator

from modak.blueprint.references import requirements_of
from modak.blueprint.service import Service
from modak.blueprint.sodalite_types import JOB, UNUSED, UNUSED_INPUTS
from modak.blueprint.spot import Fault, Spot

_NOT_USED = "it is accepted and not used"


def notices(service: Service) -> Iterator[Fault]:
    """Tell what is not gone by, and what another tool does not take."""
    is_of_sodalite = False
    for template in service.templates().values():
        yield from _host_first(service, template)
        found = service.type_of(template)
        is_of_sodalite |= found is not None and found.name == JOB
        for spot in template.below("properties"):
            if found is not None and spot.name in UNUSED.get(found.name, ()):
                yield spot.fault(_NOT_USED)
    for spot in service.root.below("topology_template", "inputs") if is_of_sodalite else ():
        if spot.name in UNUSED_INPUTS:
            yield spot.fault(_NOT_USED)


def _host_first(service: Service, template: Spot) -> Iterator[Fault]:
    """Puccini goes through a node's requirements for its host, and fails at a relationship type without metadata."""
    lineage = service.types.lineage(service.type_of(template))
    if not any("'HOST'" in repr(ancestor.definition.get("interfaces")) for ancestor in lineage):
        return  # its operations are told nothing of its host
    known = service.types.collected(service.type_of(template), "requirements")
    before: list[str] = []
    for spot in requirements_of(template):
        if spot.name == "host" and before:
            yield spot.fault(f"Puccini does not find the host behind '{before[0]}': put 'host' first")
        definition = known.get(spot.name)
        kind = definition.get("relationship") if isinstance(definition, dict) else None
        found = service.types.find("relationship_types", kind)
        if found is not None and found.spot is not None:
            before.append(spot.name)
