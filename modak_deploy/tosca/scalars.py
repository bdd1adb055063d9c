"""Amounts with the units that TOSCA defines."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

_SCALAR = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]+)")
UNITS: Mapping[str, Mapping[str, Fraction]] = {
    "scalar-unit.size": {
        unit: Fraction(base**power)
        for power, letter in enumerate("kMGT", 1)
        for unit, base in ((f"{letter}B", 1000), (f"{letter.upper()}iB", 1024))
    }
    | {"B": Fraction(1)},
    "scalar-unit.time": {
        "d": Fraction(86400),
        "h": Fraction(3600),
        "m": Fraction(60),
        "s": Fraction(1),
        "ms": Fraction(1, 1000),
        "us": Fraction(1, 10**6),
        "ns": Fraction(1, 10**9),
    },
    "scalar-unit.frequency": {unit: Fraction(1000**power) for power, unit in enumerate(("Hz", "kHz", "MHz", "GHz"))},
    "scalar-unit.bitrate": {
        unit: Fraction(factor * base**power)
        for factor, end in ((1, "bps"), (8, "Bps"))
        for power, letter in enumerate(("", "K", "M", "G", "T"))
        for unit, base in ((letter + end, 1000), (letter + "i" + end if letter else end, 1024))
    },
}
"""The units of each kind of scalar, in bytes, seconds, hertz and bits per second."""


def amount(value: Any, kind: str) -> Fraction | None:
    """Return the amount of ``4 GB`` or ``30 m`` in the kind's base unit; None when the text is no such amount."""
    match = _SCALAR.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    units = UNITS[kind]
    # TOSCA compares units without regard to case, which would make bps and Bps one: a unit as it is goes first.
    factor = units.get(match["unit"]) or next((f for u, f in units.items() if u.lower() == match["unit"].lower()), None)
    return None if factor is None else Fraction(match["amount"]) * factor
