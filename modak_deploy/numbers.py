"""Numbers in text that a target or a registry sent: ASCII digits alone, and never more than one can work with.

``int`` takes the digits of all scripts, underscores and signs, and raises ValueError for more than 4300 of them;
``str.isdigit`` even says yes to '²', which ``int`` does not take.
"""

import re

LARGEST = 2**63 - 1


def digits(text: str, most: int = LARGEST) -> int | None:
    """Return the number that ``text`` is, None where it is none or above ``most``."""
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) and int(text) <= most else None


def size(value: object) -> int:
    """Return a size of a JSON document: a whole number from 0 on; ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    raise ValueError("a size is not a whole number")
