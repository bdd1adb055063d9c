"""The measurement store in an SQLite file, to read from.

A plan asks it for its version and one workload. To start SQLAlchemy for that would take a third of the plan's time.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import get_ident
from urllib.parse import quote
from weakref import finalize

from modak_deploy.errors import InputError
from modak_deploy.model.measurement import Measurement, Ratio
from modak_deploy.performance.records import origin_of, parse_rows, version_of_sum
from modak_deploy.performance.series import Observation, read

SCHEME = "sqlite:///"
LAYOUT = "1"
LONGEST_WAIT = 120
"""Seconds to wait for another's writing. SQLite's own 5 s are less than the series of 100,000 records take."""


class SqliteFile:
    """What ``performance.store.Store`` tells of the file at ``address``, without any other of its powers."""

    def __init__(self, address: str) -> None:
        """Take the ``address``, which ``can_read`` has said yes to."""
        self.name = address
        self._file = Path(address.removeprefix(SCHEME)).absolute()
        self._open: tuple[tuple[int, int], sqlite3.Connection] | None = None
        layout = self._state("layout")
        if layout != LAYOUT:
            raise InputError(f"the measurement store {self.name} has layout {layout}, this modak knows {LAYOUT}")

    @property
    def version(self) -> str:
        """SHA-256 of all that it holds, whatever the order it came in."""
        return version_of_sum(self._state("sum"))

    @property
    def count(self) -> int:
        """How many records it holds."""
        return int(str(self._ask("SELECT count(*) FROM modak_measurement")[0][0]))

    @property
    def origin(self) -> str:
        """SHA-256 of what tells the store from others, and of how often something was removed from it."""
        state = {str(key): value for key, value in self._ask("SELECT key, value FROM modak_state")}
        return origin_of(str(self._file), state)

    def of_workload(self, model: str) -> Sequence[Measurement | Ratio]:
        """Return what is known of the workload named ``model``, in a stable order."""
        return self._records("SELECT id, document FROM modak_measurement WHERE workload = ?", model)

    def evidence_of(self, model: str, present: Collection[str] = ()) -> Sequence[tuple[str, Observation]]:
        """See ``modak_deploy.performance.records.Measurements.evidence_of``."""
        with self._connection() as connection:
            connection.execute("BEGIN")  # several queries that must see the same moment
            return read(lambda sql, values: connection.execute(sql, values).fetchall(), model, present, self.name)

    def all_records(self) -> Sequence[Measurement | Ratio]:
        """Return everything, in a stable order."""
        return self._records("SELECT id, document FROM modak_measurement")

    def _state(self, key: str) -> str:
        rows = self._ask("SELECT value FROM modak_state WHERE key = ?", key)
        if not rows:
            raise InputError(f"the measurement store {self.name} is damaged: its table modak_state has no '{key}'")
        return str(rows[0][0])

    def _records(self, query: str, *values: str) -> list[Measurement | Ratio]:
        return [record for _, record in parse_rows(self._ask(query, *values), self.name)]

    def _ask(self, query: str, *values: str) -> list[tuple[object, ...]]:
        with self._connection() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._opened()
            try:
                yield connection
            finally:
                connection.rollback()  # of the reading transaction: what others write is seen from then on
        except sqlite3.Error as error:
            raise InputError(f"the measurement store {self.name}: {error}") from None

    def _opened(self) -> sqlite3.Connection:
        """Return a connection of this process and thread; a new one first reads the layout, 0.3 ms of a decision.

        SQLite forbids to carry a connection over a fork (https://www.sqlite.org/howtocorrupt.html, 2.6).
        """
        owner = os.getpid(), get_ident()
        if self._open is None or self._open[0] != owner:
            connection = _open(self._file)
            finalize(self, connection.close)
            self._open = owner, connection
        return self._open[1]


def can_read(address: str) -> bool:
    """Tell whether ``address`` is that of a plain SQLite file which has the store's tables."""
    path = Path(address.removeprefix(SCHEME))
    if not address.startswith(SCHEME) or "?" in address or not path.is_file():
        return False
    try:
        with closing(_open(path)) as connection:
            return len(connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'modak%'").fetchall()) > 0
    except sqlite3.Error:
        return False


def _open(path: Path) -> sqlite3.Connection:
    # Closed by whichever thread drops the store.
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(address, uri=True, check_same_thread=False, timeout=LONGEST_WAIT)
