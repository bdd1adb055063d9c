"""Warnings about a blueprint: what is accepted and not used."""

from collections.abc import Iterator

from modak.diagnostics import Diagnostic
from modak.documents.sites import load_site_settings
from modak.errors import InputError
from modak.tosca.deployments import TARGET
from modak.tosca.locations import SourceLocation
from modak.tosca.service import Service
from modak.tosca.sodalite_types import JOB, UNUSED, UNUSED_INPUTS

_NOT_USED = "it is accepted and not used"


def notices(service: Service) -> Iterator[Diagnostic]:
    """Yield what is accepted and has no effect."""
    is_of_sodalite = False
    for template in service.templates().values():
        node_type = service.type_of(template)
        if node_type is not None and service.types.derives("node_types", node_type.name, TARGET):
            yield from _unknown_site(template)
        is_of_sodalite |= node_type is not None and node_type.name == JOB
        for element in template.below("properties"):
            if node_type is not None and element.name in UNUSED.get(node_type.name, ()):
                yield element.diagnostic(_NOT_USED, code="not-used").as_warning()
    for element in service.root.below("topology_template", "inputs") if is_of_sodalite else ():
        if element.name in UNUSED_INPUTS:
            yield element.diagnostic(_NOT_USED, code="not-used").as_warning()


def _unknown_site(template: SourceLocation) -> Iterator[Diagnostic]:
    """Warn of a site that is not described for this user: the blueprint may be deployed where it is."""
    for element in template.below("properties"):
        if element.name == "site" and isinstance(element.value, str) and element.value:
            try:
                load_site_settings().get(element.value)
            except InputError as error:
                yield from (element.adopted(diagnostic).as_warning() for diagnostic in error.diagnostics)
