"""Warnings about a blueprint: what is accepted and not used."""

from collections.abc import Iterator

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.sites import load_site_settings
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.jobmodel.features import NOTHING_TRIED, tries_live
from modak_deploy.tosca.deployments import TARGET
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.service import Service
from modak_deploy.tosca.sodalite_types import APPLICATION_TYPE, JOB, UNUSED, UNUSED_INPUTS

_NOT_USED = "it is accepted and not used"


def notices(service: Service) -> Iterator[Diagnostic]:
    """Yield what is accepted and has no effect."""
    is_of_sodalite = False
    for template in service.templates().values():
        node_type = service.type_of(template)
        if node_type is not None and service.types.derives("node_types", node_type.name, TARGET):
            yield from _unknown_site(template)
        is_of_sodalite |= node_type is not None and node_type.name == JOB
        if node_type is not None and service.types.derives("node_types", node_type.name, APPLICATION_TYPE):
            yield from _nothing_tried(template)
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
            except (InputError, InfeasibleError) as error:
                yield from (element.adopted(diagnostic).as_warning() for diagnostic in error.diagnostics)


def _nothing_tried(template: SourceLocation) -> Iterator[Diagnostic]:
    """Warn of autotuning where no framework is named whose programs levers can be tried in."""
    properties = _value(template, "properties")
    section = _value(template, "properties", "optimisation")
    named = _value(template, "properties", "optimisation", "app_type-ai_training", "config", "ai_framework")
    framework = named.value if named is not None else None
    if isinstance(framework, dict) or (isinstance(framework, str) and tries_live(framework)):
        return  # a function, or one that tries
    for part in (properties, section):
        given = part.get("enable_autotuning") if part is not None else None
        if given is not None and given.value is True:
            yield given.diagnostic(NOTHING_TRIED, code="not-used").as_warning()
            return


def _value(element: SourceLocation, *keys: str) -> SourceLocation | None:
    position: SourceLocation | None = element
    for key in keys:
        position = position.get(key) if position is not None else None
    return position
