"""A part of a batch: on its first rows a variant is tried before a whole unit is risked."""

from typing import Iterable, NamedTuple, Optional, Sequence

FEWEST = 4
"""Rows of a batch that has parts."""
SHARE = 8
"""Number of parts, of which the first is taken."""


class Part(NamedTuple):
    """The first rows of a batch."""

    rows: int
    batch: int

    @property
    def share(self) -> float:
        """Return its share of the batch."""
        return self.rows / self.batch


def first(shapes: Iterable[Sequence[int]]) -> Optional[Part]:
    """Return the part of a call with arguments of these shapes; None where they have no batch in common.

    What has a single row, or none, serves every row of the batch. That the rows are independent of one another is an
    assumption: results show whether it holds.
    """
    batches = {int(shape[0]) for shape in shapes if len(shape) and int(shape[0]) != 1}
    if len(batches) != 1:
        return None
    (batch,) = batches
    return Part(-(-batch // SHARE), batch) if batch >= FEWEST else None


def batched(shape: Sequence[int], part: Part) -> bool:
    """Tell whether a value of this shape has a row for each row of the batch."""
    return bool(len(shape)) and int(shape[0]) == part.batch
