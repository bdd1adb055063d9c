"""Checking data against a model: every fault as one sentence that names file, line, place and what would be right."""

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from modak.addresses import without_password
from modak.documents.reading import Locate, Location
from modak.errors import InputError
from modak.util.text import close_match, nearest

T = TypeVar("T", bound=BaseModel)

_LARGE = 10**20
_PRIVATE = frozenset({"environment", "secret_environment"})
"""Sections whose values no message repeats; those of the catalogue's levers are everybody's."""
PATTERNS = {
    r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$": "a name of at most 63 letters, digits and _.- that starts with a letter",
    r"^[^\x00\r\n]*$": "one line of text",
    r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$": "a label's name of at most 128 letters, digits and ._/-",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": "a package name of letters, digits and ._-",
    r"^-[A-Za-z0-9_][A-Za-z0-9 ._=:/,+@;%-]*$": "an option such as -DNAME=VALUE",
    r"^[A-Za-z0-9][A-Za-z0-9 ._=:/,+@-]*$": "words of letters, digits and ._=:/,+@-",
    r"^(/[A-Za-z0-9._+-]+)+$": "an absolute path of letters, digits and ._+-",
    r"^[^\x00]*$": "text without NUL",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a name of letters, digits and '_' that does not start with a digit",
    r"^(/[^\x00\r\n]*|\$[A-Za-z_][A-Za-z0-9_]*)$": "an absolute path, or a variable such as $TMPDIR",
    r"^[A-Za-z0-9_:][A-Za-z0-9_.:%-]*$": "a host name or address of letters, digits and _.:%-, without a hyphen first",
    r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*[$]?$": "a user name of letters, digits and _.@+-, without a hyphen first",
    r"^[0-9a-f]{64}$": "a SHA-256 of 64 hexadecimal digits",
    r"^sha256:[0-9a-f]{64}$": "a digest such as sha256: and 64 hexadecimal digits",
    r"^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$": "a job array such as 1,2,3 or 0-9 or 0-99:10%4",
    r"^(after|afterok|afternotok|afterany):[A-Za-z0-9_.\[\]-]+(:[A-Za-z0-9_.\[\]-]+)*$": (
        "a dependency such as afterok:1234"
    ),
}
"""What each pattern of the models asks for, in words."""


def check(model: type[T], data: Any, *, origin: str, locate: Locate | None = None) -> T:
    """Return ``data``, made of plain types, as ``model``.

    InputError has one line for every fault: ``locate``'s answer, or ``origin``, then the dotted place and the sentence.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = fault_lines(error, model, origin=origin, locate=locate)
        raise InputError("\n".join(lines)) from None


def fault_lines(
    error: ValidationError, model: type[BaseModel], *, origin: str, locate: Locate | None = None
) -> list[str]:
    """Return one line for every fault of ``error``, in the document's order where it is known."""
    found: list[tuple[tuple[str, int], str]] = []
    for location, parent, sentence in sentences(error, model):
        where = (locate(location) if locate else None) or origin
        place = dotted(parent)
        found.append((_order(where), f"{where}: {place}: {sentence}" if place else f"{where}: {sentence}"))
    return list(dict.fromkeys(line for _, line in sorted(found, key=lambda pair: pair[0])))


def sentences(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Location, Location, str]]:
    """Yield each fault's location, that of the section or value that its sentence speaks of, and the sentence."""
    faults = error.errors(include_url=False)
    misspelt = {_meant(fault["loc"], model) for fault in faults if fault["type"] == "extra_forbidden"}
    for fault in faults:
        if fault["type"] == "missing" and fault["loc"] in misspelt:
            continue
        # The part '[key]' says that the key itself is at fault; the others which form of a value was checked.
        location = tuple(part for part in fault["loc"] if part not in ("[key]", "[word]", "[mapping]"))
        parent = location[:-1] if fault["type"] in ("extra_forbidden", "missing") else location
        yield location, parent, _sentence(fault, location, model)


def _meant(location: Location, model: type[BaseModel]) -> Location | None:
    """Return the location of the known key that the unknown one at ``location`` must stand for."""
    section = _model_at(model, location[:-1])
    key = close_match(str(location[-1]), list(_fields(section))) if section else None
    return (*location[:-1], key) if key else None


def dotted(location: Sequence[int | str]) -> str:
    """Return a location as users write it: ``target.partitions[0].name``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _order(where: str) -> tuple[str, int]:
    file, _, line = where.rpartition(":")
    return (file, int(line)) if line.isdigit() else (where, 0)


def _sentence(fault: Any, location: Location, model: type[BaseModel]) -> str:
    kind, context, value = fault["type"], fault.get("ctx", {}), fault.get("input")
    is_private = _PRIVATE & set(location[:-1]) and location[0] != "levers"
    told = _kind(value) if is_private else shown(value)
    if kind == "extra_forbidden":
        return _unknown_key(str(location[-1]), location[:-1], model)
    if kind == "missing":
        return f"the key '{location[-1]}' is missing"
    if "[key]" in fault["loc"]:
        return f"the key {shown(value)} must be {PATTERNS.get(context.get('pattern', ''), 'of another form')}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"must be {PATTERNS.get(context['pattern'], 'of the form ' + context['pattern'])}, not {told}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "literal_error":
        return _not_one_of(context["expected"], value)
    if make := _WANTED.get(kind):
        return f"must be {make(context)}, not {told}" + _remedy(kind, value)
    message = str(fault["msg"])
    return message[0].lower() + message[1:]


_WANTED: dict[str, Callable[[dict[str, Any]], str]] = {
    "string_type": lambda _: "text",
    "int_type": lambda _: "a whole number",
    "float_type": lambda _: "a number",
    "bool_type": lambda _: "true or false",
    "finite_number": lambda _: "a finite number",
    "list_type": lambda _: "a list",
    "dict_type": lambda _: "a mapping of keys to values",
    "model_type": lambda _: "a mapping of keys to values",
    "model_attributes_type": lambda _: "a mapping of keys to values",
    "greater_than": lambda c: f"above {c['gt']:g}",
    "greater_than_equal": lambda c: f"at least {c['ge']:g}",
    "less_than": lambda c: f"below {c['lt']:g}",
    "less_than_equal": lambda c: f"at most {c['le']:g}",
    "too_long": lambda c: f"a list of at most {c['max_length']}",
}


def _kind(value: Any) -> str:
    """Return what a value is, for a sentence that must not repeat it."""
    names = {str: "text", int: "a number", float: "a number"}
    return names.get(type(value)) or shown(value)


def shown(value: Any) -> str:
    """Return a value the way a user would recognise it in a sentence."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            # A part of an address may look like something else, and keep its password.
            text = without_password(value)
            return f"'{text}'" if len(text) <= 80 and text.isprintable() else f"{text[:80]!r}"
        case int() if abs(value) > _LARGE:
            return "a number of more than 20 digits"  # Python refuses to write out more than 4300
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return str(value)


def _remedy(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return ": write it in quotes"
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str) and _is_simple(value):
        return ": write it without quotes"
    return ""


def _is_simple(text: str) -> bool:
    return text.lower() in ("true", "false") or text.replace(".", "", 1).isdigit()


def _not_one_of(expected: str, value: Any) -> str:
    known = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    return f"must be {expected}, not {shown(value)}" + (nearest(value, known) if isinstance(value, str) else "")


def _unknown_key(key: str, parent: Location, model: type[BaseModel]) -> str:
    section = _model_at(model, parent)
    keys = list(_fields(section)) if section else []
    if hint := nearest(key, keys):
        return f"unknown key '{key}'{hint}"
    others: dict[str, str] = {}
    for place, fields in _sections(model, ()):
        for name in fields:
            others.setdefault(name, f"'{dotted(place)}'" if place else "the document's top")
    if key in others:
        return f"unknown key '{key}'; it belongs in {others[key]}"
    if close := close_match(key, others):
        return f"unknown key '{key}'; did you mean '{close}' in {others[close]}?"
    return f"unknown key '{key}'; the keys here are {', '.join(keys)}"


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
        return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
    return None


def _sections(model: type[BaseModel], place: Location) -> Iterator[tuple[Location, dict[str, FieldInfo]]]:
    """Yield the document's sections with their keys, the outer before the inner; not those inside lists."""
    fields = _fields(model)
    yield place, fields
    for name, field in fields.items():
        inner = _model_in(field.annotation)
        if inner is not None and get_origin(field.annotation) is not list:
            yield from _sections(inner, (*place, name))
