"""What the commands over measurements print."""

from collections.abc import Iterator
from datetime import date

from modak.errors import InputError
from modak.performance.places import store_address
from modak.performance.records import load_measurements, to_line
from modak.performance.store import Filter, Store


def check_date(option: str, text: str) -> None:
    """Raise InputError where the ``option``'s text is no date."""
    try:
        date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option}: '{text}' is no date: write it as 2026-01-31") from None


def export_lines(store: str | None, *, workload: str | None, shipped: bool) -> Iterator[str]:
    """Yield the records as lines of JSON."""
    if shipped:
        records = load_measurements().records
        yield from (to_line(r) for r in records if workload in (None, r.workload.model))
    elif store is not None or store_address() is not None:
        yield from (to_line(record) for _, record in Store(store, make=False).records(Filter(workload=workload)))


def list_lines(store: str | None, *, workload: str | None, shipped: bool) -> Iterator[str]:
    """Yield a line for each record: id, workload, hardware, configuration, date, source."""
    if shipped:
        holder = Store("sqlite://")
        holder.add(load_measurements().records)
    elif store is None and store_address() is None:
        return
    else:
        holder = Store(store, make=False)
    rows = holder.rows(Filter(workload=workload))
    cells = [(str(r.id) if not shipped else "-", r.workload, r.where, r.configuration, r.date, r.source) for r in rows]
    widths = [min(48, max((len(row[i]) for row in cells), default=0)) for i in range(6)]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
