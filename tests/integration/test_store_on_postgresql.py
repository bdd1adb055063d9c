"""The measurement store on a real PostgreSQL."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stores import StoreContract

SCRIPT = Path(__file__).parent.parent / "real" / "postgresql.sh"
CANNOT = 77


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    done = subprocess.run([SCRIPT, "up"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    yield done.stdout.strip()
    subprocess.run([SCRIPT, "down"], check=True, stdin=subprocess.DEVNULL)


class TestPostgresql(StoreContract):
    """The contract on a server."""

    @pytest.fixture
    def address(self, server: str) -> Iterator[str]:
        yield server
        engine = sa.create_engine(server.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            for table in ("modak_value", "modak_measurement", "modak_state", "modak_series", "modak_member"):
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")
        engine.dispose()
