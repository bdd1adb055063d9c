"""Jobs on nodes that did other work meanwhile: of those only what was tried side by side counts, and only there."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.deploy.running import recorded as recorded_by_itself
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.measurement import Measurement, Run
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.records import Table, available_measurements
from modak_deploy.performance.store import Store
from tried_parts import DEPLOYMENT, FACTS, LAST, NOW, plan

CHANNELS, ONE = "pytorch-channels-last", "pytorch-one-thread"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records):
    """Return the function that records a job as a deployment does by itself, and returns all measurements of it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("MODAK_FITTING", "manual")

    def keep(trials: list[dict[str, Any]], made: Plan, record: bool | None = None, **change: Any) -> list[Any]:
        records(trials, made=made, **change)
        folder = tmp_path / "results-1"
        result = JobResult.model_validate_json((folder / "job.json").read_text())
        result = result.model_copy(update={"results": str(folder)})
        recorded_by_itself(made, result, record, [], pytest.fail)
        return [observation for _, observation in available_measurements().evidence_of("my-net")]

    return keep


def restart_plan() -> Plan:
    values = DEPLOYMENT.model_dump(mode="json", exclude_unset=True)
    values["request"]["trials"] = {"budget": 60}
    return make_plan(Deployment.model_validate(values), FACTS, [], now=NOW, measurements=Table([]))


def restart_of(made: Plan) -> dict[str, Any]:
    assert made.restart is not None
    default, other = made.restart.candidates[:2]
    trials = [{"name": c.name, "state": "measured", "start": 1.0, "units": 9, "steady": 0.5} for c in (default, other)]
    return {"trials": trials, "chosen": default.name, "levers": default.levers, "seconds": 5.0}


@pytest.mark.parametrize(("load", "record", "kinds"), [
    (8.0, None, ["trial", "trial"]),
    (None, None, ["trial", "trial"]),
    (0.1, None, ["trial", "trial", "whole"]),
    (8.0, True, ["trial", "trial", "whole"]),
    (0.1, False, []),
])  # fmt: skip
def test_the_run_after_trials_is_recorded_where_it_was_undisturbed(kept, load, record, kinds):
    made = restart_plan()
    found = kept([], made, record, restart=restart_of(made), load=load)
    assert sorted(observation.kind or "whole" for observation in found) == kinds


def test_what_a_disturbed_job_could_not_use_is_noted_all_the_same(kept):
    wrong = {**LAST, "kept": False, "failed": True, "times": [0.1], "rival_times": []}
    (found,) = kept([wrong], plan(), load=8.0)
    assert (found.kind, found.failed) == ("trial", [CHANNELS])
    after = plan(Table([found]))
    assert CHANNELS not in after.chosen.launch.candidates and after.prediction.basis == "trial"


def beside(levers: list[str], times: float, rival: float) -> dict[str, Any]:
    def spread(seconds: float) -> list[float]:
        return [seconds * (1 + 0.01 * (number * 7 % 5 - 2)) for number in range(10)]

    return {"of": "Net", "levers": levers, "result": "-", "times": spread(times), "rival_times": spread(rival)}


def timed(steady: float, trials: list[dict[str, Any]], number: int, **change: Any) -> dict[str, Any]:
    """Return what a job of 100 units says of itself, each of so many seconds."""
    counted = {"name": "inference: Net", "unit": "call", "units": 100, "steady": steady, "compile": 0.1}
    tuning = {"processes": 1, "counted": [{**counted, "seconds": steady * 100}], "trials": trials}
    return {"number": number, "seconds": steady * 100 + 8, "tuning": tuning, "started": 1795e6 + number, **change}


def test_units_that_were_tried_are_compared_with_those_beside_them_alone(records):
    """The third job's node was half as fast: its default does not make faster what the second one found slower."""
    quiet, busy = [beside([CHANNELS], 1.1, 1.0)], [beside([ONE], 2.1, 2.0)]
    whole = records([], **timed(1.0, [], 1, load=0.0))
    found = [*whole, *records(quiet, **timed(1.0, quiet, 2)), *records(busy, **timed(2.0, busy, 3))]
    after = plan(Table(found))
    assert after.chosen.levers == [], after.reason
    ratios = {tuple(each.candidate.levers): each.prediction.gain for each in after.alternatives}
    assert ratios[CHANNELS,].ratio == pytest.approx(108 / 118, rel=0.02)
    assert ratios[ONE,].ratio == pytest.approx(208 / 218, rel=0.02)


def test_seconds_are_those_of_whole_runs_where_there_are_some(records):
    busy = [beside([ONE], 2.1, 2.0)]
    whole = [record for number in (1, 2) for record in records([], **timed(1.0, [], number, load=0.0))]
    after = plan(Table([*whole, *records(busy, **timed(2.0, busy, 3))]))
    assert after.prediction.seconds == pytest.approx(108, rel=0.01) and "2 times" in after.prediction.evidence


@pytest.mark.parametrize(("steady", "least", "most"), [(0.7, 1.3, 1.45), (0.5, 1.84, 1.89)])
def test_whole_runs_count_beside_trials_that_agree_and_alone_where_they_do_not(records, steady, least, most):
    """Trials say that it is 1.86 times as fast over 100 calls."""
    trials = [beside([CHANNELS], 0.5, 1.0)]
    tried = records(trials, **timed(1.0, trials, 1))
    chosen = plan(Table(tried))
    assert chosen.chosen.levers == [CHANNELS]
    runs = []
    for made, seconds in ((plan(), 1.0), (chosen, steady)):
        for number in range(4):
            job = timed(seconds + 0.01 * number, [], len(runs) + 10)
            job["tuning"]["levers"] = made.chosen.levers
            runs += records([], made=made, **job)
    gain = plan(Table([*tried, *runs])).gain
    assert least < gain.low < gain.ratio < gain.high < most


def tried_alone(base: Measurement, levers: list[str], started: int, *totals: float) -> Measurement:
    """Return trials in processes of their own, as a round of a search leaves them."""
    return base.model_copy(
        update={
            "kind": "trial",
            "configuration": base.configuration.model_copy(update={"levers": levers}),
            "runs": [Run(total=total, time=started) for total in totals],
            "provenance": base.provenance.model_copy(update={"source": f"job {started} of net on here"}),
        }
    )


@pytest.mark.parametrize(("fresh", "chosen"), [((102.0, 101.0, 102.0, 101.0, 102.0), []), ((80.0, 81.0), [CHANNELS])])
def test_trials_in_new_processes_are_compared_job_by_job(records, fresh: tuple[float, ...], chosen: list[str]):
    """The rounds of a search ran on a busy node, and what confirmed it did not: one of two found nothing faster."""
    (base,) = records([])
    rounds = [tried_alone(base, [], 1000 * number, 300.0 + number) for number in range(1, 9)]
    confirmed = [tried_alone(base, [], 9000, 100.0, 101.0, 100.0, 101.0, 100.0, 100.0)]
    best = [tried_alone(base, [CHANNELS], 3000, 200.0), tried_alone(base, [CHANNELS], 9000, *fresh)]
    after = plan(Table([*rounds, *confirmed, *best]))
    assert after.chosen.levers == chosen, after.reason


def test_a_job_that_another_version_has_recorded_counts_once(records, tmp_path: Path):
    """Its record has a field more now. Twice one run of each would be four without any spread."""
    (default,) = records([], load=0.0)
    made = plan(require_levers=["torch-hugepages"])
    (other,) = records([], made=made, number=2, seconds=59.9, load=0.0)
    store = Store(f"sqlite:///{tmp_path}/store.sqlite")
    assert store.add([default, other]) == (2, 0)
    hardware = default.hardware.model_copy(update={"bf16": "vector"})
    again = [record.model_copy(update={"hardware": hardware}) for record in (default, other)]
    assert store.add([*again, default]) == (0, 3)
    assert plan(store).chosen.levers == []
    runs = [run.model_copy(update={"time": 1795000000}) for run in default.runs]
    assert store.add([default.model_copy(update={"runs": runs})]) == (1, 0), "a job of the same id, at another time"


def test_a_record_of_a_later_version_keeps_nothing_from_being_recorded(records, tmp_path: Path):
    """One store may be used by several versions. Whoever reads such a record is told that it has more fields."""
    (first,) = records([], load=0.0)
    address = f"sqlite:///{tmp_path}/store.sqlite"
    store = Store(address)
    assert store.add([first]) == (1, 0)
    store.close()
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection, connection:
        connection.execute("""UPDATE modak_measurement SET document = '{"newfield": 1, ' || substr(document, 2)""")
    later = first.model_copy(update={"runs": [run.model_copy(update={"time": 1795000000}) for run in first.runs]})
    assert Store(address).add([later]) == (1, 0)


def test_a_job_that_two_versions_have_recorded_counts_once_in_one_import(records, tmp_path: Path):
    (default,) = records([], load=0.0)
    later = default.model_copy(update={"hardware": default.hardware.model_copy(update={"bf16": "vector"})})
    store = Store(f"sqlite:///{tmp_path}/store.sqlite")
    assert store.add([default, later]) == (1, 1)
