"""Fields of the models as TOSCA property definitions.

Only what tosca-parser, xOpera, Unfurl and Puccini all take is used: no default for a list or map inside a data type
(Puccini), no constraint on a scalar unit (tosca-parser and Unfurl compare it with text), and none on text inside a data
type or list that merely excludes line breaks, so that a function such as get_input may stand there (tosca-parser).
"""

import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, BeforeValidator, Discriminator, StringConstraints
from pydantic.fields import FieldInfo

from modak_deploy.model.base import Model, Registered, parse_duration, parse_memory

PREFIX = "modak.datatypes."
ModelType = type[Model]
_PRIMITIVES: dict[Any, str] = {str: "string", int: "integer", float: "float", bool: "boolean"}
_UNITS = {parse_duration: "scalar-unit.time", parse_memory: "scalar-unit.size"}
_EXAMPLES = {"scalar-unit.time": "30 m or 2 h", "scalar-unit.size": "4 GiB"}
_ANY_TEXT = frozenset({r"^[^\x00\r\n]*$", r"^[^\x00]*$"})
"""Patterns that exclude control characters only."""


@dataclass(frozen=True)
class Schema:
    """The TOSCA type of one value, with what its entries and keys are where it is a list or a map."""

    type: str
    constraints: tuple[tuple[str, Any], ...] = ()
    entry: "Schema | None" = None
    key: "Schema | None" = None
    optional: bool = False
    model: "ModelType | None" = None
    """The model behind a data type."""


def schema_of(annotation: Any, metadata: Iterable[Any] = ()) -> Schema:
    """Return the schema of a field's annotation; TypeError names an annotation that TOSCA has no form for."""
    extra = list(metadata)
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        extra = more + extra
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        if any(isinstance(item, Discriminator) for item in extra):
            return Schema("string")  # each of these has a form that is a text
        rest = [a for a in arguments if a is not type(None)]
        if len(rest) != 1 or len(rest) == len(arguments):
            raise TypeError(f"a union other than 'X | None' has no TOSCA form: {annotation}")
        inner = schema_of(rest[0], extra)
        return Schema(inner.type, inner.constraints, inner.entry, inner.key, True, inner.model)
    if origin is Literal:
        return Schema("string", (("valid_values", list(arguments)),))
    if origin is list:
        return Schema("list", entry=schema_of(arguments[0]))
    if origin is dict:
        return Schema("map", entry=schema_of(arguments[1]), key=schema_of(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return Schema(PREFIX + annotation.__name__, model=annotation)
    if annotation in _PRIMITIVES:
        return _primitive(annotation, extra)
    raise TypeError(f"no TOSCA form for {annotation}")


@cache
def schemas_of(model: ModelType) -> Mapping[str, Schema]:
    """Return the schemas of a model's fields."""
    return {name: schema_of(field.annotation, field.metadata) for name, field in model.model_fields.items()}


def _primitive(annotation: Any, metadata: list[Any]) -> Schema:
    constraints: list[tuple[str, Any]] = []
    for item in _flat(metadata):
        if isinstance(item, BeforeValidator) and item.func in _UNITS:
            return Schema(_UNITS[item.func])
        if isinstance(item, Registered):
            constraints.append(("valid_values", item.names()))
        if isinstance(item, StringConstraints) and item.pattern is not None:
            constraints.append(("pattern", str(item.pattern)))
        for kind, keyword in ((Gt, "greater_than"), (Ge, "greater_or_equal"), (Lt, "less_than"), (Le, "less_or_equal")):
            if isinstance(item, kind):
                # Puccini takes no integer where a float belongs.
                constraints.append((keyword, annotation(getattr(item, kind.__name__.lower()))))
        if isinstance(item, MinLen):
            constraints.append(("min_length", item.min_length))
    return Schema(_PRIMITIVES[annotation], tuple(constraints))


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from _flat(item.metadata)
        else:
            yield item


def describe(name: str, field: FieldInfo, schema: Schema) -> str:
    """Return the field's description in plain words, its unit told the way TOSCA writes it."""
    if not field.description:
        raise TypeError(f"the field '{name}' has no description: write one below it in the model")
    text = " ".join(field.description.split()).replace("``", "'")
    if schema.type in _EXAMPLES:
        text = re.sub(r",? in seconds", "", text)
        text = (
            re.sub(r"^Bytes (of|per)", r"Memory \1", text)
            .replace("Memory of memory", "Memory")
            .replace("Memory of main memory", "Main memory")
        )
        text += f" With its unit, such as {_EXAMPLES[schema.type]}."
    return text


def data_type_property(
    name: str, field: FieldInfo, *, required: bool | None = None, defaults: bool = True
) -> dict[str, Any]:
    """Return the definition of ``field`` as a property of a data type, without its default unless ``defaults``."""
    schema = schema_of(field.annotation, field.metadata)
    definition: dict[str, Any] = {"type": schema.type, "description": describe(name, field, schema)}
    if not (field.is_required() if required is None else required):
        definition["required"] = False
    default = field.default
    if defaults and not field.is_required() and isinstance(default, str | int | float | bool):
        definition["default"] = default
    definition.update(_details(schema, nested=True))
    return definition


def node_property(name: str, field: FieldInfo) -> dict[str, Any]:
    """Return the definition of ``field`` as a property of a node type.

    There every property that may be left out has a value that stands for "not given" (an empty text, list or map, or
    0), because xOpera cannot hand an unset property to a playbook.
    """
    schema = schema_of(field.annotation, field.metadata)
    definition: dict[str, Any] = {"type": schema.type, "description": describe(name, field, schema)}
    if field.is_required():
        definition.update(_details(schema, nested=False))
        return definition
    definition["required"] = False
    definition["default"] = _neutral(schema, field.default)
    definition.update(_details(_or_nothing(schema), nested=False))
    return definition


def _neutral(schema: Schema, default: Any) -> Any:
    if default is not None and not isinstance(default, BaseModel):
        return default
    return {"string": "", "integer": 0, "float": 0.0, "boolean": False, "list": []}.get(schema.type, {})


def _or_nothing(schema: Schema) -> Schema:
    """Return the schema of an optional value with the value for "not given" let in."""
    if not schema.optional:
        return schema
    relaxed: list[tuple[str, Any]] = []
    for keyword, value in schema.constraints:
        if keyword == "pattern" and value not in _ANY_TEXT:
            relaxed.append((keyword, f"^({value.removeprefix('^').removesuffix('$')})?$"))
        elif keyword == "valid_values":
            relaxed.append((keyword, ["", *value]))
        elif keyword == "greater_than" or (keyword == "greater_or_equal" and value > 0):
            relaxed.append(("greater_or_equal", type(value)(0)))
        elif keyword != "min_length":
            relaxed.append((keyword, value))
    return Schema(schema.type, tuple(relaxed), schema.entry, schema.key, True, schema.model)


def _details(schema: Schema, *, nested: bool) -> dict[str, Any]:
    details: dict[str, Any] = {}
    constraints = [
        {keyword: value}
        for keyword, value in schema.constraints
        if not (nested and (keyword == "min_length" or (keyword == "pattern" and value in _ANY_TEXT)))
    ]
    if constraints:
        details["constraints"] = constraints
    if schema.key is not None:
        details["key_schema"] = {"type": schema.key.type, **_details(schema.key, nested=True)}
    if schema.entry is not None:
        details["entry_schema"] = {"type": schema.entry.type, **_details(schema.entry, nested=True)}
    return details
