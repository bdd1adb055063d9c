"""The measurement store on SQLite, and the commands over it."""

import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from modak_deploy.errors import InputError
from modak_deploy.performance import paths
from modak_deploy.performance.cli import measurements
from modak_deploy.performance.records import SHIPPED, available_measurements, load_measurements
from modak_deploy.performance.sqlitefile import SqliteFile, can_read
from modak_deploy.performance.store import Filter, Store
from stores import StoreContract, assert_same, jobs, series_of


def _exit_unless(reader, version):
    sys.exit(reader.version != version)


class TestSqlite(StoreContract):
    """The contract on a file."""

    @pytest.fixture
    def address(self, tmp_path):
        return f"sqlite:///{tmp_path}/store.sqlite"

    def test_the_reader_tells_the_same(self, address):
        assert not can_read(address)
        store = Store(address)
        assert SqliteFile(address).all_records() == []
        assert SqliteFile(address).count == store.count == 0
        store.add(load_measurements().records)
        reader = SqliteFile(address)
        assert can_read(address)
        assert reader.version == store.version
        assert reader.all_records() == store.all_records()
        assert reader.of_workload("alexnet") == store.of_workload("alexnet") != []
        assert reader.of_workload("x' OR '1'='1") == []
        before = store.count, store.origin
        assert (reader.count, reader.origin) == before == (len(load_measurements().records), before[1])
        store.add(jobs(30))
        assert (reader.count, reader.origin) == (store.count, store.origin) == (before[0] + 30, before[1])
        assert reader.evidence_of("mnist-cnn") == store.evidence_of("mnist-cnn")
        assert_same(series_of(reader), jobs(30))
        origins = {store.origin}
        for model in ("alexnet", "squeezenet"):
            store.forget(Filter(workload=model))
            assert reader.origin == store.origin
            origins.add(store.origin)
        assert len(origins) == 3
        assert Store(address).origin == store.origin

    def test_the_reader_refuses_what_the_store_refuses(self, address):
        path = address.removeprefix("sqlite:///")
        Store(address).add(load_measurements().of_workload("alexnet"))
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE modak_measurement SET document = replace(document, '\"mean\": ', '\"mean\": -')")
        with pytest.raises(InputError, match=r"measurement \d of .*: .*mean"):
            SqliteFile(address).of_workload("alexnet")
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE modak_state SET value = '9' WHERE key = 'layout'")
        with pytest.raises(InputError, match="has layout 9, this modak knows 1"):
            SqliteFile(address)

    @pytest.mark.parametrize("key", ["layout", "sum"])
    def test_a_store_without_its_state_is_damaged(self, address, key):
        Store(address).add(jobs(1))
        with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
            connection.execute("DELETE FROM modak_state WHERE key = ?", (key,))
        with pytest.raises(InputError, match=f"is damaged: its table modak_state has no '{key}'"):
            assert SqliteFile(address).version

    @pytest.mark.parametrize("value", [None, "", "none"])
    def test_nothing_is_written_to_a_store_without_its_sum(self, address, value):
        store = Store(address)
        store.add(jobs(1))
        with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
            connection.execute("DELETE FROM modak_state WHERE key IN ('sum', 'series')")
            if value is not None:
                connection.execute("INSERT INTO modak_state VALUES ('sum', ?)", (value,))
        for write in (lambda: store.add(jobs(1, first=1)), lambda: store.forget(Filter()), lambda: store.version):
            with pytest.raises(InputError, match="is damaged: its table modak_state has no 'sum'"):
                write()
        assert store.count == 1

    def test_a_reader_waits_for_a_writer_as_long_as_writers_do(self, address):
        Store(address).add(jobs(1))
        assert SqliteFile(address)._ask("PRAGMA busy_timeout") == [(120_000,)]

    def test_a_file_that_may_only_be_read_and_has_no_series_is_read_as_it_is(self, address):
        path = Path(address.removeprefix("sqlite:///"))
        Store(address).add(jobs(20))
        with sqlite3.connect(path) as connection:
            connection.executescript("DROP TABLE modak_member; DROP TABLE modak_series")
            connection.execute("DELETE FROM modak_state WHERE key = 'series'")
        before = path.read_bytes()
        read_only = Store(f"sqlite:///file:{path}?mode=ro&uri=true")
        for reader in (SqliteFile(address), read_only):
            assert [one for _, one in reader.evidence_of("mnist-cnn")] == reader.of_workload("mnist-cnn")
            assert len(reader.of_workload("mnist-cnn")) == 20
        with pytest.raises(InputError, match="readonly database"):
            read_only.add(jobs(1, first=20))
        assert path.read_bytes() == before

    def test_a_series_that_somebody_changed_is_refused(self, address):
        path = address.removeprefix("sqlite:///")
        Store(address).add(jobs(20))
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE modak_series SET document = replace(document, '\"total\": ', '\"total\": -')")
        with pytest.raises(InputError, match=r"a series of .*: .*total"):
            SqliteFile(address).evidence_of("mnist-cnn")
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE modak_series SET document = replace(document, '\"total\": -', '\"total\": ')")
            connection.execute("UPDATE modak_series SET squares = -1")
        with pytest.raises(InputError, match=r"a series of .* is not valid"):
            SqliteFile(address).evidence_of("mnist-cnn")

    def test_the_reader_sees_what_was_written_since_and_blocks_no_writer(self, address):
        store = Store(address)
        store.add(jobs(20))
        reader = SqliteFile(address)
        before = reader.version
        assert_same(series_of(reader), jobs(20))
        store.add(jobs(20, first=20))
        assert reader.version == store.version != before
        assert_same(series_of(reader), jobs(40))

    def test_the_reader_serves_other_threads_and_forked_processes(self, address):
        Store(address).add(jobs(20))
        reader = SqliteFile(address)
        version = reader.version
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: reader.version).result() == version
        process = multiprocessing.get_context("fork").Process(target=_exit_unless, args=(reader, version))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert reader.version == version

    @pytest.mark.parametrize("content", [b"", b"no database at all, by no means"])
    def test_another_file_is_left_to_the_store(self, address, content):
        Path(address.removeprefix("sqlite:///")).write_bytes(content)
        assert not can_read(address)


def test_a_plan_with_a_store_starts_no_database_library(tmp_path):
    Store().add(load_measurements().of_workload("alexnet"))
    code = (
        "import sys; from modak_deploy.performance.records import available_measurements as a; "
        "m = a(); print(len(m.of_workload('alexnet')), m.version, 'sqlalchemy' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert (told[0], told[2]) == ("6", "False")
    assert told[1] == available_measurements().version


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("MODAK_MEASUREMENTS", raising=False)


NOTHING = "no measurements; --shipped lists those that ship with modak\n"


def run(*words):
    return CliRunner().invoke(measurements, [str(word) for word in words], catch_exceptions=False)


def test_several_processes_may_make_a_store_at_once(tmp_path):
    """As the first jobs of a user do that end together."""
    for number in range(10):
        address = f"sqlite:///{tmp_path}/{number}.sqlite"
        together = threading.Barrier(6)

        def make(address=address, together=together):
            together.wait()
            return Store(address).count

        with ThreadPoolExecutor(6) as pool:
            assert {made.result() for made in [pool.submit(make) for _ in range(6)]} == {0}


def test_a_store_whose_making_was_ended_is_made(tmp_path):
    address = f"sqlite:///{tmp_path}/store.sqlite"
    Store(address).close()
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("DELETE FROM modak_state")
    assert Store(address).add(load_measurements().records[:3]) == (3, 0)


def test_an_export_is_whole_or_as_it_was(tmp_path, monkeypatch):
    old = tmp_path / "all.jsonl"
    old.write_text("old")
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(InputError, match=r"all\.jsonl: cannot be written: No space left on device"):
        run("export", "--shipped", old)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir() if path.suffix == ".jsonl"] == [
        ("all.jsonl", "old")
    ]


def test_import_list_export_forget(tmp_path):
    files = sorted(SHIPPED.glob("published-*.jsonl"))
    assert "38 new, 0 known already" in run("import", *files).output
    assert len(run("list").output.splitlines()) == 38
    assert len(run("list", "--workload", "alexnet").output.splitlines()) == 6
    run("export", tmp_path / "all.jsonl")
    assert "0 new, 38 known already" in run("import", tmp_path / "all.jsonl").output
    assert run("export", "-w", "alexnet").output.count("\n") == 6
    assert "6 forgotten" in run("forget", "-w", "alexnet").output
    number = run("list").output.split()[0]
    assert "1 forgotten" in run("forget", number).output
    assert "31 forgotten" in run("forget", "--all").output
    assert (run("list").stdout, run("list").stderr) == ("", NOTHING)


def test_what_ships_is_listed_without_a_store(tmp_path):
    assert len(run("list", "--shipped").output.splitlines()) == len(load_measurements().records)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["list", "export"])
def test_what_ships_is_in_no_store(command):
    with pytest.raises(InputError, match="--shipped cannot be combined with --store"):
        run(command, "--shipped", "--store", "sqlite:////nowhere/store.sqlite")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "say which ones"),
        (("--all", "--workload", "x"), "say which ones"),
        (("--source", ""), "--source is blank"),
        (("--workload", ""), "--workload is blank"),
        (("--before", "2026-02-30"), "--before: '2026-02-30' is not a date"),
        (("--before", "20260131"), "--before: '20260131' is not a date: write it as 2026-01-31"),
        (("--before", "2026-W05-6"), "--before: '2026-W05-6' is not a date"),
        (("1", "99"), "has no measurement 99"),
        (("1", str(2**63)), "has no measurement 9223372036854775808"),
        (("1", "--workload", "x"), "has no measurement 1 of that kind"),
    ],
)
def test_nothing_is_forgotten_by_accident(words, told):
    run("import", SHIPPED / "published-hit.jsonl")
    with pytest.raises(InputError, match=told):
        run("forget", *words)
    assert len(run("list").output.splitlines()) == 18


@pytest.mark.parametrize("command", [("list",), ("export",), ("forget", "--all")])
def test_what_only_reads_makes_no_store(command, tmp_path):
    with pytest.raises(InputError, match=r"measurement store .*none\.sqlite not found"):
        run(*command, "--store", f"sqlite:///{tmp_path}/none.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    run("import", SHIPPED / "published-hit.jsonl")
    with pytest.raises(InputError, match=r"all\.jsonl: cannot be written: No such file or directory"):
        run("export", tmp_path / "nowhere" / "all.jsonl")


def test_one_bad_file_keeps_all_out(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"schema": "modak.measurement/2"}\n')
    with pytest.raises(InputError, match=r"must be 'modak\.measurement/1' or 'modak\.ratio/1'"):
        run("import", SHIPPED / "published-hit.jsonl", bad)
    assert (run("list").stdout, run("list").stderr) == ("", NOTHING)


def test_decisions_read_the_store_where_there_is_one():
    assert available_measurements().version == load_measurements().version
    run("import", SHIPPED / "published-hit.jsonl")
    assert available_measurements().version != load_measurements().version


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "notes.db",
            r"^the measurement store 'notes\.db' is not an address; write sqlite:///FILE, or postgresql://",
        ),
        ("u:secret@h/d", r"the measurement store '\*\*\*@h/d' is not an address"),
        ("oracle2://u:secret@h/d", "the measurement store 'oracle2://..' cannot be opened: .*; write sqlite:///FILE"),
        ("sqlite:////nowhere/at/all.sqlite", "unable to open database file"),
        ("postgresql://u:secret@127.0.0.1:1/d", r"postgresql\+psycopg://\*\*\*@127.0.0.1:1/d: connection failed"),
    ],
)
def test_a_store_that_cannot_be_opened(address, words):
    with pytest.raises(InputError, match=words) as caught:
        Store(address)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no database\n" * 100)
    with pytest.raises(InputError, match="file is not a database"):
        Store(f"sqlite:///{path}")


def test_a_data_folder_that_cannot_be_made(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/nothing")
    with pytest.raises(InputError, match="cannot be made"):
        Store()


def test_the_folder_comes_from_the_home_where_no_variable_says_otherwise(monkeypatch, tmp_path):
    from modak_deploy.performance.paths import default_path

    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == Path(tmp_path) / ".local" / "share" / "modak" / "measurements.sqlite"


def test_a_data_folder_that_may_not_be_entered_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.delenv("MODAK_MEASUREMENTS", raising=False)
    monkeypatch.setattr(Path, "is_file", refused)
    with pytest.raises(InputError, match=r"measurements\.sqlite: the measurements cannot be read: Permission denied; "):
        paths.store_address()
