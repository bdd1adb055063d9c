"""Text for messages: nearest matches and plurals."""

import difflib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

_LEAST, _MOST = 1e-9, 1e9
"""Between which a number is written without an exponent: beyond, its zeros are more than can be read."""


def close_match(name: str, candidates: Iterable[str], *, cutoff: float = 0.6, prefix: int = 3) -> str | None:
    """Return the candidate that ``name`` is most likely meant to be, None where none is close; case does not matter.

    A name of ``prefix`` characters or more is close to a candidate that begins with it, too.
    """
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    lower = name.lower()
    close = difflib.get_close_matches(lower, by_lower, 1, cutoff)
    close = close or [other for other in by_lower if len(name) >= prefix and other.startswith(lower)]
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` with the closest candidate, or an empty text when none is close."""
    close = close_match(name, candidates)
    return f"did you mean '{close}'?" if close else ""


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the closest candidate, or an empty text when none is close."""
    hint = did_you_mean(name, candidates)
    return f"; {hint}" if hint else ""


def plural(number: int, noun: str) -> str:
    """Return the number with its noun: ``1 core``, ``2 cores``, ``2 batches``."""
    sibilant = noun.endswith(("ch", "sh", "s", "x")) and not noun.endswith("epoch")
    end = "" if number == 1 else "es" if sibilant else "s"
    return f"{number} {noun}{end}"


def significant(value: float, digits: int = 3) -> str:
    """Return so many digits of a number, without the exponent that Python writes from 1000 on, as of 1010 MiB."""
    shown = f"{value:.{digits}g}"
    return format(Decimal(shown), "f") if _LEAST < abs(value) < _MOST else shown


def either(names: Iterable[str]) -> str:
    """Return ``a``, ``a or b`` or ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def in_yaml(value: Any) -> str | None:
    """Return what YAML calls a value that Python writes otherwise; None for numbers, text and others."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return None
