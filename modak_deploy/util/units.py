"""Durations and sizes as schedulers print and read them; None for text that is neither."""

import re

_CLOCK = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15})(\.[0-9]{1,9})?([kmgt]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def clock(seconds: int) -> str:
    """Return ``H:MM:SS``, hours without a limit, for a number of seconds."""
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def seconds_of(text: str) -> int | None:
    """Return seconds for ``[D-][H:]MM:SS`` or plain seconds; None for anything else, such as UNLIMITED."""
    if match := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return int(text) if re.fullmatch(r"\d{1,12}", text.strip(), re.ASCII) else None


def size_of(text: str) -> int | None:
    """Return the bytes of ``24684096kb``, ``23.5G`` or ``512M``; units are powers of 1024, none counts bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    whole, fraction, unit = match.groups()
    power: int = 1024 ** _POWERS[unit.lower()]
    return int(whole) * power + int(float(fraction or 0) * power)


def mebibytes(size: int) -> int:
    """Return the size in MiB, rounded up."""
    return -(-size // 1024**2)


def kibibytes(size: int) -> int:
    """Return the size in KiB, rounded up."""
    return -(-size // 1024)


def gib(size: int) -> str:
    """Return the size in GiB as a message shows it."""
    amount = size / 1024**3
    return f"{amount:.3g} GiB" if amount < 1000 else f"{amount:.0f} GiB"
