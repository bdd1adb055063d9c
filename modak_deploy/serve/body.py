"""Bodies of requests: reading JSON, and faults in the form that clients of the job model know."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from modak_deploy.diagnostics import Diagnostic, Location, Position
from modak_deploy.errors import InfeasibleError, ModakError
from modak_deploy.terminal import excerpt

_DEEPEST = 100
_MOST_DIGITS = 40
_KINDS = {"unknown-key": "extra_forbidden", "missing-key": "missing"}
"""What pydantic, whose names the clients know, calls problems with these codes."""


class Written(float):
    """A number with a fraction, with the text that it was written as: 2.10 is no 2.1 where it is a version."""

    text: str


class Refusal(Exception):
    """A request that is answered with ``status`` and a list of what is wrong."""

    def __init__(self, status: int, faults: list[dict[str, Any]], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(faults)
        self.status, self.faults, self.headers = status, faults, dict(headers or {})


def fault(message: str, kind: str, *location: str | int) -> dict[str, Any]:
    """Return one entry of the list that an answer of status 4xx holds."""
    return {"loc": list(location or ("body",)), "msg": message, "type": kind}


def parse(text: bytes) -> Any:
    """Return the JSON of a body; Refusal says what is wrong with it."""
    try:
        # An object within an object within an object: Python's parser gives up by RecursionError only at thousands.
        data = json.loads(text.decode("utf-8"), parse_float=_number, parse_int=_integer, parse_constant=_constant)
    except UnicodeDecodeError:
        raise Refusal(422, [fault("the body is not UTF-8", "json_invalid")]) from None
    except RecursionError:
        raise Refusal(422, [fault(f"it is nested deeper than {_DEEPEST} levels", "json_invalid")]) from None
    except ValueError as error:
        raise Refusal(422, [fault(f"the body is not JSON: {error}", "json_invalid")]) from None
    _check(data, 0)
    return data


def _number(text: str) -> float:
    number = Written(text)
    if math.isinf(number):  # what an answer, or the list of the entries, could not hold: JSON has no infinity
        raise ValueError(f"'{excerpt(text, 40)}' is larger than any number that is taken")
    number.text = text
    return number


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(text)} characters: at most {_MOST_DIGITS} are taken")
    return int(text)


def _constant(text: str) -> float:
    raise ValueError(f"'{text}' is not a JSON number")


def _check(data: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise Refusal(422, [fault(f"it is nested deeper than {_DEEPEST} levels", "json_invalid")])
    if isinstance(data, dict):
        for key, value in data.items():
            _check(key, depth + 1)
            _check(value, depth + 1)
    elif isinstance(data, list):
        for item in data:
            _check(item, depth + 1)
    elif isinstance(data, str) and any("\ud800" <= character <= "\udfff" for character in data):
        raise Refusal(422, [fault("half a surrogate pair is no character", "json_invalid")])


def written(data: Any, location: Location) -> str | None:
    """Return the number at ``location`` as it was written."""
    for part in location:
        data = data[part]
    return data.text if isinstance(data, Written) else str(data)


def refusal_of(error: ModakError) -> Refusal:
    """Return the answer for what the job model refuses: each problem at its field."""
    kind = "infeasible" if isinstance(error, InfeasibleError) else "value_error"
    return Refusal(422, [_fault(diagnostic, kind) for diagnostic in error.diagnostics])


def _fault(diagnostic: Diagnostic, kind: str) -> dict[str, Any]:
    text = str(diagnostic.at(Position("" if diagnostic.source == "request" else diagnostic.source), ()))
    path = diagnostic.path
    if diagnostic.code in _KINDS and (match := re.match(r"(?:unknown key|the key) '([^']+)'", diagnostic.message)):
        path, kind = (*path, match[1]), _KINDS[diagnostic.code]
    return fault(text, kind, "body", *path) if path else fault(text, kind)


def without_empty(value: Any) -> Any:
    """Return an answer without empty fields."""
    if isinstance(value, dict):
        pairs = ((key, without_empty(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not None and item not in ("", {}, [])}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value
