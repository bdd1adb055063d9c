"""Measurement files: one JSON record on each line, checked as they are read."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from modak_deploy.catalogue.catalogue import DATA
from modak_deploy.diagnostics import Diagnostic, Position
from modak_deploy.documents import read_text
from modak_deploy.documents.validation import diagnostics_of
from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio, Record
from modak_deploy.performance.paths import store_address
from modak_deploy.performance.series import Observation, fold, key_of, parse

_ADAPTER: TypeAdapter[Measurement | Ratio] = TypeAdapter(Record)
_MOST_PROBLEMS = 20
SHIPPED = DATA / "measurements"
IDENTITY, REMOVALS = "identity", "removals"
"""Keys of a store's state: what tells it from others, and how often something was removed from it."""


class Measurements(Protocol):
    """Where measurements come from; a store or a table in memory."""

    @property
    def version(self) -> str:
        """SHA-256 of all that it holds, whatever the order."""
        ...

    @property
    def count(self) -> int:
        """How many records it holds; what two parts of it hold may count twice."""
        ...

    @property
    def origin(self) -> str:
        """SHA-256 of where the records come from: while it is the same, some may have been added, and none removed."""
        ...

    def of_workload(self, model: str) -> Sequence[Measurement | Ratio]:
        """Return what is known of the workload named ``model``, in a stable order."""
        ...

    def evidence_of(self, model: str, excluded: Collection[str] = ()) -> Sequence[tuple[str, Observation]]:
        """Return what a decision needs to know of the workload named ``model``, each with its content, sorted by it.

        Many records of one configuration may come as one series. Of the records of jobs those whose digests are
        ``excluded`` are left out.
        """
        ...

    def all_records(self) -> Sequence[Measurement | Ratio]:
        """Return everything, in a stable order."""
        ...


class Table:
    """Measurements in memory, by the name of their workload."""

    def __init__(self, records: Iterable[Measurement | Ratio]) -> None:
        self._parsed: dict[str, Measurement | Ratio] = {}
        models = []
        for record in records:
            line = to_line(record).rstrip("\n")
            self._parsed[line] = record
            models.append((line, str(record.workload.model)))
        self._index(models)

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> "Table":
        """Return the table of records in canonical JSON, each of which is checked when it is first asked for."""
        table = cls([])
        table._index((line, str(json.loads(line)["workload"]["model"])) for line in lines)
        return table

    def _index(self, models: Iterable[tuple[str, str]]) -> None:
        """Take the lines in, each with the name of its workload."""
        self._by_model: dict[str, list[str]] = {}
        self._lines: list[str] = []
        self._folded: dict[str, Sequence[tuple[str, Observation]]] = {}
        digest = hashlib.sha256()
        for line, model in sorted(models):
            self._lines.append(line)
            self._by_model.setdefault(model, []).append(line)
            digest.update(f"{line}\n".encode())
        self._version = digest.hexdigest()

    def _record(self, line: str) -> Measurement | Ratio:
        if line not in self._parsed:
            self._parsed[line] = _ADAPTER.validate_json(line)
        return self._parsed[line]

    @property
    def version(self) -> str:
        """SHA-256 of all records, whatever the order they came in."""
        return self._version

    @property
    def count(self) -> int:
        """How many records it holds."""
        return len(self._lines)

    @property
    def origin(self) -> str:
        """SHA-256 of all records: a table never changes."""
        return self._version

    def of_workload(self, model: str) -> Sequence[Measurement | Ratio]:
        """Return what is known of the workload named ``model``, in a stable order."""
        return [self._record(line) for line in self._by_model.get(model, [])]

    def evidence_of(self, model: str, excluded: Collection[str] = ()) -> Sequence[tuple[str, Observation]]:
        """See ``Measurements.evidence_of``; the series are made when a workload is first asked for."""
        if excluded:
            return fold(self.singles_of(model, excluded))
        if model not in self._folded:
            self._folded[model] = fold(self.singles_of(model))
        return self._folded[model]

    def singles_of(self, model: str, excluded: Collection[str] = ()) -> Sequence[tuple[str, Measurement | Ratio]]:
        """Return the same record by record."""
        lines = self._by_model.get(model, [])
        return [(line, self._record(line)) for line in lines if not excluded or digest_of(line) not in excluded]

    @property
    def records(self) -> list[Measurement | Ratio]:
        """Everything, in a stable order."""
        return [self._record(line) for line in self._lines]

    def all_records(self) -> Sequence[Measurement | Ratio]:
        """Return everything, in a stable order."""
        return self.records


def to_line(record: Measurement | Ratio) -> str:
    """Return the record as one line of canonical JSON, what is absent left out."""
    data = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(data, sort_keys=True, ensure_ascii=False) + "\n"


def read_records(path: Path) -> list[Measurement | Ratio]:
    """Return the records of a ``.jsonl`` file; InputError lists every fault as ``file:line: place: what is wrong``."""
    records: list[Measurement | Ratio] = []
    diagnostics: list[Diagnostic] = []
    # Not splitlines(): it takes U+2028 and others, which JSON has in its texts as they are, for the ends of lines.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            _check_keys(line, Position(str(path), number))
            records.append(_ADAPTER.validate_json(line))
        except ValidationError as error:
            diagnostics += _diagnostics(error, line, Position(str(path), number))
    if diagnostics:
        rest = len(diagnostics) - _MOST_PROBLEMS
        more = [Diagnostic(f"and {rest} more problems", source=str(path))] if rest > 0 else []
        raise InputError([*diagnostics[:_MOST_PROBLEMS], *more])
    if not records:
        raise InputError(f"{path}: the file holds no measurement")
    return records


def _check_keys(line: str, position: Position) -> None:
    """Raise InputError for a key that stands twice, of which JSON readers take the last; other faults come later."""

    def check_pairs(pairs: list[tuple[str, Any]]) -> None:
        seen = Counter(key for key, _ in pairs)
        if twice := next((key for key, times in seen.items() if times > 1), None):
            text = f"the key '{twice}' appears twice in one mapping"
            raise InputError(text, source=position.source, line=position.line, code="duplicate-key")

    with suppress(json.JSONDecodeError, RecursionError):
        # Numbers stay text: Python converts none of more than 4300 digits (CVE-2020-10735).
        json.loads(line, object_pairs_hook=check_pairs, parse_int=str)


def _diagnostics(error: ValidationError, line: str, position: Position) -> list[Diagnostic]:
    """Return one diagnostic for every problem; without a valid 'schema' only that one."""
    first = error.errors()[0]
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        text = "must be 'modak.measurement/1' or 'modak.ratio/1'"
        return [Diagnostic(text, "not-a-choice", ("schema",), position.source, position.line)]
    for model in (Measurement, Ratio):
        try:
            model.model_validate_json(line)
        except ValidationError as own:
            if not any(details["loc"] == ("schema",) for details in own.errors()):
                return diagnostics_of(own, model, origin="", locate=lambda _: position)
    text = f"{str(first['msg'])[0].lower()}{str(first['msg'])[1:]}"
    return [Diagnostic(text, "json-syntax", (), position.source, position.line)]


def parse_rows(rows: Iterable[Sequence[Any]], name: str) -> list[tuple[int, Measurement | Ratio]]:
    """Return the records of ``rows`` of id and document from the store ``name``, ordered by content.

    InputError names one that does not hold water.
    """
    ordered = sorted(rows, key=lambda row: str(row[1]))
    return [(number, parse(document, f"measurement {number} of {name}")) for number, document in ordered]


def readable(rows: Iterable[Sequence[Any]], name: str) -> Iterator[Measurement | Ratio]:
    """Yield the records of ``rows`` that this version can read; whoever needs those of a later one is told of them."""
    for row in rows:
        with suppress(InputError):
            yield from (record for _, record in parse_rows([row], name))


def origin_of(address: str, state: Mapping[str, object]) -> str:
    """Return the origin of a store by its ``state``; of one that was made by an older modak its ``address`` counts."""
    return hashlib.sha256(f"{state.get(IDENTITY, address)} {state.get(REMOVALS, 0)}".encode()).hexdigest()


def version_of_sum(total: str) -> str:
    """Return the version of a store by the sum of its records' digests."""
    return hashlib.sha256(total.encode()).hexdigest()


def load_measurements(files: Sequence[Path] = ()) -> Table:
    """Return the shipped measurements together with those of ``files``."""
    if not files:
        return _shipped()
    return Table([*_shipped().records, *(record for path in files for record in read_records(path))])


class Together:
    """Measurements of several places as one; a record that is in two of them counts once."""

    def __init__(self, parts: Sequence[Measurements]) -> None:
        self._parts = parts

    @property
    def version(self) -> str:
        """SHA-256 over the versions of the parts."""
        return hashlib.sha256(" ".join(part.version for part in self._parts).encode()).hexdigest()

    @property
    def count(self) -> int:
        """How many records the parts hold."""
        return sum(part.count for part in self._parts)

    @property
    def origin(self) -> str:
        """SHA-256 over the origins of the parts."""
        return hashlib.sha256(" ".join(part.origin for part in self._parts).encode()).hexdigest()

    def of_workload(self, model: str) -> Sequence[Measurement | Ratio]:
        """Return what is known of the workload named ``model``, in a stable order."""
        return _once(record for part in self._parts for record in part.of_workload(model))

    def evidence_of(self, model: str, excluded: Collection[str] = ()) -> Sequence[tuple[str, Observation]]:
        """See ``Measurements.evidence_of``."""
        merged: dict[str, Observation] = {}
        for part in self._parts:
            before = {
                digest_of(line) for line, record in merged.items() if isinstance(record, Measurement) and key_of(record)
            }
            # A later part may have some of a series: only one that comes last can tell of what it holds as series.
            ask = part.singles_of if isinstance(part, Table) else part.evidence_of
            merged.update(ask(model, {*excluded, *before}))
        return sorted(merged.items())

    def all_records(self) -> Sequence[Measurement | Ratio]:
        """Return everything, in a stable order."""
        return _once(record for part in self._parts for record in part.all_records())


def digest_of(document: str) -> str:
    """Return the SHA-256 by which a store knows the record that is this canonical JSON, without the line's end."""
    return hashlib.sha256(f"{document}\n".encode()).hexdigest()


def _once(records: Iterable[Measurement | Ratio]) -> list[Measurement | Ratio]:
    by_line = {to_line(record): record for record in records}
    return [by_line[line] for line in sorted(by_line)]


def available_measurements() -> Measurements:
    """Return the shipped measurements together with those of the store in use, if there is one."""
    address = store_address()
    if address is None:
        return load_measurements()
    from modak_deploy.performance.sqlitefile import SqliteFile, can_read

    if can_read(address):
        return Together([load_measurements(), SqliteFile(address)])
    from modak_deploy.performance.store import Store

    return Together([load_measurements(), Store(address)])


@cache
def _shipped() -> Table:
    # As they stand: tests/unit/performance holds the files to canonical JSON that passes the checks of a file.
    texts = (path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.jsonl")))
    return Table.of_lines(line for text in texts for line in text.split("\n") if line)
