"""JSON of others, which may be anything: bounded, and every problem of it a diagnostic."""

import json
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel

from modak_deploy.documents.reading import read_text
from modak_deploy.documents.validation import check
from modak_deploy.errors import InputError

T = TypeVar("T", bound=BaseModel)


def read_model(path: Path, model: type[T]) -> T:
    """Return what a JSON file holds as ``model``; InputError names the file and each problem of it."""
    return check(model, parse_json(read_text(path), str(path)), origin=str(path))


def parse_json(text: str, origin: str, hint: str = "") -> Any:
    """Return what JSON text holds; InputError names ``origin`` and the ``hint``."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON: {error.msg}"
        raise InputError(problem, source=origin, line=error.lineno, hint=hint, code="json-syntax") from None
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}", source=origin, hint=hint, code="json-syntax") from None
    except RecursionError:
        raise InputError("the JSON is nested too deeply", source=origin, hint=hint, code="too-large") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _whole(text: str) -> int:
    # Python refuses to convert more than 4300 digits (CVE-2020-10735), and nothing here counts beyond 64 bits.
    if len(text) > 40:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)
