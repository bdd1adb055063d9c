"""Values of properties, inputs and attributes against their definitions."""

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.documents.validation import PATTERNS, shown
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.profiles import OPERA, TOSCA_PARSER
from modak_deploy.tosca.scalars import UNITS, amount
from modak_deploy.tosca.service import Types
from modak_deploy.util.text import did_you_mean, nearest

FUNCTIONS = ("get_input", "get_property", "get_attribute", "get_artifact", "concat", "join", "token")
"""What tosca-parser, xOpera, Unfurl and Puccini all evaluate."""
_VERSION = re.compile(r"\d+\.\d+(\.\d+(\.\w+(-\d+)?)?)?")
OfFunction = Callable[[SourceLocation, str], Iterator[Diagnostic]]
"""Checks a function call that stands for a value of the named type."""


OTHER_FUNCTIONS = ("get_nodes_of_type", "get_operation_output")
"""Functions of TOSCA 1.3 that xOpera gives out as they are, as a mapping."""


def is_function(value: Any) -> bool:
    """Tell whether a value is a call of a function."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in FUNCTIONS


def misspelt_function(element: SourceLocation) -> Diagnostic | None:
    """Return a fault where a value looks like the call of a function that there is not."""
    if not isinstance(element.value, dict) or len(element.value) != 1 or is_function(element.value):
        return None
    name = next(iter(element.value))
    hint = nearest(name, FUNCTIONS)
    return element.diagnostic(f"function '{name}' not found{hint}", name, code="not-found") if hint else None


def type_name(definition: Any) -> str:
    """Return the type that a definition or schema names, or an empty text; some tools take a bare name for a schema."""
    return str(definition if isinstance(definition, str) else (definition or {}).get("type", ""))


def check_properties(
    given: SourceLocation,
    definitions: Mapping[str, Any],
    types: Types,
    of_function: OfFunction | None,
    *,
    what: str = "property",
) -> Iterator[Diagnostic]:
    """Check a mapping of assigned values against the definitions: unknown names, and each value."""
    if not isinstance(given.value, dict):
        yield given.diagnostic(f"must be a mapping, not {shown(given.value)}", code="wrong-type")
        return
    for element in given.items():
        if element.name not in definitions:
            hint = nearest(element.name, list(definitions))
            note = "" if hint or not definitions else f"; there are {', '.join(definitions)}"
            yield element.diagnostic(f"unknown {what}{hint or note}", code="unknown-key")
        else:
            yield from check_value(element, definitions[element.name], types, of_function)


def missing(given: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    """Return the names of required properties without default that are not given."""
    return [
        name
        for name, definition in definitions.items()
        if isinstance(definition, dict)
        and definition.get("required", True)
        and "default" not in definition
        and name not in given
    ]


def check_value(
    element: SourceLocation, definition: Any, types: Types, of_function: OfFunction | None, depth: int = 0
) -> Iterator[Diagnostic]:
    """Check one value against its definition or schema; ``of_function`` is None where no function may stand."""
    wanted = type_name(definition)
    if element.value is None and isinstance(definition, dict) and definition.get("default", "") is None:
        return  # a default of null says that null is a value here
    if is_function(element.value):
        if of_function is None:
            yield element.diagnostic("no function may stand here")
        elif depth > 1:
            sentence = "xOpera evaluates functions in a property or one level below it, but not here"
            yield element.diagnostic(sentence, tools=OPERA, code="not-portable")
            yield from of_function(element, "")
        elif depth and isinstance(definition, dict) and definition.get("constraints"):
            yield element.diagnostic(
                "tosca-parser takes no function here, where the type has a constraint",
                hint="give an input above",
                tools=TOSCA_PARSER,
                code="not-portable",
            )
            yield from of_function(element, "")
        else:
            yield from of_function(element, "" if depth else wanted)
        return
    if wanted in _PRIMITIVES and (shown_value := misspelt_function(element)):
        yield shown_value
        return
    faults = list(_typed(element, wanted, definition, types, of_function, depth))
    yield from faults
    if all(problem.rejected_by for problem in faults) and isinstance(definition, dict):
        base = primitive_of(wanted, types) or wanted
        yield from check_constraints(element, definition.get("constraints") or [], base)


def _typed(
    element: SourceLocation, wanted: str, definition: Any, types: Types, of_function: OfFunction | None, depth: int
) -> Iterator[Diagnostic]:
    value = element.value
    if wanted == ANY:
        return
    if wanted in _PRIMITIVES:
        is_right, expected = _PRIMITIVES[wanted]
        if wanted in ("string", "timestamp") and isinstance(value, str) and element.is_date:
            strict = ("tosca-parser", "unfurl", "puccini") if wanted == "timestamp" else ()
            yield element.diagnostic(f"{value} is a date in YAML", hint="write it in quotes", tools=strict)
        elif not is_right(value):
            tools = ("tosca-parser", "puccini") if wanted == "float" and _is_number(value) else ()
            yield element.diagnostic(
                f"must be {expected}, not {shown(value)}", hint=_remedy(wanted, value), tools=tools, code="wrong-type"
            )
    elif wanted in UNITS:
        if amount(value, wanted) is None:
            yield element.diagnostic(
                f"must be an amount with one of the units {', '.join(UNITS[wanted])}, not {shown(value)}",
                code="wrong-type",
            )
    elif wanted in ("list", "map"):
        yield from _collection(element, wanted, definition, types, of_function, depth)
    elif base := primitive_of(wanted, types):
        yield from _typed(element, base, definition, types, of_function, depth)
    elif match := types.find("data_types", wanted):
        definitions = types.collected(match, "properties")
        if not isinstance(value, dict):
            yield element.diagnostic(
                f"must be a mapping of the keys {', '.join(definitions)}, not {shown(value)}", code="wrong-type"
            )
            return
        for name in missing(value, definitions):
            yield element.diagnostic(f"the key '{name}' is required", code="missing-key")
        for inner in element.items():
            if inner.name not in definitions:
                yield inner.diagnostic(
                    "unknown key", hint=did_you_mean(inner.name, list(definitions)), code="unknown-key"
                )
            else:
                yield from check_value(inner, definitions[inner.name], types, of_function, depth + 1)


def _collection(
    element: SourceLocation, wanted: str, definition: Any, types: Types, of_function: OfFunction | None, depth: int
) -> Iterator[Diagnostic]:
    kind, expected = (list, "a list") if wanted == "list" else (dict, "a mapping of keys to values")
    if not isinstance(element.value, kind):
        yield element.diagnostic(f"must be {expected}, not {shown(element.value)}", code="wrong-type")
        return
    entry = definition.get("entry_schema") if isinstance(definition, dict) else None
    key = definition.get("key_schema") if isinstance(definition, dict) else None
    for inner in element.items():
        if isinstance(key, dict) and wanted == "map":
            named = SourceLocation(inner.document, inner.location, inner.name)
            yield from check_constraints(named, key.get("constraints") or [], "string", "the key ")
        if entry is not None:
            yield from check_value(inner, entry, types, of_function, depth + 1)


def primitive_of(name: str, types: Types) -> str | None:
    """Return the primitive type that a data type derives from, or None."""
    for match in types.lineage(types.find("data_types", name)):
        base = match.definition.get("derived_from")
        if base in _PRIMITIVES or base in UNITS or base in ("list", "map"):
            return str(base)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_number(v) or v == "UNBOUNDED" for v in value)


def is_version(value: Any) -> bool:
    """Tell whether a value is a version as TOSCA writes one."""
    return _VERSION.fullmatch(str(value)) is not None


def _is_timestamp(value: Any) -> bool:
    try:
        datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True


ANY = "tosca.datatypes.Root"
"""Stands for a value of any type, for which TOSCA 1.3 has no name: the base of its complex types (5.3.1)."""
_PRIMITIVES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda v: isinstance(v, str), "text"),
    "integer": (lambda v: _is_number(v) and isinstance(v, int), "a whole number"),
    "float": (lambda v: isinstance(v, float), "a number with a decimal point"),
    "boolean": (lambda v: isinstance(v, bool), "true or false"),
    "range": (_is_range, "a list of the lowest and the highest"),
    "version": (is_version, "a version such as 1.0"),
    "timestamp": (_is_timestamp, "a time such as 2026-01-31T12:00:00"),
}
PRIMITIVES = frozenset({*_PRIMITIVES, *UNITS, "list", "map"})


def _remedy(wanted: str, value: Any) -> str:
    if wanted == "string" and isinstance(value, int | float):
        return "write it in quotes"
    if wanted == "float" and _is_number(value):
        return f"write {value}.0"
    if wanted in ("integer", "float", "boolean") and isinstance(value, str):
        return "write it without quotes" if re.fullmatch(r"[\d.]+|true|false", value) else ""
    return ""


def check_constraints(element: SourceLocation, constraints: Any, wanted: str, what: str = "") -> Iterator[Diagnostic]:
    """Check a value against a list of constraint clauses; a clause that is no good itself is another check's matter."""
    for clause in constraints if isinstance(constraints, list) else []:
        if isinstance(clause, dict) and len(clause) == 1:
            ((keyword, limit),) = clause.items()
            if limit_fault(keyword, limit, wanted):
                continue
            try:
                expected = _CONSTRAINTS.get(keyword, _fine)(
                    _comparable(element.value, wanted), _comparable(limit, wanted)
                )
            except TypeError:  # of a mapping, such as of a data type with keys, nothing is the lowest
                continue
            if expected:
                limits = _limits(keyword, limit)
                hint = nearest(str(element.value), list(map(str, limit))) if keyword == "valid_values" else ""
                shown_value = (
                    str(len(element.value)) if isinstance(element.value, list | dict) else shown(element.value)
                )
                yield element.diagnostic(f"{what}must be {expected.format(limits)}, not {shown_value}{hint}")


def _limits(keyword: str, limit: Any) -> str:
    if keyword == "pattern":
        # A property that may be left out takes the empty text as well.
        whole = re.sub(r"^\^\((.*)\)\?\$$", r"^\1$", str(limit))
        return PATTERNS.get(whole, f"of the form {whole}")
    if keyword == "in_range":
        return f"{limit[0]} and {limit[1]}"
    return ", ".join(str(v) or "nothing" for v in limit) if isinstance(limit, list) else str(limit)


def limit_fault(keyword: str, limit: Any, wanted: str) -> str | None:
    """Return what is wrong with a constraint on values of the type ``wanted``, or None."""
    of = _CONSTRAINED.get(keyword)
    if of is not None and wanted in PRIMITIVES and wanted not in of:
        return f"is for the types {', '.join(of)}, not for {wanted}"
    problem = _limit_problem(keyword, limit, wanted)
    return f"wants {problem}, not {_written(limit)}" if problem else None


def _written(limit: Any) -> str:
    return f"[{', '.join(map(str, limit))}]" if isinstance(limit, list) else shown(limit)


def _limit_problem(keyword: str, limit: Any, wanted: str) -> str | None:
    if keyword == "pattern":
        try:
            re.compile(limit)
        except (re.error, TypeError):
            return "a regular expression"
    elif keyword in ("length", "min_length", "max_length"):
        return None if isinstance(limit, int) and limit >= 0 else "a whole number"
    elif keyword == "valid_values":
        fit = isinstance(limit, list) and all(_can_be(value, wanted) for value in limit)
        return None if fit else f"a list of values of type {wanted}"
    elif keyword == "in_range":
        whole = isinstance(limit, list) and len(limit) == 2
        if not whole or not all(v == "UNBOUNDED" or _can_be(v, wanted) for v in limit):
            return "a list of the lowest and the highest"
        low, high = _comparable(limit, wanted)
        try:
            return None if "UNBOUNDED" in limit or low <= high else "the lowest before the highest"
        except TypeError:
            return "a list of the lowest and the highest"
    elif not _can_be(limit, wanted):
        return f"a value of type {wanted}"
    return None


def _can_be(value: Any, wanted: str) -> bool:
    """Tell whether a value is one of a primitive type; any may be one of another type."""
    if wanted in UNITS:
        return amount(value, wanted) is not None
    return wanted not in _PRIMITIVES or _PRIMITIVES[wanted][0](value)


def _comparable(value: Any, wanted: str) -> Any:
    if wanted in UNITS:
        return [amount(v, wanted) for v in value] if isinstance(value, list) else amount(value, wanted)
    return value


def _fine(value: Any, limit: Any) -> str:
    return ""


def _in_range(value: Any, limit: Any) -> str:
    low, high = limit
    below = low != "UNBOUNDED" and value < low
    above = high != "UNBOUNDED" and value > high
    return "between {}" if below or above else ""


_CONSTRAINTS: Mapping[str, Callable[[Any, Any], str]] = {
    "equal": lambda v, x: "" if v == x else "{}",
    "greater_than": lambda v, x: "" if v > x else "above {}",
    "greater_or_equal": lambda v, x: "" if v >= x else "at least {}",
    "less_than": lambda v, x: "" if v < x else "below {}",
    "less_or_equal": lambda v, x: "" if v <= x else "at most {}",
    "in_range": _in_range,
    "valid_values": lambda v, x: "" if v in x else "one of {}",
    "length": lambda v, x: "" if len(v) == x else "{} long",
    "min_length": lambda v, x: "" if len(v) >= x else "at least {} long",
    "max_length": lambda v, x: "" if len(v) <= x else "at most {} long",
    "pattern": lambda v, x: "" if re.fullmatch(x, v) else "{}",
}
CONSTRAINTS = frozenset(_CONSTRAINTS)
_MEASURED = ("string", "list", "map")
_ORDERED = ("integer", "float", "timestamp", "version", *UNITS)
_CONSTRAINED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("length", "min_length", "max_length"), _MEASURED),
    **dict.fromkeys(("greater_than", "greater_or_equal", "less_than", "less_or_equal"), _ORDERED),
    "in_range": (*_ORDERED, "range"),
    "pattern": ("string",),
}
"""The primitive types that a constraint is for; any where it is not named."""
