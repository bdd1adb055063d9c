"""Reading of the catalogue's files; faults are told with file, line and place."""

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from modak.errors import InputError

T = TypeVar("T", bound=BaseModel)
_Base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc, valid-type]
    """A safe loader that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key '{key.value}' is given twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


def read_yaml(path: Path, model: type[T]) -> T:
    """Return the file as ``model``; InputError lists every fault as ``file:line: place: what is wrong``."""
    text = read_text(path)
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        raise InputError(_syntax(path, error)) from None
    if data is None:
        raise InputError(f"{path}: the file is empty")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        lines = [f"{path}:{line_of(root, e['loc'])}: {describe(e, model)}" for e in error.errors()]
        raise InputError("\n".join(dict.fromkeys(lines))) from None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; InputError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None


def describe(error: Any, model: type[BaseModel]) -> str:
    """Return one fault of a ValidationError as ``place: what is wrong``, with the nearest key for an unknown one."""
    place = ".".join(str(part) for part in error["loc"]) or "document"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        close = difflib.get_close_matches(key, _all_keys(model), 1)
        message = f"unknown key '{key}'" + (f"; did you mean '{close[0]}'?" if close else "")
    return f"{place}: {message[0].lower()}{message[1:]}"


def _all_keys(model: type[BaseModel]) -> list[str]:
    schema = model.model_json_schema()
    definitions = [schema, *schema.get("$defs", {}).values()]
    return sorted({key for definition in definitions for key in definition.get("properties", {})})


def line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """Return the line, from 1, of the deepest node that ``location`` reaches."""
    line = 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}
            if part not in pairs:
                break
            key, node = pairs[part]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _syntax(path: Path, error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{path}:{error.problem_mark.line + 1}: {error.problem}"
    return f"{path}: not YAML: {str(error).splitlines()[0]}"
