"""What every measurement store must do, whatever database is behind it."""

import threading

import pytest

from modak_deploy.errors import InputError
from modak_deploy.performance import derived
from modak_deploy.performance.matching import own_phases
from modak_deploy.performance.records import Table, Together, digest_of, load_measurements, to_line
from modak_deploy.performance.series import FEW, NEWEST, Folded, entry_of
from modak_deploy.performance.statistics import Moments
from modak_deploy.performance.store import Filter, Store


def jobs(count, *, first=0, source="job {} of digits on here", levers=("keras-jax",)):
    """Return records of ``count`` deployed jobs of one configuration, each of one run of its own length and time."""
    (record,) = [r for r in load_measurements().of_workload("mnist-cnn") if r.configuration.levers == ["keras-jax"]][:1]
    configuration = record.configuration.model_copy(update={"levers": list(levers)})
    found = []
    for number in range(first, first + count):
        provenance = record.provenance.model_copy(
            update={"source": source.format(number), "date": f"2026-01-{1 + number % 28:02}"}
        )
        run = record.runs[number % len(record.runs)]
        total = run.total * (1 + number % 7 / 10)
        run = run.model_copy(update={"total": total, "block": None, "time": 1_700_000_000 + number % 50})
        update = {"runs": [run], "provenance": provenance, "configuration": configuration}
        found.append(record.model_copy(update=update))
    return found


def seconds_of(records):
    """Return the moments of the seconds of single runs."""
    return Moments.of_values([own_phases(run, record).total for record in records for run in record.runs])


def series_of(store, known=()):
    """Return the one series that a decision reads of the jobs."""
    (series,) = [one for _, one in store.evidence_of("mnist-cnn", known) if isinstance(one, Folded)]
    return series


def assert_same(series, records):
    """Assert that the series is that of these records."""
    whole = entry_of(records)
    expected = seconds_of(records)
    assert to_line(series.record) == whole.document + "\n"
    assert series.moments.count == expected.count
    assert series.moments.mean == pytest.approx(expected.mean, rel=1e-12)
    assert series.moments.variance == pytest.approx(expected.variance, rel=1e-9)
    assert series.first_date == min(record.provenance.date for record in records)


class StoreContract:
    """Tests over a fixture ``address``, an empty database."""

    def test_what_goes_in_comes_out(self, address):
        store = Store(address)
        records = load_measurements().records
        assert store.add(records) == (len(records), 0)
        assert store.add(reversed(records)) == (0, len(records))
        assert [to_line(r) for _, r in store.records(Filter())] == [to_line(r) for r in records]
        assert store.of_workload("alexnet") == load_measurements().of_workload("alexnet")
        assert store.of_workload("nothing") == []

    def test_the_version_is_that_of_the_content(self, address):
        store = Store(address)
        empty = store.version
        records = load_measurements().records
        store.add(records[:3])
        three = store.version
        store.add(records[3:5])
        store.forget(Filter(ids=[number for number, r in store.records(Filter()) if r in records[3:5]]))
        assert store.version == three != empty
        store.forget(Filter())
        assert store.version == empty

    def test_a_part_is_forgotten(self, address):
        store = Store(address)
        store.add(load_measurements().records)
        total = len(store.rows(Filter()))
        hit = store.forget(Filter(source="HiT"))
        assert hit == 18
        assert store.forget(Filter(workload="jordan-snn")) == 6
        assert store.forget(Filter(before="2021")) == 14
        assert len(store.rows(Filter())) == total - 18 - 6 - 14

    def test_every_single_value_is_a_row(self, address):
        import sqlalchemy as sa

        from modak_deploy.performance.store import _value

        store = Store(address)
        store.add([r for r in load_measurements().records if r.workload.dataset == "uci-digits"])
        with store._begin() as connection:
            phases = sa.select(_value.c.phase, sa.func.count()).group_by(_value.c.phase)
            counts = {row[0]: row[1] for row in connection.execute(phases)}
        assert counts["later"] == 4 * counts["total"]
        assert counts["start"] == counts["first"] == counts["total"] >= 13 * 5

    def test_two_writers_at_once_lose_nothing(self, address):
        records = load_measurements().records
        Store(address)
        parts = [records[i::4] for i in range(4)]
        errors = []

        def write(part):
            try:
                store = Store(address)
                for record in part:
                    store.add([record])
            except InputError as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        once = Store("sqlite://")
        once.add(records)
        assert Store(address).version == once.version

    def test_a_record_that_somebody_changed_is_refused_by_its_number(self, address):
        import sqlalchemy as sa

        from modak_deploy.performance.store import _measurement

        store = Store(address)
        store.add([r for r in load_measurements().records if r.workload.dataset == "uci-digits"][:1])
        with store._begin() as connection:
            bad = sa.func.replace(_measurement.c.document, '"total": ', '"total": -')
            connection.execute(sa.update(_measurement).values(document=bad))
        with pytest.raises(InputError, match=r"measurement 1 of .*: .*total"):
            store.records(Filter())

    def test_another_layout_is_refused(self, address):
        import sqlalchemy as sa

        from modak_deploy.performance.store import _state

        with Store(address)._begin() as connection:
            connection.execute(sa.update(_state).where(_state.c.key == "layout").values(value="9"))
        with pytest.raises(InputError, match="has layout 9, this modak knows 1"):
            Store(address)

    def test_together_with_what_ships_each_record_counts_once(self, address):
        store = Store(address)
        store.add(load_measurements().of_workload("alexnet"))
        both = Together([load_measurements(), store])
        assert both.of_workload("alexnet") == load_measurements().of_workload("alexnet")
        assert both.version not in (store.version, load_measurements().version, Table([]).version)

    def test_a_decision_reads_few_records_one_by_one_and_many_as_a_series(self, address):
        store = Store(address)
        store.add(load_measurements().records)
        plain = store.of_workload("mnist-cnn")
        assert [one for _, one in store.evidence_of("mnist-cnn")] == plain
        few = jobs(FEW)
        store.add(few)
        assert [one for _, one in store.evidence_of("mnist-cnn")] == store.of_workload("mnist-cnn")
        store.add(jobs(96, first=FEW))
        assert_same(series_of(store), jobs(96 + FEW))
        assert len(series_of(store).record.runs) == NEWEST
        rest = [one for _, one in store.evidence_of("mnist-cnn") if not isinstance(one, Folded)]
        assert rest == plain
        assert len(store.of_workload("mnist-cnn")) == len(plain) + 96 + FEW
        assert store.evidence_of("nothing") == []

    def test_a_series_does_not_depend_on_the_order_in_which_its_records_came(self, address):
        store = Store(address)
        records = jobs(60)
        for start in range(0, 60, 7):
            store.add(reversed(records[start : start + 7]))
        assert_same(series_of(store), records)

    def test_a_series_is_of_one_configuration_and_application(self, address):
        store = Store(address)
        groups = [jobs(9), jobs(9, levers=()), jobs(9, source="job {} of other on here")]
        store.add([record for group in groups for record in group])
        found = [one for _, one in store.evidence_of("mnist-cnn")]
        assert sorted(to_line(one.record) for one in found) == sorted(f"{entry_of(g).document}\n" for g in groups)

    def test_what_is_forgotten_is_in_no_series(self, address):
        store = Store(address)
        records = jobs(40)
        store.add([*records, *load_measurements().records])
        gone = {to_line(record) for record in records[:30]}
        store.forget(Filter(ids=[number for number, r in store.records(Filter()) if to_line(r) in gone]))
        assert_same(series_of(store), records[30:])
        store.forget(Filter(workload="mnist-cnn"))
        assert store.evidence_of("mnist-cnn") == []
        store.add(records)
        assert_same(series_of(store), records)

    def test_a_record_that_is_known_from_elsewhere_is_in_no_series(self, address):
        store = Store(address)
        records = jobs(20)
        store.add(records)
        known = {digest_of(to_line(record).rstrip("\n")) for record in records[:5]}
        left = [one for _, one in store.evidence_of("mnist-cnn", known)]
        assert sorted(map(to_line, left)) == sorted(map(to_line, records[5:]))
        both = Together([Table(records[:5]), store])
        assert sorted(to_line(r) for _, r in both.evidence_of("mnist-cnn")) == sorted(map(to_line, records))

    def test_a_store_of_a_modak_without_series_is_read_and_gets_them_when_it_is_written_to(self, address):
        store = Store(address)
        store.add(jobs(20))
        with store._begin() as connection:
            for table in ("modak_member", "modak_series"):
                connection.exec_driver_sql(f"DROP TABLE {table}")
            connection.exec_driver_sql("DELETE FROM modak_state WHERE key = 'series'")
        store.close()
        for _ in range(2):
            old = Store(address)
            assert [one for _, one in old.evidence_of("mnist-cnn")] == old.of_workload("mnist-cnn")
            assert len(old.of_workload("mnist-cnn")) == 20
        old.add(jobs(1, first=20))
        assert_same(series_of(Store(address)), jobs(21))
        assert old.add(jobs(21)) == (0, 21)
        assert_same(series_of(Store(address)), jobs(21))

    def test_what_a_modak_without_series_writes_counts_at_once(self, address, monkeypatch):
        store = Store(address)
        store.add(jobs(20))
        with monkeypatch.context() as older:
            older.setattr(derived, "prepare", lambda connection: False)
            store.add(jobs(5, first=20))
        assert len(store.evidence_of("mnist-cnn")) == 25
        store.add(jobs(5, first=25))
        assert_same(series_of(store), jobs(30))

    def test_writers_at_once_keep_the_series(self, address):
        store = Store(address)
        store.add(jobs(8))
        with store._begin() as connection:  # an old store, which all of them find at once
            for table in ("modak_member", "modak_series"):
                connection.exec_driver_sql(f"DROP TABLE {table}")
            connection.exec_driver_sql("DELETE FROM modak_state WHERE key = 'series'")
        records = jobs(40, first=8)
        errors = []

        def write(part):
            try:
                for record in part:
                    Store(address).add([record])
            except InputError as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(records[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert_same(series_of(Store(address)), jobs(48))
