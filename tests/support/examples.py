"""How many examples a test is tried on: a fifth of them in ``make test``, all in ``make test-long``."""

import os

ALL = os.environ.get("MODAK_EXAMPLES") == "all"


def examples(number: int) -> int:
    """Return how many of so many examples are taken here."""
    return number if ALL else max(10, number // 5)
