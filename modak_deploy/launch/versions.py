"""Version conditions such as ``>=2.1,<3``, compared number by number; the packaging library may be absent."""

import re
from typing import Tuple

CONDITION = re.compile(r"(>=|<=|==|!=|>|<)\s*([0-9]+(?:\.[0-9]+)*)")


def release(version: str) -> Tuple[int, ...]:
    """Return the release numbers of a version: (2, 13, 0) for ``2.13.0+cpu``."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version.strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def satisfies(version: str, conditions: str) -> bool:
    """Tell whether a version fulfils all conditions; an empty text always is fulfilled."""
    own = release(version)
    for condition in filter(None, (part.strip() for part in conditions.split(","))):
        match = CONDITION.fullmatch(condition)
        if match is None:
            raise ValueError("{!r} is not a version condition".format(condition))
        if not own or not _holds(own, match.group(1), release(match.group(2))):
            return False
    return True


def _holds(own: Tuple[int, ...], operator: str, other: Tuple[int, ...]) -> bool:
    length = max(len(own), len(other))
    left = own + (0,) * (length - len(own))
    right = other + (0,) * (length - len(other))
    return {
        ">=": left >= right,
        "<=": left <= right,
        "==": left == right,
        "!=": left != right,
        ">": left > right,
        "<": left < right,
    }[operator]
