"""Completion by the shell: the names that an argument or option accepts."""

from collections.abc import Callable, Iterable
from contextlib import suppress


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the completion for values among ``names``, which is called only when the shell asks.

    A shell that completes has no place for messages: names that cannot be read, such as those of a file with an error,
    are left out.
    """

    def complete(incomplete: str) -> list[str]:
        matches = set()
        with suppress(Exception):
            for name in names():
                if name.startswith(incomplete):
                    matches.add(name)
        return sorted(matches)

    return complete
