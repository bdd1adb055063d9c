"""Numbers of rows that arguments hold, whatever framework takes rows of a table by them."""

from typing import Any, NamedTuple


class Rows(NamedTuple):
    """The numbers of rows that an argument may hold: from ``first`` on, below ``end``."""

    first: int
    end: int

    def check(self, array: Any) -> None:
        """Raise IndexError for an array that holds others; what is not a number is none of a row."""
        if array.size and not (array.min() > self.first - 1 and array.max() < self.end):
            raise IndexError("an argument holds numbers of rows that a table of {} has not".format(self.end))

    def both(self, other: "Rows") -> "Rows":
        """Return what is a number for two tables."""
        return Rows(max(self.first, other.first), min(self.end, other.end))
