"""Checks of the values that a target reports, for whoever parses them: each bounded, each without control characters.

A target is not trusted. Its values become arguments of commands, paths and lines on a terminal.
"""

import re

from modak_deploy.errors import TargetError
from modak_deploy.terminal import UNSAFE, excerpt, visible

MAX_PATH = 4096
"""PATH_MAX of Linux, in bytes."""
MAX_INTEGER = 2**63 - 1
MAX_TIME = 4102444800.0
"""2100-01-01: a clock beyond it is not set."""
# What schedulers use: 1234, 1234_5, 1234[].server.example, 1234.server@other, and the process scheduler's PID-START.
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\]@:-]{0,254}")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,252}")
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def plain(text: str) -> str:
    """Return what a command printed, with U+FFFD for what no parser of ours expects.

    That is: control characters but tab and line feed, bytes that are not UTF-8, digits other than 0 to 9 (int() refuses
    some for which isdigit() is true, such as a superscript two), and numbers of 20 digits and more (int() refuses more
    than 4300).
    """
    text = UNSAFE.sub("\ufffd", text.replace("\r\n", "\n"))
    if not text.isascii():
        text = "".join("\ufffd" if char > "\x7f" and char.isdigit() else char for char in text)
    return re.sub(r"[0-9]{20,}", "\ufffd", text)


def has_control(text: str) -> bool:
    """Return whether ``text`` holds a line break, another control character, or bytes that are not UTF-8."""
    return visible(text) != text or "\n" in text or "\t" in text


def absolute_path(text: str, what: str) -> str:
    """Return a path that is absolute, plain and short enough; TargetError names ``what`` it should be."""
    if not text.startswith("/") or has_control(text) or len(text.encode()) > MAX_PATH:
        raise TargetError(f"the target reports {what} that is not supported: '{excerpt(text)}'; it must be {_PATH}")
    if any(part in ("..", ".") for part in text.split("/")):
        raise TargetError(f"the target reports {what} that is not supported: '{excerpt(text)}'; it must be {_PATH}")
    return text


_PATH = "an absolute path without control characters and '..'"


def job_id(text: str) -> str:
    """Return the id of a job."""
    return _matching(_JOB_ID, text, "job id")


def is_host_name(text: str) -> bool:
    """Return whether ``text`` can be the name or address of a host."""
    return _HOST.fullmatch(text) is not None


def host_name(text: str) -> str:
    """Return the name or address of a host."""
    return _matching(_HOST, text, "host name")


def token(text: str, what: str) -> str:
    """Return a short word such as a tag."""
    return _matching(_TOKEN, text, what)


def integer(text: str, what: str, *, least: int = 0, most: int = MAX_INTEGER) -> int:
    """Return the decimal number ``text``, with white space around it, from ``least`` to ``most``."""
    plain = text.strip()
    # int() takes digits of all scripts and underscores, and refuses more than 4300 of them with a ValueError.
    if re.fullmatch(r"-?[0-9]{1,20}", plain) and least <= int(plain) <= most:
        return int(plain)
    raise TargetError(f"the target reports a {what} that is not valid: '{excerpt(text)}'")


def time(text: str, what: str = "time") -> float:
    """Return seconds since the epoch."""
    plain = text.strip()
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", plain) and float(plain) <= MAX_TIME:
        return float(plain)
    raise TargetError(f"the target reports a {what} that is not valid: '{excerpt(text)}'")


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    if pattern.fullmatch(text) is None:
        raise TargetError(f"the target reports a {what} that is not valid: '{excerpt(text)}'")
    return text
