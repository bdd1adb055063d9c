"""Rows as a table of Markdown, for all tables of the benchmarks and of the pages."""

from collections.abc import Sequence


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of as many cells each as a table, the first of them its head, with a line's end."""
    head, *rest = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *rest]) + "\n"
