"""What a decision is worth on workloads held out: decided by the optimiser's own code, from all but that workload."""

import multiprocessing
import statistics
import threading
import time

import pytest

from lawful import measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import ModakError
from modak_deploy.optimiser import evaluating
from modak_deploy.optimiser.evaluating import evaluate
from modak_deploy.optimiser.modelled import Modelled
from modak_deploy.performance.fitting import rows_of
from modak_deploy.performance.records import Table, load_measurements

COUNT = 5


@pytest.fixture(scope="module")
def held():
    """Return how five workloads of a law are judged, and one that is far from them."""
    table = measured(COUNT)
    far = [r.model_copy(update={"workload": r.workload.model_copy(update={"model": "far", "flops_per_sample": 1e14})})
           for r in table.records if r.workload.model == "net-0"]  # fmt: skip
    return evaluate(Table([*table.records, *far]), load_catalogue())


def test_each_workload_is_judged_at_each_length(held):
    names = ["far", *(f"net-{n}" for n in range(COUNT))]
    assert [(h.workload, h.units) for h in held] == [(name, units) for name in names for units in (4, 100)]
    assert all(h.records == 4 for h in held)


def test_what_follows_the_law_is_told_and_decided_well(held):
    near = [h for h in held if h.workload != "far" and h.predicted == h.records]
    assert near
    assert statistics.fmean(h.coverage for h in near) >= 0.75
    assert statistics.fmean(h.coverage_gain for h in near) >= 0.75
    assert all(h.regret <= h.regret_default + 1e-9 for h in near)
    assert sum(h.regret_model for h in near) < sum(h.regret_default for h in near)


def test_what_is_far_from_the_others_is_not_told_and_the_default_stays(held):
    far = [h for h in held if h.workload == "far"]
    assert all((h.predicted, h.error, h.coverage) == (0, None, None) for h in far)
    assert all(h.regret == h.regret_default == h.regret_model for h in far)


def test_the_workload_itself_is_in_nothing_that_it_is_decided_by(monkeypatch):
    """Neither the model nor the measurements that the optimiser is given know it."""
    seen = []
    fit = evaluating.fit
    monkeypatch.setattr(evaluating, "fit", lambda table, *rest: seen.append(table.records) or fit(table, *rest))
    evaluate(measured(4), load_catalogue())
    known = [{record.workload.model for record in records} for records in seen]
    assert known == [{f"net-{n}" for n in range(4)} - {f"net-{out}"} for out in range(4)]


def test_with_too_few_others_nothing_is_told():
    held = evaluate(measured(3), load_catalogue())
    assert all((h.predicted, h.coverage_gain) == (0, None) and h.regret == h.regret_default for h in held)


def test_the_optimiser_sees_each_record_as_the_model_learned_it():
    catalogue = load_catalogue()
    for row in rows_of(load_measurements().all_records(), catalogue):
        place = evaluating.location_of_row(row, catalogue)
        work = evaluating.work_of_row(row, row.units)
        modelled = Modelled(Unrefusing(), work, {place.option(()): place}, catalogue, mix=row.case.mix)
        assert modelled.features_of(place.option(tuple(row.case.configuration.levers))) == row.inputs


class Unrefusing:
    """A model that tells of everything."""

    def refusal(self, found):
        """Refuse nothing."""


def test_a_process_that_is_ended_from_outside_ends_the_evaluation():
    """It waited for ever, where the process had not yet read all records."""

    def end_one():
        until = time.monotonic() + 30
        while not (children := multiprocessing.active_children()) and time.monotonic() < until:
            time.sleep(0.01)
        children[0].kill()

    thread = threading.Thread(target=end_one)
    thread.start()
    with pytest.raises(ModakError, match="ended from outside"):
        evaluate(measured(evaluating._MANY), load_catalogue())
    thread.join()
