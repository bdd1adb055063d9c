"""Numbers as a report shows them."""

import math
from collections.abc import Sequence

from modak_deploy.util.text import significant

TIMES = "\N{MULTIPLICATION SIGN}"
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def seconds(value: float | None) -> str:
    """Return a duration with three digits, in the unit that reads best."""
    if value is None:
        return "unknown"
    if value < 1e-9:
        return "0 s"
    if value < 1e-3:
        return f"{significant(value * 1e6)} µs"
    if value < 1:
        return f"{significant(value * 1e3)} ms"
    if value < 180:
        return f"{significant(value)} s"
    if value < 3 * 3600:
        return f"{significant(value / 60)} min"
    return f"{significant(value / 3600)} h" if value < 72 * 3600 else f"{significant(value / 86400)} d"


def times(value: float) -> str:
    """Return a ratio of speeds."""
    return f"{_ratio(value)} {TIMES}"


def between(low: float, high: float) -> str:
    """Return an interval of ratios."""
    return f"{_ratio(low)} to {_ratio(high)}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if 0.1 <= value < 10 else significant(value, 2 if value < 0.1 else 3)


def number(value: float) -> str:
    """Return three digits of a number, without an exponent."""
    return significant(value) if value < 999.5 else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def sentence(text: str) -> str:
    """Return a clause as a sentence."""
    shown = text[:1].upper() + text[1:]
    return shown if shown.endswith((".", "!", "?")) else f"{shown}."


def percent(value: float, *, signed: bool = False) -> str:
    """Return a share or a change."""
    shown = f"{value * 100:+.1f} %" if signed else f"{significant(value * 100)} %"
    return shown.replace("-", "\N{MINUS SIGN}")


def size(value: float) -> str:
    """Return an amount of memory."""
    power = min(int(math.log(max(value, 1), 1024)), len(_BINARY) - 1)
    return f"{significant(value / 1024**power)} {_BINARY[power]}"


def levers(names: Sequence[str]) -> str:
    """Return the name of a set of levers."""
    return " + ".join(names) or "no lever"
