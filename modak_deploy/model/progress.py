"""``application.progress``: a regular expression that Python and every awk understand alike.

It is matched on the node, where there may be no Python, by the awk that is there. What is permitted is the part that
Python's ``re`` and POSIX's extended regular expressions have in common, with ``\\d``, ``\\w``, ``\\s`` and ``(?:...)``.
mawk before 1.3.4-20200717 has no ``{m,n}``.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \t"}
MOST = 400
"""Characters of a pattern."""


def pieces(pattern: str) -> list[str]:
    """Return the pattern as extended regular expressions: text, captured group, text, and so on.

    ValueError for a pattern that is not valid, or captures no unit number.
    """
    if "[[:" in pattern:
        raise ValueError("classes such as [:digit:] are not supported; use \\d, \\w and \\s")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"'{pattern[:80]}' is not a regular expression: {error}") from None
    parts = [""]
    depth = captured = position = 0
    while position < len(pattern):
        part = _token(pattern, position)
        following = position + len(part)
        position = following
        if part == "(" and depth == 0:
            captured = 1
            parts.append("")
        elif part == ")" and depth == 1 and captured:
            captured = 0
            parts.append("")
            if pattern[following : following + 1] in ("*", "+", "?", "{"):
                raise ValueError("a captured group must not be repeated")
        else:
            if part == "|" and depth == 0:
                raise ValueError("write alternatives as (?:A|B), not at the top level")
            parts[-1] += _translated(part)
        depth += part in ("(", "(?:")
        depth -= part == ")"
    if len(parts) not in (3, 5):
        raise ValueError("it needs one group that captures the unit's number, such as 'step (\\d+)', and at most "
                         "a second one that captures a result to compare, such as 'loss=([0-9.e+-]+)'")  # fmt: skip
    return parts


def _token(pattern: str, position: int) -> str:
    """Return the next part: a character, an escape, the start of a group or a whole bracket expression."""
    character = pattern[position]
    if character == "\\":
        return pattern[position : position + 2]
    if pattern.startswith("(?", position):
        if not pattern.startswith("(?:", position):
            raise ValueError(f"'{pattern[position : position + 3]}' is not supported; only (?:...) is")
        return "(?:"
    if character == "[":
        end = position + 1
        end += pattern.startswith("^", end)
        end += pattern.startswith("]", end)
        while pattern[end : end + 1] not in ("]", ""):
            end += 2 if pattern[end] == "\\" else 1
        return pattern[position : end + 1]
    return character


def _translated(part: str) -> str:
    if part == "(?:":
        return "("
    if part == "{":
        raise ValueError("'{' is not supported: write repetitions with '*', '+' or '?', and the character as '[{]'")
    if part.startswith("["):
        return re.sub(r"\\(.)", lambda match: _CLASSES.get(match[1], f"\\{match[1]}"), part)
    if part.startswith("\\"):
        if part[1] in _CLASSES:
            return f"[{_CLASSES[part[1]]}]"
        if part[1].isalnum():
            raise ValueError(f"'{part}' is not supported; \\d, \\w and \\s are")
    return part


def _check(pattern: str) -> str:
    if re.search(r"[*+?][*+?]", re.sub(r"\\.", "", re.sub(r"\[[^]]*\]", "", pattern))):
        raise ValueError("repetitions such as '*?' are not supported")
    pieces(pattern)
    return pattern


ProgressPattern = Annotated[
    str, StringConstraints(pattern=r"^[^\x00\r\n]*$", min_length=1, max_length=MOST), AfterValidator(_check)
]
"""A regular expression whose first group captures the unit's number, and whose second one, if any, a result."""
