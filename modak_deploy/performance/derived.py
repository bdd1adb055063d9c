"""The tables of series in a database: made of the records, kept with them, and made again where they do not agree.

A modak that does not know these tables leaves them as they are and changes the sum of the records' digests. They are
therefore read only where they were made for the sum that there is; else the records are, and the next writer makes
the tables again. So nothing has to be migrated before it can be read, nor by anybody at a certain time.
"""

from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.performance.series import MADE_FOR, Entry, entry_of, key_of, parse

_tables = sa.MetaData()
_series = sa.Table(
    "modak_series",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(128), nullable=False, unique=True),
    sa.Column("workload", sa.String(64), nullable=False, index=True),
    sa.Column("records", sa.Integer, nullable=False),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("mean", sa.Double, nullable=False),
    sa.Column("squares", sa.Double, nullable=False),
    sa.Column("first_date", sa.String(10), nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)
"""What the records of each configuration amount to; the document is empty for those of a workload that are in none."""
_member = sa.Table(
    "modak_member",
    _tables,
    sa.Column("measurement", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("series", sa.Integer, nullable=False, index=True),
)
"""Which record counts where."""
_measurement = sa.table("modak_measurement", sa.column("id"), sa.column("document"))
_state = sa.table("modak_state", sa.column("key"), sa.column("value"))
_SINGLE = "single "
"""Begins the digest of the row for records that are in no series, before the name of their workload."""
_PART = 500
Pair = tuple[int, Measurement | Ratio]


def prepare(connection: sa.Connection) -> bool:
    """Make tables and content where they are not there or not current; False where this user may not.

    The caller holds the lock of writers.
    """
    if not sa.inspect(connection).has_table(_member.name):
        try:
            with connection.begin_nested():
                _tables.create_all(connection)
        except DBAPIError:  # the right to write rows is not that to make tables
            return False
    state = {row.key: row.value for row in connection.execute(sa.select(_state.c.key, _state.c.value))}
    if state.get(MADE_FOR) != state["sum"]:
        connection.execute(sa.delete(_member))
        connection.execute(sa.delete(_series))
        rows = connection.execute(sa.select(_measurement.c.id, _measurement.c.document)).all()
        for start in range(0, len(rows), 10 * _PART):
            part = rows[start : start + 10 * _PART]
            extend(connection, [(row.id, parse(row.document, f"measurement {row.id}")) for row in part])
    return True


def extend(connection: sa.Connection, pairs: Iterable[Pair]) -> None:
    """Take records in, each with its id."""
    groups: dict[str, list[Pair]] = {}
    for number, record in pairs:
        groups.setdefault(key_of(record) or f"{_SINGLE}{record.workload.model}", []).append((number, record))
    for digest, members in groups.items():
        _extend(connection, digest, members)


def _extend(connection: sa.Connection, digest: str, members: Sequence[Pair]) -> None:
    fresh = _entry(digest, [record for _, record in members])
    before = connection.execute(sa.select(_series).where(_series.c.digest == digest)).mappings().one_or_none()
    if before is None:
        values = {"digest": digest, "workload": members[0][1].workload.model, **vars(fresh)}
        inserted = connection.execute(sa.insert(_series), values).inserted_primary_key
        number = inserted[0] if inserted else 0
    else:
        number = before["id"]
        old = Entry(**{name: before[name] for name in vars(fresh)})
        whole = old.joined(fresh) if fresh.document else old.counting(fresh.records)
        connection.execute(sa.update(_series).where(_series.c.id == number).values(**vars(whole)))
    connection.execute(
        sa.insert(_member), [{"measurement": measurement, "series": number} for measurement, _ in members]
    )


def _entry(digest: str, records: Sequence[Measurement | Ratio]) -> Entry:
    if digest.startswith(_SINGLE):
        return Entry(records=len(records), runs=0, mean=0.0, squares=0.0, first_date="", document="")
    return entry_of([record for record in records if isinstance(record, Measurement)])


def shrink(connection: sa.Connection, gone: Sequence[int]) -> None:
    """Take out the records with these ids, which the caller has removed already."""
    touched: set[int] = set()
    for part in _parts(gone):
        touched |= set(connection.scalars(sa.select(_member.c.series).where(_member.c.measurement.in_(part))))
        connection.execute(sa.delete(_member).where(_member.c.measurement.in_(part)))
    for number in sorted(touched):
        left = connection.execute(
            sa.select(_measurement.c.id, _measurement.c.document)
            .join(_member, _member.c.measurement == _measurement.c.id)
            .where(_member.c.series == number)
        ).all()
        if not left:
            connection.execute(sa.delete(_series).where(_series.c.id == number))
            continue
        digest = str(connection.scalar(sa.select(_series.c.digest).where(_series.c.id == number)))
        whole = _entry(digest, [parse(row.document, f"measurement {row.id}") for row in left])
        connection.execute(sa.update(_series).where(_series.c.id == number).values(**vars(whole)))


def mark(connection: sa.Connection, total: str) -> None:
    """Note that the tables were made for the records with this sum."""
    changed = connection.execute(sa.update(_state).where(_state.c.key == MADE_FOR).values(value=total))
    if not changed.rowcount:
        connection.execute(sa.insert(_state), {"key": MADE_FOR, "value": total})


def _parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _PART):
        yield numbers[start : start + _PART]
