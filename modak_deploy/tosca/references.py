"""Calls of functions: what they name must exist, and give a value of the right type."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.validation import shown
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.profiles import OPERA, PORTABLE, PUCCINI, UNFURL
from modak_deploy.tosca.service import Service, Type
from modak_deploy.tosca.values import FUNCTIONS, PRIMITIVES, is_function, primitive_of, type_name
from modak_deploy.util.text import did_you_mean, nearest

_NO_RELATIONSHIPS = ("tosca-parser", "unfurl", "puccini")
_OF_EVERY_NODE = ("tosca_id", "tosca_name", "state")


@dataclass(frozen=True)
class Scope:
    """What a function call may refer to, seen from a node template, from a type, or else from the outputs."""

    service: Service
    node: str | None = None
    own: Type | None = None
    """The type; of what else there will be, a type knows nothing."""

    def __call__(self, element: SourceLocation, wanted: str) -> Iterator[Diagnostic]:
        """Yield what is wrong with the call ``element``, which must give a ``wanted``; any type will do when empty."""
        ((function, argument),) = element.value.items()
        call = element.at(function)
        if function not in ("concat", "join", "token") and not _is_path(argument):
            yield call.diagnostic(f"must be a name or a list of names, not {shown(argument)}", code="wrong-type")
            return
        match function:
            case "get_input":
                yield from self._input(call, wanted)
            case "get_property" | "get_attribute":
                yield from self._member(call, function, wanted)
            case "get_artifact":
                yield from self._artifact(call)
            case "concat":
                yield from self._parts(call, call if isinstance(argument, list) else None, "a list of texts")
            case "join":
                yield element.diagnostic(
                    "tosca-parser does not support join", hint="write concat", tools=PORTABLE, code="not-portable"
                )
                whole = isinstance(argument, list) and [*map(type, argument)] in ([list], [list, str])
                yield from self._parts(call, call.at(0) if whole else None, "a list of texts and a delimiter")
            case "token":
                yield from self._token(call)
        if function in ("concat", "join", "token") and wanted not in ("", "string"):
            yield element.diagnostic(f"the function {function} gives text, but the type here is {wanted}")

    def _input(self, call: SourceLocation, wanted: str) -> Iterator[Diagnostic]:
        name, *inner = call.value if isinstance(call.value, list) else [call.value]
        inputs = {element.name: element.value for element in self.service.root.below("topology_template", "inputs")}
        if name not in inputs:
            yield call.diagnostic(f"input '{name}' not found", hint=did_you_mean(name, list(inputs)), code="not-found")
        elif inner:
            sentence = f"xOpera cannot look inside the input '{name}': leave out what follows its name"
            yield call.diagnostic(sentence, tools=OPERA + PUCCINI, code="not-portable")
        elif wanted and isinstance(inputs[name], dict):
            given = type_name(inputs[name])
            is_declared = given in PRIMITIVES or self.service.types.find("data_types", given)
            if is_declared and not self._fits(given, wanted):
                yield call.diagnostic(
                    f"the input '{name}' is of type {given}, but the type here is {wanted}", code="wrong-type"
                )

    def _fits(self, given: str, wanted: str) -> bool:
        """Tell whether a value of one type is also one of another; only simple types are compared by what they are."""
        types = self.service.types
        bases = [primitive_of(name, types) or name for name in (given, wanted)]
        return bases[0] == bases[1] or bases == ["integer", "float"] or types.derives("data_types", given, wanted)

    def _template(self, call: SourceLocation) -> tuple[SourceLocation | None, str | None]:
        """Return the node template that a call's first argument names, and what is wrong with it."""
        entity, templates = call.value[0], self.service.templates()
        if self.own is not None:
            return None, None
        if entity == "SELF":
            if self.node is None:
                return None, "SELF means nothing here: name a node template"
            return templates.get(self.node), None
        if entity == "HOST":
            if self.node is None:
                return None, "HOST means nothing here: name a node template"
            host = host_of(self.service, templates.get(self.node))
            return host, None if host else f"'{self.node}' has no host: give it the requirement 'host'"
        if entity in ("SOURCE", "TARGET"):
            return None, f"{entity} has a meaning in relationships only"
        relationships = {s.name: s for s in self.service.root.below("topology_template", "relationship_templates")}
        if entity in relationships:
            return relationships[entity], None
        if not isinstance(entity, str) or entity not in templates:
            return None, f"node template {shown(entity)} not found{nearest(str(entity), list(templates))}"
        return templates[entity], None

    def _member(self, call: SourceLocation, function: str, wanted: str) -> Iterator[Diagnostic]:
        if not isinstance(call.value, list) or len(call.value) < 2:
            yield call.diagnostic("must be a list of a node template and a name", code="wrong-type")
            return
        template, problem = self._template(call)
        if problem:
            yield call.diagnostic(problem)
        if self._is_relationship(template):
            yield call.diagnostic(
                "xOpera alone takes values of relationship templates", tools=_NO_RELATIONSHIPS, code="not-portable"
            )
        holder = self.own if call.value[0] == "SELF" and self.own else self._type_of(template)
        if holder is not None and self.service.types.is_whole(holder):
            yield from self._of_type(call, function, wanted, holder, template)

    @staticmethod
    def _is_relationship(template: SourceLocation | None) -> bool:
        return template is not None and template.location[-2:-1] == ("relationship_templates",)

    def _type_of(self, template: SourceLocation | None) -> Type | None:
        """Return the type of a node or relationship template."""
        if template is not None and self._is_relationship(template):
            return self.service.types.find("relationship_types", template.value.get("type"))
        return self.service.type_of(template)

    def _of_type(
        self, call: SourceLocation, function: str, wanted: str, holder: Type, template: SourceLocation | None
    ) -> Iterator[Diagnostic]:
        name, *inner = call.value[1:]
        what = "attribute" if function == "get_attribute" else "property"
        declared = self._members(holder, function)
        types = self.service.types
        if name not in declared and inner:
            if name in types.collected(holder, "capabilities"):
                yield from self._of_capability(call, function, types.collected(holder, "capabilities")[name])
                return
            if name in types.collected(holder, "requirements"):
                yield from self._of_requirement(call, function, template)
                return
        if name not in declared:
            hint = nearest(str(name), list(declared))
            if function == "get_property" and name in types.collected(holder, "attributes"):
                hint = ": it is an attribute, so write get_attribute"
            if not hint and function == "get_attribute":
                hint = f"; there are {', '.join(types.collected(holder, 'attributes'))}"
            yield call.diagnostic(f"'{template.name if template else holder.name}' has no {what} {shown(name)}{hint}")
        elif inner:
            sentence = f"xOpera cannot look inside the {what} '{name}': leave out what follows its name"
            # Puccini looks for the key among those of the attribute's data type.
            yield call.diagnostic(
                sentence, tools=OPERA + PUCCINI if function == "get_attribute" else OPERA, code="not-portable"
            )
        elif wanted and not self._fits(type_name(declared[name]), wanted):
            yield call.diagnostic(
                f"the {what} '{name}' is of type {type_name(declared[name])}, but the type here is {wanted}",
                code="wrong-type",
            )

    def _members(self, holder: Type, function: str) -> dict[str, Any]:
        """Return the definitions of what a function can take from a node or relationship of a type."""
        types = self.service.types
        declared: dict[str, Any] = types.collected(holder, "properties")
        if function == "get_attribute":
            declared = {**declared, **types.collected(holder, "attributes"), **dict.fromkeys(_OF_EVERY_NODE, "string")}
        return declared

    def _of_capability(self, call: SourceLocation, function: str, definition: Any) -> Iterator[Diagnostic]:
        kind = self.service.types.find("capability_types", type_name(definition))
        what = "attribute" if function == "get_attribute" else "property"
        declared = self._members(kind, function) if kind else {}
        if isinstance(definition, dict):
            for section in ("properties", "attributes") if function == "get_attribute" else ("properties",):
                declared |= definition.get(section) or {}
        _, capability, name, *_ = call.value
        if kind is not None and name not in declared:
            hint = nearest(str(name), list(declared))
            yield call.diagnostic(f"the capability '{capability}' has no {what} {shown(name)}{hint}")

    def _of_requirement(
        self, call: SourceLocation, function: str, template: SourceLocation | None
    ) -> Iterator[Diagnostic]:
        """Check what is taken from the node that meets a requirement; in a type nobody knows which that will be."""
        _, requirement, name, *_ = call.value
        who = "Puccini does not" if self.own is None else "Puccini and Unfurl do not"
        yield call.diagnostic(
            f"'{requirement}' is a requirement, which {who} follow",
            hint="name the node template in its place",
            tools=PUCCINI if self.own is None else PUCCINI + UNFURL,
            code="not-portable",
        )
        met = [r for r in requirements_of(template) if r.name == requirement] if template else []
        holder = self.service.type_of(self.service.templates().get(target_of(met[0]) or "")) if met else None
        if holder is None or not self.service.types.is_whole(holder):
            return
        declared = {**self._members(holder, function), **self.service.types.collected(holder, "requirements")}
        declared |= self.service.types.collected(holder, "capabilities")
        if name not in declared:
            what = "attribute" if function == "get_attribute" else "property"
            yield call.diagnostic(
                f"'{target_of(met[0])}' has no {what} {shown(name)}", hint=did_you_mean(str(name), list(declared))
            )

    def attribute(self, element: SourceLocation) -> Iterator[Diagnostic]:
        """Check that a type has the attribute of its own that an operation's output goes to."""
        path = element.value
        ends = ("SOURCE", "TARGET") if self.own and self.own.kind == "relationship_types" else ()
        if _is_path(path) and path[0] not in ("SELF", *ends):
            yield element.diagnostic(
                f"must begin with {' or '.join(('SELF', *ends))}, not {shown(path[0])}", code="wrong-type"
            )
        if self.own is None or not _is_path(path) or path[0] != "SELF" or not self.service.types.is_whole(self.own):
            return
        declared = list(self.service.types.collected(self.own, "attributes"))
        if len(path) < 2 or path[1] not in declared:
            yield element.diagnostic(
                f"'{self.own.name}' has no attribute {shown(path[-1])}", hint=did_you_mean(str(path[-1]), declared)
            )

    def _artifact(self, call: SourceLocation) -> Iterator[Diagnostic]:
        if not isinstance(call.value, list) or len(call.value) < 2:
            yield call.diagnostic("must be a list of SELF and the name of an artifact", code="wrong-type")
            return
        if self.own is not None:
            return
        template = self.service.templates().get(self.node or "")
        if call.value[0] != "SELF" or template is None:
            yield call.diagnostic("xOpera supports the artifacts of SELF only")
            return
        artifacts = [element.name for element in template.below("artifacts")]
        artifacts += self.service.types.collected(self.service.type_of(template), "artifacts")
        name = call.value[1]
        if name not in artifacts:
            yield call.diagnostic(
                f"'{template.name}' has no artifact {shown(name)}", hint=did_you_mean(str(name), artifacts)
            )

    def _parts(self, call: SourceLocation, parts: SourceLocation | None, expected: str) -> Iterator[Diagnostic]:
        if parts is None:
            yield call.diagnostic(f"must be {expected}", code="wrong-type")
            return
        for part in parts.items():
            if is_function(part.value):
                yield from self(part, "string")
            elif not isinstance(part.value, str):
                yield part.diagnostic(
                    f"must be text or one of the functions {', '.join(FUNCTIONS)}, not {shown(part.value)}",
                    code="wrong-type",
                )

    def _token(self, call: SourceLocation) -> Iterator[Diagnostic]:
        match call.value:
            case [text, str(separator), int()] if separator:
                if is_function(text):
                    yield call.at(0).diagnostic(
                        "xOpera takes no function inside token", tools=OPERA, code="not-portable"
                    )
                    yield from self(call.at(0), "string")
            case _:
                yield call.diagnostic(
                    "must be a list of a text, the characters that part it, and a number", code="wrong-type"
                )


def _is_path(argument: Any) -> bool:
    if not isinstance(argument, list):
        return isinstance(argument, str)
    names, indices = argument[:2], argument[2:]
    return (
        bool(names)
        and all(isinstance(part, str) for part in names)
        and all(isinstance(part, str | int) and not isinstance(part, bool) for part in indices)
    )


def calls_in(element: SourceLocation) -> Iterator[SourceLocation]:
    """Yield every call of a function that is or stands in a value."""
    if is_function(element.value):
        yield element
    for part in element.items():
        yield from calls_in(part)


def taken_properties(
    service: Service, template: SourceLocation, element: SourceLocation
) -> Iterator[tuple[SourceLocation, str]]:
    """Yield each call in a value of a node template that takes a property, and which, as node and name."""
    for call in calls_in(element):
        argument = call.value.get("get_property")
        if isinstance(argument, list) and len(argument) == 2:
            host = host_of(service, template)
            holder = {"SELF": template.name, "HOST": host.name if host else ""}.get(str(argument[0]), argument[0])
            yield call, f"{holder}.{argument[1]}"


def host_of(service: Service, template: SourceLocation | None) -> SourceLocation | None:
    """Return the node template that hosts another: the target of its requirement ``host``."""
    if template is None:
        return None
    for requirement in requirements_of(template):
        if requirement.name == "host":
            return service.templates().get(target_of(requirement) or "")
    return None


def requirements_of(template: SourceLocation) -> Iterator[SourceLocation]:
    """Yield the requirements of a node template, each named by its requirement; malformed ones are left out."""
    for item in template.below("requirements"):
        if isinstance(item.value, dict) and len(item.value) == 1:
            yield item.at(next(iter(item.value)))


def target_of(requirement: SourceLocation) -> str | None:
    """Return the name of the node template that a requirement names."""
    node = requirement.value.get("node") if isinstance(requirement.value, dict) else requirement.value
    return node if isinstance(node, str) else None


def artifacts_of(service: Service, template: SourceLocation) -> dict[str, Any]:
    """Return the artifacts of a node template by name, those of its type among them."""
    given = template.value.get("artifacts")
    own = given if isinstance(given, dict) else {}
    return {**service.types.collected(service.type_of(template), "artifacts"), **own}


def file_of(artifact: Any) -> str | None:
    """Return the file of an artifact, as it is written; None where there is none."""
    file = artifact.get("file") if isinstance(artifact, dict) else artifact
    return file if isinstance(file, str) else None
