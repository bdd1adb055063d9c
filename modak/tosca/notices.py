"""Warnings about a blueprint: what is accepted and not used."""

from collections.abc import Iterator

from modak.diagnostics import Diagnostic
from modak.tosca.service import Service
from modak.tosca.sodalite_types import JOB, UNUSED, UNUSED_INPUTS

_NOT_USED = "it is accepted and not used"


def notices(service: Service) -> Iterator[Diagnostic]:
    """Yield what is accepted and has no effect."""
    is_of_sodalite = False
    for template in service.templates().values():
        node_type = service.type_of(template)
        is_of_sodalite |= node_type is not None and node_type.name == JOB
        for element in template.below("properties"):
            if node_type is not None and element.name in UNUSED.get(node_type.name, ()):
                yield element.diagnostic(_NOT_USED, code="not-used").as_warning()
    for element in service.root.below("topology_template", "inputs") if is_of_sodalite else ():
        if element.name in UNUSED_INPUTS:
            yield element.diagnostic(_NOT_USED, code="not-used").as_warning()
