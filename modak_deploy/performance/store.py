"""The measurement store: a database, SQLite on this machine by default, PostgreSQL by its address for a team."""

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.numbers import LARGEST
from modak_deploy.performance import derived
from modak_deploy.performance.matching import processor_of
from modak_deploy.performance.paths import default_path
from modak_deploy.performance.records import (
    IDENTITY,
    REMOVALS,
    origin_of,
    parse_rows,
    readable,
    to_line,
    version_of_sum,
)
from modak_deploy.performance.series import Identity, Observation, identity_of, read
from modak_deploy.performance.sqlitefile import LAYOUT, LONGEST_WAIT
from modak_deploy.performance.storedrows import columns_of, values_of

_MODULUS = 2**256
_MAKING = 0x6D6F64616B
"""Number of the lock under which tables are made."""
_Fresh = tuple[str, tuple[str, Measurement | Ratio]]
"""A record with its line, by the digest of it."""
_tables = sa.MetaData()
_measurement = sa.Table(
    "modak_measurement",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("workload", sa.String(64), nullable=False, index=True),
    sa.Column("type", sa.String(16), nullable=False),
    sa.Column("framework", sa.String(64)),
    sa.Column("dataset", sa.String(64)),
    sa.Column("microarchitecture", sa.String(64)),
    sa.Column("cpu_model", sa.Text),
    sa.Column("cores", sa.Integer),
    sa.Column("accelerator", sa.Text),
    sa.Column("runtime", sa.String(16), nullable=False),
    sa.Column("image", sa.String(64)),
    sa.Column("compiler", sa.String(64)),
    sa.Column("levers", sa.Text, nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False),
    sa.Column("ranks", sa.Integer, nullable=False),
    sa.Column("threads", sa.Integer),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("date", sa.String(10), nullable=False),
    sa.Column("added", sa.String(20), nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)
"""One record a row: what is asked for by columns, and the whole as its canonical JSON."""
_value = sa.Table(
    "modak_value",
    _tables,
    sa.Column("measurement", sa.ForeignKey("modak_measurement.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("phase", sa.String(8), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("load", sa.Float),
    sa.Column("time", sa.BigInteger),
)
"""Every single value: the phases are total, start, first and later; the last is numbered."""
_state = sa.Table(
    "modak_state",
    _tables,
    sa.Column("key", sa.String(16), primary_key=True),
    sa.Column("value", sa.String(64), nullable=False),
)
"""Layout of the tables, and the sum of the records' digests: the version of the whole without reading it."""


@dataclass(frozen=True)
class Filter:
    """Which measurements are meant; what is None does not matter."""

    ids: Sequence[int] | None = None
    workload: str | None = None
    source: str | None = None
    before: str | None = None
    """An ISO date: older ones."""

    def clauses(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions."""
        clauses: list[sa.ColumnElement[bool]] = []
        if self.ids is not None:
            # Of larger numbers, which no row has, sqlite3 raises OverflowError.
            clauses.append(_measurement.c.id.in_([number for number in self.ids if number <= LARGEST]))
        if self.workload is not None:
            clauses.append(_measurement.c.workload == self.workload)
        if self.source is not None:
            clauses.append(_measurement.c.source.contains(self.source, autoescape=True))
        if self.before is not None:
            clauses.append(_measurement.c.date < self.before)
        return clauses


@dataclass(frozen=True)
class Row:
    """A measurement in a list."""

    id: int
    workload: str
    where: str
    configuration: str
    date: str
    source: str


class Store:
    """Measurements in a database."""

    def __init__(self, url: str | None = None, *, make: bool = True) -> None:
        """Open the database at ``url``, SQLAlchemy's form; None is the SQLite file in the user's data folder.

        Tables are made where there are none; a file is made only where ``make`` says so. InputError when it cannot be
        opened or has another layout.
        """
        if url is None and make:
            path = default_path()
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"the measurement store {path} cannot be made: {error.strerror}") from None
        url = f"sqlite:///{default_path()}" if url is None else url
        try:
            self._engine = sa.create_engine(_with_driver(url), **_options(url))
            self.name = self._engine.url.render_as_string(hide_password=True)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            scheme, separator, _ = url.partition("://")  # what follows may have a password
            if not separator:
                shown = f"***@{url.rpartition('@')[2]}" if "@" in url else url
                raise InputError(f"the measurement store '{shown}' is not an address", hint=_FORMS) from None
            problem = f"the measurement store '{scheme}://..' cannot be opened: {_first(error)}"
            raise InputError(problem, hint=_FORMS) from None
        file = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and file and not make and not Path(file).exists():
            raise InputError(f"measurement store {file} not found")
        with self._begin() as connection:
            layout = self._layout(connection) or self._made(connection)
            if layout != LAYOUT:
                raise InputError(f"the measurement store {self.name} has layout {layout}, this modak knows {LAYOUT}")

    @staticmethod
    def _layout(connection: sa.Connection) -> str | None:
        if not sa.inspect(connection).has_table(_state.name):
            return None
        return connection.scalar(sa.select(_state.c.value).where(_state.c.key == "layout"))

    def _made(self, connection: sa.Connection) -> str:
        """Make the tables, unless another process has done so just now, and return their layout."""
        if self._engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        elif self._engine.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MAKING})
        _tables.create_all(connection)
        made = self._layout(connection)
        if made is None:
            connection.execute(
                sa.insert(_state),
                [
                    {"key": "layout", "value": LAYOUT},
                    {"key": "sum", "value": "0"},
                    {"key": IDENTITY, "value": secrets.token_hex(16)},
                ],
            )
        return made or LAYOUT

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                if self._engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                yield connection
        except SQLAlchemyError as error:
            raise InputError(f"the measurement store {self.name}: {_first(error)}") from None

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @property
    def version(self) -> str:
        """SHA-256 of all that it holds, whatever the order it came in."""
        with self._begin() as connection:
            return version_of_sum(self._sum(connection))

    @property
    def count(self) -> int:
        """How many records it holds."""
        with self._begin() as connection:
            return int(connection.scalar(sa.select(sa.func.count()).select_from(_measurement)) or 0)

    @property
    def origin(self) -> str:
        """SHA-256 of what tells the store from others, and of how often something was removed from it."""
        with self._begin() as connection:
            state = {str(row.key): row.value for row in connection.execute(sa.select(_state))}
        file = self._engine.url.database if self._engine.dialect.name == "sqlite" else None
        return origin_of(str(Path(file).absolute()) if file else self.name, state)

    def of_workload(self, model: str) -> Sequence[Measurement | Ratio]:
        """Return what is known of the workload named ``model``, in a stable order."""
        return [record for _, record in self.records(Filter(workload=model))]

    def evidence_of(self, model: str, present: Collection[str] = ()) -> Sequence[tuple[str, Observation]]:
        """See ``modak_deploy.performance.records.Measurements.evidence_of``."""
        with self._begin() as connection:
            # Several queries that must see the same moment: SQLite begins by itself only before it writes, and
            # PostgreSQL's default lets each statement see what was committed meanwhile.
            sqlite = self._engine.dialect.name == "sqlite"
            connection.exec_driver_sql("BEGIN" if sqlite else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return read(lambda sql, values: connection.execute(sa.text(sql), values).all(), model, present, self.name)

    def all_records(self) -> Sequence[Measurement | Ratio]:
        """Return everything, in a stable order."""
        return [record for _, record in self.records(Filter())]

    def records(self, which: Filter) -> list[tuple[int, Measurement | Ratio]]:
        """Return the records with their ids, ordered by content; InputError names one that does not hold water."""
        query = sa.select(_measurement.c.id, _measurement.c.document).where(*which.clauses())
        with self._begin() as connection:
            rows = [(row.id, row.document) for row in connection.execute(query)]
        return parse_rows(rows, self.name)

    def rows(self, which: Filter) -> list[Row]:
        """Return what a list shows, ordered by id."""
        c = _measurement.c
        with self._begin() as connection:
            selected = (
                connection.execute(sa.select(_measurement).where(*which.clauses()).order_by(c.id)).mappings().all()
            )
        return [
            Row(
                id=row["id"],
                workload=row["workload"],
                where=row["accelerator"] or processor_of(row["cores"], row["cpu_model"], row["microarchitecture"]),
                configuration=" ".join(w for w in (row["runtime"], row["image"], row["levers"]) if w),
                date=row["date"],
                source=row["source"],
            )
            for row in selected
        ]

    def add(self, records: Iterable[Measurement | Ratio]) -> tuple[int, int]:
        """Add ``records`` in one transaction; return how many were new and how many it had already."""
        lines = {hashlib.sha256(line.encode()).hexdigest(): (line, r) for r in records if (line := to_line(r))}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._begin() as connection:
            self._lock(connection)
            ready = derived.prepare(connection)
            stored = set(_in_parts(connection, list(lines)))
            fresh = {digest: pair for digest, pair in lines.items() if digest not in stored}
            before = _identities(connection, (record for _, record in fresh.values()), self.name)
            fresh = dict(_once(fresh.items(), before))
            pairs: list[tuple[int, Measurement | Ratio]] = []
            for digest, (line, record) in fresh.items():
                inserted = connection.execute(sa.insert(_measurement), columns_of(record, digest, line, now))
                key = inserted.inserted_primary_key
                pairs.append((key[0] if key else 0, record))
                values = list(values_of(record, pairs[-1][0]))
                if values:
                    connection.execute(sa.insert(_value), values)
            total = self._shift(connection, sum(int(digest, 16) for digest in fresh))
            if ready:
                derived.extend(connection, pairs)
                derived.mark(connection, total)
        return len(fresh), len(lines) - len(fresh)

    def forget(self, which: Filter) -> int:
        """Remove records; return how many. InputError, and none is removed, where one of the ids is not there."""
        c = _measurement.c
        with self._begin() as connection:
            self._lock(connection)
            ready = derived.prepare(connection)
            rows = connection.execute(sa.select(c.id, c.digest).where(*which.clauses()))
            selected = [(row.id, row.digest) for row in rows]
            if unknown := sorted(set(which.ids or []) - {number for number, _ in selected}):
                kind = " of that kind" if len(which.clauses()) > 1 else ""
                raise InputError(f"the measurement store {self.name} has no measurement {unknown[0]}{kind}")
            for start in range(0, len(selected), 500):
                ids = [number for number, _ in selected[start : start + 500]]
                connection.execute(sa.delete(_value).where(_value.c.measurement.in_(ids)))
                connection.execute(sa.delete(_measurement).where(c.id.in_(ids)))
            if selected:
                self._count_removal(connection)
            total = self._shift(connection, -sum(int(digest, 16) for _, digest in selected))
            if ready:
                derived.shrink(connection, [number for number, _ in selected])
                derived.mark(connection, total)
        return len(selected)

    @staticmethod
    def _count_removal(connection: sa.Connection) -> None:
        """Let models that were fitted before know that not all of what they learned is still there."""
        key = _state.c.key == REMOVALS
        before = connection.scalar(sa.select(_state.c.value).where(key))
        if before is None:
            connection.execute(sa.insert(_state), [{"key": REMOVALS, "value": "1"}])
        else:
            connection.execute(sa.update(_state).where(key).values(value=str(int(before) + 1)))

    def _lock(self, connection: sa.Connection) -> None:
        """Let one writer at a time pass: the sum, which must be there, must be that of the rows."""
        connection.execute(sa.update(_state).where(_state.c.key == "layout").values(value=LAYOUT))
        self._sum(connection)

    def _sum(self, connection: sa.Connection) -> str:
        """Return the sum of the records' digests, a hexadecimal number; InputError where the store has none."""
        total = str(connection.scalar(sa.select(_state.c.value).where(_state.c.key == "sum")))
        if not re.fullmatch(r"[0-9a-f]{1,64}", total):
            raise InputError(f"the measurement store {self.name} is damaged: its table {_state.name} has no 'sum'")
        return total

    def _shift(self, connection: sa.Connection, amount: int) -> str:
        value = f"{(int(self._sum(connection), 16) + amount) % _MODULUS:x}"
        connection.execute(sa.update(_state).where(_state.c.key == "sum").values(value=value))
        return value


def _once(records: Iterable[_Fresh], before: set[Identity]) -> Iterator[_Fresh]:
    """Yield the records of which none has the identity of one that is there, or of another of them."""
    seen = set(before)
    for digest, pair in records:
        identity = identity_of(pair[1])
        if identity is None or identity not in seen:
            yield digest, pair
        if identity is not None:
            seen.add(identity)


_FORMS = "write sqlite:///FILE, or postgresql://HOST/DATABASE, which needs: pip install 'modak-deploy[postgresql]'"


def _with_driver(url: str) -> str:
    """``postgresql://`` alone means the driver that modak names among its requirements."""
    for short in ("postgresql://", "postgres://"):
        if url.startswith(short):
            return "postgresql+psycopg://" + url.removeprefix(short)
    return url


def _options(url: str) -> dict[str, Any]:
    return {"connect_args": {"timeout": LONGEST_WAIT}} if url.startswith("sqlite:") else {}


def _first(error: BaseException) -> str:
    origin = getattr(error, "orig", None) or error
    lines = [line for line in str(origin).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _in_parts(connection: sa.Connection, digests: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(digests), 500):
        part = digests[start : start + 500]
        yield from connection.scalars(sa.select(_measurement.c.digest).where(_measurement.c.digest.in_(part)))


def _identities(connection: sa.Connection, records: Iterable[Measurement | Ratio], name: str) -> set[Identity]:
    """Return the identities of what is there from the jobs that ``records`` are of."""
    c, rows = _measurement.c, list[tuple[int, str]]()
    sources = sorted({record.provenance.source for record in records if identity_of(record) is not None})
    for start in range(0, len(sources), 500):
        query = sa.select(c.id, c.document).where(c.source.in_(sources[start : start + 500]))
        rows += [(row.id, row.document) for row in connection.execute(query)]
    return {identity for record in readable(rows, name) if (identity := identity_of(record)) is not None}
