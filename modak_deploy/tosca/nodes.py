"""Checks of node templates: types, properties, requirements, artifacts, interfaces."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.operations import check_assigned, implementation_files
from modak_deploy.tosca.profiles import OPERA, PUCCINI, TOSCA_PARSER, UNFURL
from modak_deploy.tosca.references import Scope, requirements_of, taken_properties, target_of
from modak_deploy.tosca.service import Service, Type, inside
from modak_deploy.tosca.values import check_properties, missing, type_name
from modak_deploy.util.text import did_you_mean, nearest

_RESERVED = ("SELF", "HOST", "SOURCE", "TARGET", "ORCHESTRATOR")


def check_templates(service: Service) -> Iterator[Diagnostic]:
    """Check all node templates."""
    for template in service.templates().values():
        yield from _name(template)
        if "type" not in template.value:
            continue
        node_type = service.type_of(template)
        if node_type is None:
            yield template.at("type").diagnostic(
                service.types.unknown("node_types", template.value["type"]), code="unknown-name"
            )
            continue
        if service.types.is_whole(node_type):
            for check in _CHECKS:
                yield from check(service, template, node_type)
    yield from _cycles(service)


def _name(template: SourceLocation) -> Iterator[Diagnostic]:
    if template.name in _RESERVED:
        yield template.diagnostic(f"'{template.name}' has a meaning in functions", hint="take another name")
    elif not re.fullmatch(r"[A-Za-z._][A-Za-z0-9._:-]*", template.name):
        yield template.diagnostic(
            "Unfurl requires a name that begins with a letter, and has letters, digits and ._:- only",
            tools=UNFURL,
            code="not-portable",
        )


def _properties(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    definitions = service.types.collected(node_type, "properties")
    given = template.get("properties")
    if given:
        yield from check_properties(given, definitions, service.types, Scope(service, template.name))
    if given is None or isinstance(given.value, dict):
        for name in missing(given.value if given else {}, definitions):
            yield (given or template).diagnostic(f"the property '{name}' is required", code="missing-key")


def _attributes(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    if given := template.get("attributes"):
        definitions = service.types.collected(node_type, "attributes")
        scope = Scope(service, template.name)
        yield from check_properties(given, definitions, service.types, scope, what="attribute")


def _capabilities(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    declared = service.types.collected(node_type, "capabilities")
    assigned = template.get("capabilities")
    for name, definition in declared.items():
        if assigned is None or name not in assigned.value:
            for lacking in missing({}, _capability_properties(service, definition)):
                sentence = f"the property '{lacking}' of the capability '{name}' is required"
                yield (assigned or template).diagnostic(sentence)
    for element in template.below("capabilities"):
        if element.name not in declared:
            yield element.diagnostic(
                "unknown capability", hint=did_you_mean(element.name, list(declared)), code="unknown-key"
            )
            continue
        definitions = _capability_properties(service, declared[element.name])
        given = element.get("properties")
        for lacking in missing(given.value if given else {}, definitions):
            yield (given or element).diagnostic(f"the property '{lacking}' is required", code="missing-key")
        if given:
            yield from check_properties(given, definitions, service.types, Scope(service, template.name))
        else:
            yield element.diagnostic(
                "the key 'properties' is required by tosca-parser", tools=TOSCA_PARSER, code="missing-key"
            )


def _capability_properties(service: Service, definition: Any) -> dict[str, Any]:
    """Return the properties of a capability: those of its type, and those that the node type adds."""
    kind = service.types.find("capability_types", type_name(definition))
    added = definition.get("properties") if isinstance(definition, dict) else None
    return {**service.types.collected(kind, "properties"), **(added or {})}


def _requirements(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    declared = service.types.collected(node_type, "requirements")
    given = template.get("requirements")
    counted: Counter[str] = Counter()
    for element in requirements_of(template):
        if element.name not in declared:
            yield element.diagnostic(
                "unknown requirement", hint=did_you_mean(element.name, list(declared)), code="unknown-key"
            )
            continue
        counted[element.name] += 1
        yield from _target(service, element, declared[element.name])
        highest = _occurrences(declared[element.name])[1]
        if highest is not None and counted[element.name] > highest:
            often = "once" if highest == 1 else f"{highest} times"
            yield element.diagnostic(f"the requirement '{element.name}' may be given {often} only")
    for name, definition in declared.items():
        lowest = _occurrences(definition)[0]
        if counted[name] < lowest:
            yield (given or template).diagnostic(
                f"the requirement '{name}' is required{_candidates(service, definition)}", code="missing-key"
            )


def _occurrences(definition: Any) -> tuple[int, int | None]:
    given = definition.get("occurrences") if isinstance(definition, dict) else None
    if not (isinstance(given, list) and len(given) == 2):
        return 1, 1
    low, high = given
    return (low if isinstance(low, int) else 0), (high if isinstance(high, int) else None)


def _candidates(service: Service, definition: Any) -> str:
    wanted = definition.get("node") if isinstance(definition, dict) else None
    fit = [
        name
        for name, other in service.templates().items()
        if (node_type := service.type_of(other)) and service.types.derives("node_types", node_type.name, wanted)
    ]
    return f": {' or '.join(fit)} would do" if fit else ""


def _target(service: Service, element: SourceLocation, definition: Any) -> Iterator[Diagnostic]:
    name, templates = target_of(element), service.templates()
    if name is None:
        yield element.diagnostic(
            "must name the node template that meets it: xOpera does not look for one", tools=OPERA, code="not-portable"
        )
        return
    if name not in templates:
        yield element.diagnostic(
            f"node template '{name}' not found", hint=did_you_mean(name, list(templates)), code="not-found"
        )
        return
    yield from _relationship(service, element, definition)
    node_type, types = service.type_of(templates[name]), service.types
    wanted = definition.get("node") if isinstance(definition, dict) else None
    capability = definition.get("capability") if isinstance(definition, dict) else definition
    if node_type is None or not types.is_whole(node_type) or (wanted and types.find("node_types", wanted) is None):
        return
    if wanted and not types.derives("node_types", node_type.name, wanted):
        hint = _candidates(service, definition)
        yield element.diagnostic(
            f"'{name}' is of type {node_type.name}, but a {wanted} is required{hint}", code="missing-key"
        )
    elif capability and not any(
        types.derives("capability_types", d.get("type") if isinstance(d, dict) else d, capability)
        for d in types.collected(node_type, "capabilities").values()
    ):
        yield element.diagnostic(f"'{name}' of type {node_type.name} has no capability of type {capability}")
    named, has = element.get("capability"), types.collected(node_type, "capabilities")
    if named and named.value not in has and types.find("capability_types", named.value) is None:
        yield named.diagnostic(f"'{name}' has no capability '{named.value}'", hint=did_you_mean(named.value, list(has)))


def _relationship(service: Service, element: SourceLocation, definition: Any) -> Iterator[Diagnostic]:
    given = element.get("relationship")
    if given is None:
        return
    templates = {s.name: s.value for s in service.root.below("topology_template", "relationship_templates")}
    wanted = definition.get("relationship") if isinstance(definition, dict) else None
    if not isinstance(given.value, str) or service.types.find("relationship_types", given.value):
        yield given.diagnostic(
            "xOpera takes the name of a relationship template only", tools=OPERA, code="not-portable"
        )
    elif given.value not in templates:
        yield given.diagnostic(
            f"relationship template '{given.value}' not found",
            hint=did_you_mean(given.value, list(templates)),
            code="not-found",
        )
    elif wanted and not service.types.derives("relationship_types", templates[given.value].get("type"), wanted):
        yield given.diagnostic(
            f"'{given.value}' is of type {templates[given.value].get('type')}, but a {wanted} is required",
            code="missing-key",
        )


def _artifacts(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    names: dict[str, str] = dict.fromkeys(_playbooks(service, node_type), "a playbook of its type")
    for element in template.below("artifacts"):
        file = element.get("file") if isinstance(element.value, dict) else element
        if file is None:
            continue
        yield from _artifact_type(service, element, file)
        path, problem = inside(element.document.path.parent, file.value, service.folder)
        if problem:
            yield file.diagnostic(f"'{file.value}' {problem}")
        elif path.name in names:
            yield file.diagnostic(
                f"'{path.name}' is the name of {names[path.name]} already, and xOpera copies all files into one folder",
                tools=OPERA,
                code="not-portable",
            )
        names[path.name] = f"the artifact '{element.name}'"


def _artifact_type(service: Service, element: SourceLocation, file: SourceLocation) -> Iterator[Diagnostic]:
    kind = element.value.get("type") if isinstance(element.value, dict) else "tosca.artifacts.File"
    if isinstance(element.value, str):
        yield element.diagnostic(
            "Puccini requires a mapping with the keys 'type' and 'file' here", tools=PUCCINI, code="not-portable"
        )
    if kind is None:
        return
    node_type = service.types.find("artifact_types", kind)
    if node_type is None:
        yield element.at("type").diagnostic(service.types.unknown("artifact_types", kind), code="unknown-name")
        return
    ends = next(
        (t.definition["file_ext"] for t in service.types.lineage(node_type) if "file_ext" in t.definition), None
    )
    if given := element.get("properties") if isinstance(element.value, dict) else None:
        definitions = service.types.collected(node_type, "properties")
        yield from check_properties(given, definitions, service.types, Scope(service, str(element.location[-3])))
    if isinstance(ends, list) and Path(file.value).suffix.lstrip(".") not in ends:
        strict = () if node_type.name.startswith("modak.") else PUCCINI
        sentence = f"'{file.value}' should end in .{' or .'.join(map(str, ends))} to be a {node_type.name}"
        yield file.diagnostic(sentence, tools=strict, code="not-portable")


def _playbooks(service: Service, node_type: Type) -> Iterator[str]:
    for ancestor in service.types.lineage(node_type):
        if ancestor.element:
            for interface in ancestor.element.below("interfaces"):
                for operation in interface.below("operations"):
                    for file in implementation_files(operation):
                        yield Path(str(file.value)).name


def _interfaces(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    declared = service.types.operations(node_type)
    yield from _inputs_missing(service, template, node_type)
    for interface in template.below("interfaces"):
        if interface.name not in declared:
            yield interface.diagnostic(
                "unknown interface", hint=did_you_mean(interface.name, list(declared)), code="unknown-key"
            )
            continue
        for operation in interface.below("operations"):
            if operation.name not in declared[interface.name]:
                operations = sorted(declared[interface.name])
                hint = nearest(operation.name, operations) or f"; there are {', '.join(operations)}"
                yield operation.diagnostic(f"unknown operation{hint}", code="unknown-key")
            else:
                declared_inputs = declared[interface.name][operation.name]
                yield from check_assigned(service, operation, declared_inputs, Scope(service, template.name))


def _inputs_missing(service: Service, template: SourceLocation, node_type: Type) -> Iterator[Diagnostic]:
    """Check that the operations which have an implementation get every input that they require."""
    interfaces = template.get("interfaces")
    for interface, operations in service.types.required_inputs(node_type).items():
        for operation, required in operations.items():
            there = interfaces
            given: set[str] = set()
            for key in (interface, "operations", operation):
                if there is not None and (inputs := there.get("inputs")):
                    given |= set(inputs.value or ())
                there = there.get(key) if there else None
            if there is not None and isinstance(there.value, dict):
                given |= set(there.value.get("inputs") or ())
            for name in sorted(required - given):
                sentence = f"the input '{name}' of the operation {interface}.{operation} is required"
                yield (there or interfaces or template).diagnostic(sentence)


_CHECKS: tuple[Callable[[Service, SourceLocation, Type], Iterator[Diagnostic]], ...] = (
    _properties,
    _attributes,
    _capabilities,
    _requirements,
    _artifacts,
    _interfaces,
)


def _cycles(service: Service) -> Iterator[Diagnostic]:
    waits: dict[str, list[tuple[SourceLocation, str]]] = {}
    takes: dict[str, list[tuple[SourceLocation, str]]] = {}
    for name, template in service.templates().items():
        waits[name] = [(element, target_of(element) or "") for element in requirements_of(template)]
        for element in template.below("properties"):
            takes[f"{name}.{element.name}"] = list(taken_properties(service, template, element))
    yield from _rings(waits, "the node templates wait for each other")
    yield from _rings(takes, "the properties take their values from each other")


def _rings(edges: Mapping[str, list[tuple[SourceLocation, str]]], sentence: str) -> Iterator[Diagnostic]:
    """Yield a fault for each way along ``edges`` that comes back, told at its last part."""
    done: set[str] = set()
    for start in edges:
        if start in done:
            continue
        path = {start: None}  # in order; a dictionary, and no recursion, for chains of thousands
        pending = [iter(edges[start])]
        while pending:
            element, target = next(pending[-1], (None, ""))
            if element is None:
                pending.pop()
                done.add(path.popitem()[0])
            elif target in path:
                names = list(path)
                ring = " -> ".join([*names[names.index(target) :], target])
                yield element.diagnostic(f"{sentence}: {ring}")
            elif target not in done:
                path[target] = None
                pending.append(iter(edges.get(target, [])))
