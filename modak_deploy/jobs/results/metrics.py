"""The metrics file that an application writes: a JSON object, checked and bounded, since nobody else has checked it."""

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from modak_deploy.errors import JobError
from modak_deploy.terminal import excerpt, visible

MAX_BYTES = 8 * 1024 * 1024
MAX_VALUES = 100_000
MAX_DEPTH = 16
MAX_TEXT = 10_000
MAX_INTEGER = 2**64


def parse_metrics(data: bytes, origin: str) -> dict[str, Any]:
    """Return the metrics in the file ``origin``; JobError names the key that is not supported, and why."""

    def no_number(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a number in JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key '{excerpt(twice, 80)}' occurs more than once in an object")
        return values

    try:
        values = json.loads(data, parse_constant=no_number, object_pairs_hook=unique)
    except RecursionError:
        raise JobError(f"{origin}: nested too deeply; at most {MAX_DEPTH} levels are supported") from None
    except ValueError as error:
        raise JobError(f"{origin}: not valid JSON: {_reason(error)}") from None
    if not isinstance(values, dict):
        raise JobError(f"{origin}: a JSON {type(values).__name__}; it must be an object")
    for count, (key, value, depth) in enumerate(_walk(values)):
        if count >= MAX_VALUES:
            raise JobError(
                f"{origin}: more than {MAX_VALUES} values; write a long series to a file among application.outputs"
            )
        if problem := _problem(value, depth):
            raise JobError(f"{origin}: {excerpt(key, 120)}: {problem}")
    return values


def _walk(values: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield key, value and depth of everything, keys included; without recursion."""
    waiting: list[tuple[str, Any, int]] = [("", values, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        yield key or "the object", value, depth
        if depth > MAX_DEPTH:
            continue  # the caller stops here
        if isinstance(value, dict):
            for name, inner in value.items():
                yield f"{key}.{name}".lstrip("."), name, depth
                waiting.append((f"{key}.{name}".lstrip("."), inner, depth + 1))
        elif isinstance(value, list):
            waiting.extend((f"{key}[{at}]", inner, depth + 1) for at, inner in enumerate(value[: MAX_VALUES + 1]))


def _problem(value: Any, depth: int) -> str:
    """Return why a value, or a key, is not supported; empty where it is."""
    if depth > MAX_DEPTH:
        return f"nested too deeply; at most {MAX_DEPTH} levels are supported"
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            return f"a text of {len(value)} characters; at most {MAX_TEXT} are supported"
        if visible(value) != value:
            return f"'{excerpt(value, 80)}' holds control characters or halves of surrogate pairs; leave them out"
    elif isinstance(value, float) and not math.isfinite(value):
        return "a number that is too large"
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "a number that is too large; at most 2**64 is supported"
    return ""


def _reason(error: ValueError) -> str:
    """Return what is wrong with the text, without Python's own hints."""
    text = str(error)
    if "integer string conversion" in text:  # sys.set_int_max_str_digits
        return "a number with more than 4300 digits"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return excerpt(text)
