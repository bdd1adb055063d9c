"""What the commands over measurements print."""

import json
import statistics
from collections.abc import Iterator
from datetime import date
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.performance.matching import whole_seconds
from modak_deploy.performance.paths import store_address
from modak_deploy.performance.records import load_measurements, to_line
from modak_deploy.performance.store import Filter, Store


def check_date(option: str, text: str) -> None:
    """Raise InputError where the ``option``'s text is no date in the form of the records, with which it is compared."""
    try:
        # From Python 3.11 on it reads 20260131 as well, before which all texts of that year come.
        if date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise InputError(f"{option}: '{text}' is not a date: write it as 2026-01-31")


def export_lines(store: str | None, *, workload: str | None, shipped: bool) -> Iterator[str]:
    """Yield the records as lines of JSON."""
    if shipped:
        records = load_measurements().records
        yield from (to_line(r) for r in records if workload in (None, r.workload.model))
    elif store is not None or store_address() is not None:
        yield from (to_line(record) for _, record in Store(store, make=False).records(Filter(workload=workload)))


def listed(store: str | None, *, workload: str | None, shipped: bool) -> list[dict[str, Any]]:
    """Return what a list shows of each record; ``id`` is None for those that modak ships."""
    if shipped:
        holder = Store("sqlite://")
        holder.add(load_measurements().records)
    elif store is None and store_address() is None:
        return []
    else:
        holder = Store(store, make=False)
    which = Filter(workload=workload)
    seconds = {number: seconds_of(record) for number, record in holder.records(which)}
    return [
        {
            "id": None if shipped else row.id,
            "workload": row.workload,
            "hardware": row.where,
            "configuration": row.configuration,
            "seconds": seconds.get(row.id),
            "date": row.date,
            "source": row.source,
        }
        for row in holder.rows(which)
    ]


def list_lines(store: str | None, *, workload: str | None, shipped: bool) -> Iterator[str]:
    """Yield a line for each record: id, workload, hardware, configuration, median seconds, date, source."""
    cells = [
        tuple(_cell(value) for value in entry.values()) for entry in listed(store, workload=workload, shipped=shipped)
    ]
    widths = [min(48, max((len(row[i]) for row in cells), default=0)) for i in range(7)]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g} s" if isinstance(value, float) else str(value)


def seconds_of(record: Measurement | Ratio) -> float | None:
    """Return the median seconds of a record's runs, or of what it summarises; None for a record of a ratio."""
    if isinstance(record, Ratio):
        return None
    if record.runs:
        return statistics.median(whole_seconds(run, record) for run in record.runs)
    return None if record.summary is None else record.summary.mean


def show_lines(store: str | None, ids: list[int]) -> list[str]:
    """Return the records of these ids as JSON, for people; InputError for one that is not in the store."""
    matches = (
        {} if store is None and store_address() is None else dict(Store(store, make=False).records(Filter(ids=ids)))
    )
    if missing := [number for number in ids if number not in matches]:
        raise InputError(f"no measurement has the id {missing[0]}", hint="'modak measurements list' shows the ids")
    return [json.dumps(json.loads(to_line(matches[number])), indent=2, ensure_ascii=False) for number in ids]
