"""Checking data against a model: every problem as a diagnostic with its file, line, path, and what would be right."""

import re
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from modak_deploy.addresses import without_password
from modak_deploy.diagnostics import Diagnostic, Locate, Location, ModelError, Position, dotted
from modak_deploy.errors import InputError
from modak_deploy.util.text import close_match, did_you_mean, in_yaml

T = TypeVar("T", bound=BaseModel)

_LARGE = 10**20
_PRIVATE = frozenset({"environment", "secret_environment"})
"""Sections whose values no message repeats; those of the catalogue's levers are everybody's."""
_SCHEDULERS = {
    "container": "image",
    "cpus": "cores_per_rank",
    "gpu": "gpus",
    "gres": "gpus",
    "hostname": "host",
    "mail_type": "mail_events",
    "mem_per_cpu": "memory_per_core",
    "ntasks": "ranks",
    "project": "account",
    "queue": "partition",
    "ssh_key": "private_key",
}
"""Names that schedulers and ssh have for keys, where the most similar key is another one."""
PATTERNS = {
    r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$": "a name of at most 63 ASCII letters, digits and _.- that starts with a letter",
    r"^[^\x00\r\n]*$": "one line of text",
    r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$": "a label's name of at most 128 letters, digits and ._/-",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": "a package name of letters, digits and ._-",
    r"^(s3|swift)://[A-Za-z0-9][A-Za-z0-9._-]{1,254}/[^\x00-\x20\x7f]{0,1022}[^\x00-\x20\x7f/]$": "an object such as "
    "s3://bucket/key or swift://container/object",
    r"^-[A-Za-z0-9_][A-Za-z0-9 ._=:/,+@;%-]*$": "an option such as -DNAME=VALUE",
    r"^[A-Za-z0-9][A-Za-z0-9 ._=:/,+@-]*$": "words of letters, digits and ._=:/,+@-",
    r"^(/[A-Za-z0-9._+-]+)+$": "an absolute path of letters, digits and ._+-",
    r"^[^\x00]*$": "text without NUL",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a name of letters, digits and '_' that does not start with a digit",
    r"^(/[^\x00\r\n]*|\$[A-Za-z_][A-Za-z0-9_]*)$": "an absolute path, or a variable such as $TMPDIR",
    r"^[A-Za-z0-9_:][A-Za-z0-9_.:%-]*$": "a host name or address of letters, digits and _.:%-, without a hyphen first",
    r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$": "a user name of letters, digits and _.@+-, without a hyphen first",
    r"^(tcp|/[A-Za-z0-9._~/?=&%+,:@-]*)$": "tcp, or an absolute path of letters, digits and ._~/?=&%+,:@-",
    r"^[0-9A-Fa-f.:]{2,45}$": "an IP address",
    r"^[a-z][a-z0-9]{0,15}$": "a name of at most 16 lower-case letters and digits that starts with a letter",
    r"^[0-9a-f]{64}$": "a SHA-256 of 64 hexadecimal digits",
    r"^sha256:[0-9a-f]{64}$": "a digest such as sha256: and 64 hexadecimal digits",
    r"^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$": "a job array such as 1,2,3 or 0-9 or 0-99:10%4",
    r"^(after|afterok|afternotok|afterany):[A-Za-z0-9_.\[\]-]+(:[A-Za-z0-9_.\[\]-]+)*$": (
        "a dependency such as afterok:1234"
    ),
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$": "a name of at most 63 small letters, digits and hyphens",
    r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$": "a name of small letters, digits, dots and hyphens",
    r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$": "a label's value of at most 63 letters, digits and ._-",
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$": (
        "a label such as example.org/zone"
    ),
    r"^/[^:\x00-\x1f]{1,1000}$": "an absolute path without a colon",
}
"""What each pattern of the models asks for."""


def check(model: type[T], data: Any, *, origin: str, locate: Locate | None = None) -> T:
    """Return ``data``, made of plain types, as ``model``.

    InputError has one diagnostic for every problem, at the position that ``locate`` returns, or in ``origin``.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(diagnostics_of(error, model, origin=origin, locate=locate)) from None


def diagnostics_of(
    error: ValidationError, model: type[BaseModel], *, origin: str, locate: Locate | None = None
) -> list[Diagnostic]:
    """Return one diagnostic for every problem of ``error``, in the document's order where it has lines."""
    result: list[Diagnostic] = []
    for location, diagnostic in problems(error, model):
        position = (locate(location) if locate else None) or Position(origin)
        result.append(diagnostic.at(position))
    result.sort(key=lambda diagnostic: (diagnostic.source, diagnostic.line or 0))
    return list(dict.fromkeys(result))


def problems(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Location, Diagnostic]]:
    """Yield the location of each problem, and the problem under the path of the section or value that it is about."""
    errors = error.errors(include_url=False)
    misspelt = {_meant(details["loc"], model) for details in errors if details["type"] == "extra_forbidden"}
    for details in errors:
        if details["type"] == "missing" and details["loc"] in misspelt:
            continue
        # The part '[key]' says that the key itself is at fault; the others which form of a value was checked.
        location = tuple(part for part in details["loc"] if part not in ("[key]", "[word]", "[mapping]"))
        parent = location[:-1] if details["type"] in ("extra_forbidden", "missing") else location
        yield location, replace(_problem(details, location, model), path=parent)


def _meant(location: Location, model: type[BaseModel]) -> Location | None:
    """Return the location of the valid key that the unknown one at ``location`` must stand for."""
    section = _model_at(model, location[:-1])
    key = close_match(str(location[-1]), list(_fields(section))) if section else None
    return (*location[:-1], key) if key else None


def _problem(details: Any, location: Location, model: type[BaseModel]) -> Diagnostic:
    kind, context, value = details["type"], details.get("ctx", {}), details.get("input")
    is_private = _PRIVATE & set(location[:-1]) and location[0] != "levers"
    text = _kind(value) if is_private else shown(value)
    if kind == "extra_forbidden":
        return _unknown_key(str(location[-1]), location[:-1], model)
    if kind == "missing":
        return Diagnostic(f"the key '{location[-1]}' is required", "missing-key")
    if "[key]" in details["loc"]:
        pattern = PATTERNS.get(context.get("pattern", ""), "of another form")
        return Diagnostic(f"the key {shown(value)} must be {pattern}", "invalid-key")
    if kind == "value_error":
        raised = context["error"]
        return Diagnostic(raised.text if isinstance(raised, ModelError) else str(raised), "invalid-value")
    if kind == "string_pattern_mismatch":
        pattern = PATTERNS.get(context["pattern"], "of the form " + context["pattern"])
        return Diagnostic(f"must be {pattern}, not {text}", "invalid-value")
    if kind == "string_too_short" or (kind == "too_short" and context["min_length"] == 1):
        return Diagnostic("must not be empty", "invalid-value")
    if kind == "literal_error":
        return _no_choice(context["expected"], value)
    if (code_and_text := _EXPECTED.get(kind)) is not None:
        code, make = code_and_text
        return Diagnostic(f"must be {make(context)}, not {text}", code, hint_text=_remedy(kind, value))
    message = str(details["msg"])
    return Diagnostic(message[0].lower() + message[1:], "invalid-value")


_EXPECTED: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "string_type": ("wrong-type", lambda _: "text"),
    "int_type": ("wrong-type", lambda _: "a whole number"),
    "float_type": ("wrong-type", lambda _: "a number"),
    "bool_type": ("wrong-type", lambda _: "true or false"),
    "finite_number": ("out-of-range", lambda _: "a finite number"),
    "list_type": ("wrong-type", lambda _: "a list"),
    "dict_type": ("wrong-type", lambda _: "a mapping of keys to values"),
    "model_type": ("wrong-type", lambda _: "a mapping of keys to values"),
    "model_attributes_type": ("wrong-type", lambda _: "a mapping of keys to values"),
    "greater_than": ("out-of-range", lambda c: f"above {c['gt']:g}"),
    "greater_than_equal": ("out-of-range", lambda c: f"at least {c['ge']:g}"),
    "less_than": ("out-of-range", lambda c: f"below {c['lt']:g}"),
    "less_than_equal": ("out-of-range", lambda c: f"at most {c['le']:g}"),
    "too_long": ("out-of-range", lambda c: f"a list of at most {c['max_length']}"),
}


_POWER = re.compile(r"([+-]?\d{1,20})(?:\.(\d{0,20}))?[eE]([+-])?(\d{1,3})")
"""A number with an exponent. What lacks the point or the exponent's sign, YAML 1.1 takes for text."""


def _kind(value: Any) -> str:
    """Return what a value is, for a sentence that must not repeat it."""
    names = {str: "text", int: "a number", float: "a number"}
    return names.get(type(value)) or shown(value)


def shown(value: Any) -> str:
    """Return a value the way a user would recognise it in a sentence."""
    match value:
        case str():
            # A part of an address may look like something else, and keep its password.
            text = without_password(value)
            return f"'{text}'" if len(text) <= 80 and text.isprintable() else f"{text[:80]!r}"
        case int() if abs(value) > _LARGE:
            return "a number of more than 20 digits"  # Python refuses to write out more than 4300
        case _:
            return in_yaml(value) or str(value)


def _remedy(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "write it in quotes"
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str) and _is_simple(value):
        return "write it without quotes"
    if kind == "float_type" and isinstance(value, str) and (power := _POWER.fullmatch(value)):
        whole, fraction, sign, exponent = power.groups()
        return f"write {whole}.{fraction or 0}e{sign or '+'}{exponent}: YAML asks for a point and a sign"
    return ""


def _is_simple(text: str) -> bool:
    return text.lower() in ("true", "false") or text.replace(".", "", 1).isdigit()


def _no_choice(expected: str, value: Any) -> Diagnostic:
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]  # pydantic joins them so
    hint = did_you_mean(value, choices) if isinstance(value, str) else ""
    return Diagnostic(f"must be {expected}, not {shown(value)}", "not-a-choice", hint_text=hint)


def _unknown_key(key: str, parent: Location, model: type[BaseModel]) -> Diagnostic:
    section = _model_at(model, parent)
    keys = list(_fields(section)) if section else []
    inner = _sections(section, parent) if section else ()
    hint = _hint_for_key(key, keys, [*inner, *_sections(model, ())])
    return Diagnostic(f"unknown key '{key}'", "unknown-key", hint_text=hint)


def _hint_for_key(key: str, keys: list[str], sections: Iterable[tuple[Location, dict[str, FieldInfo]]]) -> str:
    """Return what is meant: a key of the section, or else one of ``sections``, of which the first has it."""
    if (meant := _SCHEDULERS.get(key.lower())) in keys:
        return f"did you mean '{meant}'?"
    if hint := did_you_mean(key, keys):
        return hint
    others: dict[str, str] = {}
    for location, fields in sections:
        for name in fields:
            others.setdefault(name, f"'{dotted(location)}'" if location else "the document's top")
    if key in others:
        return f"it belongs in {others[key]}"
    if close := close_match(key, others, cutoff=0.75):
        return f"did you mean '{close}' in {others[close]}?"
    return f"the keys here are {', '.join(keys)}"


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_at(model: type[BaseModel] | None, location: Location) -> type[BaseModel] | None:
    """Return the model that ``location`` leads to; items of lists and values of mappings are gone through."""
    for part in location:
        if model is None:
            return None
        if isinstance(part, str) and part in _fields(model):
            model = _model_in(_fields(model)[part].annotation)
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, types.UnionType, list, dict):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None


def _sections(model: type[BaseModel], location: Location) -> Iterator[tuple[Location, dict[str, FieldInfo]]]:
    """Yield the document's sections with their keys, the outer before the inner; not those inside lists."""
    fields = _fields(model)
    yield location, fields
    for name, field in fields.items():
        inner = _model_in(field.annotation)
        if inner is not None and get_origin(field.annotation) is not list:
            yield from _sections(inner, (*location, name))
