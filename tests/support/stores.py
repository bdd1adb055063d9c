"""What every measurement store must do, whatever database is behind it."""

import threading

import pytest

from modak.errors import InputError
from modak.performance.records import Table, Together, load_measurements, to_line
from modak.performance.store import Filter, Store


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

        from modak.performance.store import _value

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

        from modak.performance.store import _measurement

        store = Store(address)
        store.add([r for r in load_measurements().records if r.workload.dataset == "uci-digits"][:1])
        with store._begin() as connection:
            bad = sa.func.replace(_measurement.c.document, '"total": ', '"total": -')
            connection.execute(sa.update(_measurement).values(document=bad))
        with pytest.raises(InputError, match=r"measurement 1 of .*: .*total"):
            store.records(Filter())

    def test_another_layout_is_refused(self, address):
        import sqlalchemy as sa

        from modak.performance.store import _state

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
