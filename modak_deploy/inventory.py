"""The targets that a file names: of a deployment document, or of a blueprint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modak_deploy.documents import Document, check, expand, read_document
from modak_deploy.errors import InputError
from modak_deploy.model.base import Model
from modak_deploy.model.target import Target


class _Section(Model):
    """The sections of a document that matter here."""

    target: Target
    other_targets: list[Target] = []


def load_targets(path: Path, inputs: Mapping[str, Any] | None = None) -> list[Target]:
    """Return the targets in a deployment document, or those of a blueprint's jobs with these ``inputs``, in its order.

    InputError names every fault; a target that a blueprint's jobs share comes once.
    """
    document = read_document(path)
    if not isinstance(document.data, dict):
        raise InputError("the document must be a mapping with the key 'target'", source=path)
    if "tosca_definitions_version" in document.data:
        return _of_blueprint(path, inputs or {})
    return _of_document(document)


def _of_document(document: Document) -> list[Target]:
    if document.data.get("target") is None:
        raise InputError("the document has no section 'target'", source=document.path)
    sections = {name: document.data[name] for name in _Section.model_fields if name in document.data}
    expanded = expand(sections, document.locate, str(document.path))
    named = {name: expanded.data[name] for name in sections}
    checked = check(_Section, named, origin=str(document.path), locate=expanded.locating(document.locate))
    return [checked.target, *checked.other_targets]


def _of_blueprint(path: Path, inputs: Mapping[str, Any]) -> list[Target]:
    from modak_deploy.tosca.deployments import Resolver, document_of, jobs, other_targets
    from modak_deploy.tosca.library import target_properties
    from modak_deploy.tosca.service import load

    service = load(path)
    if not service.is_whole:
        raise InputError(service.faults)
    resolver = Resolver(service, inputs)
    targets: dict[str, Target] = {}
    for template, host in jobs(service):
        for target in (host, *(other for _, other in other_targets(service, template))):
            properties = (element for element in target.below("properties") if element.name in target_properties())
            if calls := [call for element in properties for call in resolver.unknown(element, target.name)]:
                # Without it, a host would be this machine, and a user the one who runs this.
                raise InputError([call.diagnostic("it has no value yet", hint="give its input one") for call in calls])
            origin = f"{path}: {target.name}"
            section = expand({"target": document_of(service, inputs, template, target)["target"]}, origin=origin).data
            described = check(_Section, {"target": section["target"]}, origin=origin).target
            targets.setdefault(target.name, described)
    if not targets:
        raise InputError("the blueprint has no job on a target", source=path)
    return list(targets.values())
