"""The one place where values become words of a POSIX shell command."""

import shlex
from collections.abc import Iterable

from modak.errors import InputError


def quote(value: str) -> str:
    """Return ``value`` as one literal shell word; InputError when it holds NUL, which no command line can carry."""
    if "\0" in value:
        raise InputError(f"{value!r} holds a NUL character, which no command line can carry: leave it out")
    return shlex.quote(value)


def join(argv: Iterable[str]) -> str:
    """Return ``argv`` as one shell command of literal words."""
    return " ".join(quote(word) for word in argv)
