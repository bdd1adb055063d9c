"""What the docstring below a field says, for those who ask: schemas, the type library, the documentation.

pydantic can read these docstrings when a class is made, but that reads and parses every module's source each time modak
starts. Here it is done when somebody wants to know.
"""

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel

_done: set[type[BaseModel]] = set()


def describe(model: type[BaseModel]) -> None:
    """Set the description of every field of ``model``, and of the models in its fields, from the docstrings below."""
    if model in _done:
        return
    _done.add(model)
    for ancestor in reversed(model.__mro__):
        if issubclass(ancestor, BaseModel) and ancestor.__module__.split(".")[0] != "pydantic":
            for name, text in _docstrings(ancestor).items():
                if name in model.model_fields and model.model_fields[name].description is None:
                    model.model_fields[name].description = text
    for field in model.model_fields.values():
        for other in _models(field.annotation):
            describe(other)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the annotated names of one class body."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    except (OSError, TypeError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    descriptions = {}
    for pair in pairwise(body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                descriptions[name] = inspect.cleandoc(text)
    return descriptions


def _models(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for part in get_args(annotation) for model in _models(part)}


def add_to_schema(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Put the descriptions into a JSON schema of ``model`` that was made without them."""
    describe(model)
    reached: dict[str, type[BaseModel]] = {}
    _reach(model, reached)
    definitions = [(model.__name__, schema), *schema.get("$defs", {}).items()]
    for name, definition in definitions:
        fields = reached[name].model_fields if name in reached else {}
        for key, field in fields.items():
            for shown in (field.alias, field.serialization_alias, key):
                entry = definition.get("properties", {}).get(shown)
                if entry is not None and field.description is not None:
                    entry.setdefault("description", field.description)


def _reach(model: type[BaseModel], descriptions: dict[str, type[BaseModel]]) -> None:
    if descriptions.get(model.__name__) is model:
        return
    descriptions[model.__name__] = model
    for field in model.model_fields.values():
        for other in _models(field.annotation):
            _reach(other, descriptions)
