"""What is worth knowing of a blueprint and is no fault."""

from collections.abc import Iterator

from modak.tosca.service import Service
from modak.tosca.sodalite_types import JOB, UNUSED, UNUSED_INPUTS
from modak.tosca.spot import Fault

_NOT_USED = "it is accepted and not used"


def notices(service: Service) -> Iterator[Fault]:
    """Yield what is accepted and has no effect."""
    is_of_sodalite = False
    for template in service.templates().values():
        found = service.type_of(template)
        is_of_sodalite |= found is not None and found.name == JOB
        for spot in template.below("properties"):
            if found is not None and spot.name in UNUSED.get(found.name, ()):
                yield spot.fault(_NOT_USED)
    for spot in service.root.below("topology_template", "inputs") if is_of_sodalite else ():
        if spot.name in UNUSED_INPUTS:
            yield spot.fault(_NOT_USED)
