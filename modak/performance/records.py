"""Measurement files: one JSON record on each line, checked as they are read."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from modak.catalogue.catalogue import DATA
from modak.documents import read_text
from modak.documents.faults import fault_lines
from modak.errors import InputError
from modak.model.measurement import Measurement

SHIPPED = DATA / "measurements"


class Measurements(Protocol):
    """Where measurements come from; a store or a table in memory."""

    @property
    def version(self) -> str:
        """SHA-256 of all that it holds, whatever the order."""
        ...

    def of_workload(self, model: str) -> Sequence[Measurement]:
        """Return the measurements of the workload named ``model``, in a stable order."""
        ...


class Table:
    """Measurements in memory, by the name of their workload."""

    def __init__(self, records: Iterable[Measurement]) -> None:
        self.records = sorted(records, key=lambda record: record.model_dump_json(by_alias=True))
        self._by_model: dict[str, list[Measurement]] = {}
        digest = hashlib.sha256()
        for record in self.records:
            self._by_model.setdefault(str(record.workload.model), []).append(record)
            digest.update(to_line(record).encode())
        self._version = digest.hexdigest()

    @property
    def version(self) -> str:
        """SHA-256 of all records, whatever the order they came in."""
        return self._version

    def of_workload(self, model: str) -> Sequence[Measurement]:
        """Return the measurements of the workload named ``model``, in a stable order."""
        return self._by_model.get(model, [])


def to_line(record: Measurement) -> str:
    """Return the record as one line of canonical JSON, what is absent left out."""
    data = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(data, sort_keys=True, ensure_ascii=False) + "\n"


def read_records(path: Path) -> list[Measurement]:
    """Return the records of a ``.jsonl`` file; InputError lists every fault as ``file:line: place: what is wrong``."""
    records: list[Measurement] = []
    faults: list[str] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            records.append(Measurement.model_validate_json(line))
        except ValidationError as error:
            faults += fault_lines(error, Measurement, origin=f"{path}:{number}")
    if faults:
        raise InputError("\n".join(faults))
    if not records:
        raise InputError(f"{path}: the file holds no measurement")
    return records


def load_measurements(files: Sequence[Path] = ()) -> Table:
    """Return the shipped measurements together with those of ``files``."""
    if not files:
        return _shipped()
    return Table([*_shipped().records, *(record for path in files for record in read_records(path))])


@cache
def _shipped() -> Table:
    return Table([record for path in sorted(SHIPPED.glob("*.jsonl")) for record in read_records(path)])
