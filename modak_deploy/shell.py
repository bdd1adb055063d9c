"""The one place where values become words of a POSIX shell command."""

import shlex
from collections.abc import Iterable

from modak_deploy.errors import InputError


def quote(value: str) -> str:
    """Return ``value`` as one literal shell word; InputError when it holds NUL, which no command line can carry."""
    if "\0" in value:
        raise InputError(f"{value!r} holds a NUL character, which no command line can carry: leave it out")
    return shlex.quote(value)


def join(argv: Iterable[str]) -> str:
    """Return ``argv`` as one shell command of literal words."""
    return " ".join(quote(argument) for argument in argv)


_HARMLESS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./,:;=+@#%^&|*?~()[]{}<>")


def enclose(script: str) -> str:
    """Return ``script`` as one line that every login shell, csh and fish too, hands to ``/bin/sh`` unchanged.

    What follows ``ssh HOST`` is read by the user's login shell first. Line breaks, ``!``, quotes and backslashes mean
    different things there even between quotes, so those bytes travel as octal numbers.
    """
    if "\0" in script:
        raise InputError("a script holds a NUL character, which no command line can carry: leave it out")
    data = script.encode("utf-8", "surrogateescape")
    text = "".join(chr(byte) if byte in _HARMLESS else f"\\0{byte:03o}" for byte in data)
    return f"""/bin/sh -c 'eval "$(printf %b "{text}")"'"""
