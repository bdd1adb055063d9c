"""What a benchmark's driver wrote is read within bounds that it keeps itself, and what it amounts to."""

import json
import math

import pytest

from evidence_parts import digits_plan, repeat
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.evidence.benchmark import measurements_of
from modak_deploy.evidence.configurations import Wanted, plans_of
from modak_deploy.evidence.driver.runs import seconds
from modak_deploy.evidence.finished import Description, Finished
from modak_deploy.evidence.protocol import Protocol, gain, outcomes, read_repeats
from modak_deploy.model.base import LONGEST_SECONDS
from modak_deploy.performance.matching import own_phases
from modak_deploy.performance.records import Table


def test_the_driver_bounds_times_as_models_do():
    below = math.nextafter(LONGEST_SECONDS, 0)
    assert seconds(below)
    assert not any(seconds(value) for value in (LONGEST_SECONDS, 10**400, math.nan, 0, True))
    assert repeat("default", 0, below, cpu=1.0).wall == below
    with pytest.raises(ValueError, match="less than or equal to"):
        repeat("default", 0, math.nextafter(LONGEST_SECONDS, math.inf), cpu=1.0)


def test_of_a_single_run_nobody_knows_the_spread():
    (one,) = outcomes([repeat("x", 0, 2.0)])
    assert (one.mean.low, one.mean.value, one.mean.high) == pytest.approx((1.0, 2.0, 4.0))
    assert one.deviation is None


def test_a_mean_of_seconds_is_not_below_none():
    (one,) = outcomes([repeat("x", 0, 1.0), repeat("x", 1, 3.0)])
    assert one.mean.low == 0


@pytest.mark.parametrize("apart", [{"block": 100_000}, {"session": 1}])
def test_another_machine_is_no_outlier(apart):
    """Of three tasks the one on a machine where the gain is small was left out, and the gain was certain."""
    repeats = []
    for machine, (slow, fast) in enumerate([(10.0, 5.0), (10.0, 5.0), (20.0, 19.0)]):
        number = {name: machine * step for name, step in apart.items()}
        for block in range(5):
            where = {**number, "block": number.get("block", 0) + block}
            repeats += [repeat("default", wall=slow + block / 100, **where), repeat("x", wall=fast, **where)]
    default, other = outcomes(repeats)
    assert [(len(one.counted), one.outliers) for one in (default, other)] == [(15, 0), (15, 0)]
    assert gain(default, other).value == pytest.approx((2 * 2 * 20 / 19) ** (1 / 3), rel=0.01)


@pytest.mark.parametrize("apart", ["block", "session"])
def test_a_gain_is_none_of_two_machines(apart):
    """The second one takes twice as long, and what ran more often there seemed to be slower by that."""
    step = 100_000 if apart == "block" else 1
    ran = {"default": [(0, 10.0), (0, 10.1), (1, 20.0)], "x": [(0, 5.0), (1, 10.1), (1, 10.0)]}
    repeats = []
    for name, walls in ran.items():
        for number, (machine, wall) in enumerate(walls):
            block = 10 * number + len(name)  # other work disturbed all other rounds
            where = {
                "block": block,
                **({"session": machine} if apart == "session" else {"block": block + machine * step}),
            }
            repeats.append(repeat(name, wall=wall, **where))
    ratio = gain(*outcomes(repeats))
    assert ratio.value == pytest.approx(2.0, rel=0.01)
    assert 1.9 < ratio.low < ratio.high < 2.1


@pytest.mark.parametrize(
    ("block", "session", "tasks", "words"),
    [
        (2, 0, [], "round 3"),
        (-1, 0, [], "the warm-up"),
        (4, 0, ["3", "7"], "round 5 of task 3"),  # it was without a task, and that of number 7 was task 2
        (100_004, 0, ["3", "7"], "round 5 of task 7"),
        (-1, 0, ["3", "7"], "the warm-up"),
        (2, 1, [], "round 3 in attempt 2"),
        (-1, 1, [], "the warm-up in attempt 2"),
    ],
)
def test_a_repeat_tells_when_it_was_made(block, session, tasks, words):
    assert repeat("x", block, 1.0, session=session).turn(tasks) == words


def test_tasks_have_the_numbers_of_their_scheduler(tmp_path):
    def tasks(*names):
        description = Description(title="x", default="x", protocol=Protocol(), repeats=[*names])
        return Finished(description, [], [], tmp_path).tasks

    assert tasks("repeats.3.jsonl", "repeats.7.jsonl") == ["3", "7"]
    assert tasks("repeats.jsonl") == []


def test_outliers_are_those_beside_eight_runs_of_one_machine():
    repeats = [repeat("x", block, 2.0, session=session) for session in (0, 1) for block in range(8)]
    (one,) = outcomes([*repeats, repeat("x", 8, 3.0, session=1), repeat("x", 0, 9.0, session=2)])
    assert (one.outliers, max(one.walls)) == (1, 9.0)


def test_disturbed_runs_are_told_where_they_count():
    (one,) = outcomes([repeat("x", block, 2.0, disturbed=True) for block in range(3)])
    assert (len(one.counted), one.disturbed, one.is_disturbed) == (3, 3, True)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    def refuse(self, **options):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "repeats.jsonl").write_text("")
    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    with pytest.raises(InputError, match=r"repeats\.jsonl: cannot be read: Permission denied"):
        read_repeats(tmp_path)


def test_a_unit_without_a_time_is_no_repeat(tmp_path):
    line = json.loads(repeat("x", 0, 2.0, first=1.0, later=[0.5]).model_dump_json())
    (tmp_path / "repeats.jsonl").write_text(json.dumps(line | {"later": [0.0]}) + "\n")
    with pytest.raises(InputError, match=r"repeats\.jsonl:1: not a repeat"):
        read_repeats(tmp_path)


def recorded(folder, asked, **more):
    plan = digits_plan(application={"workload": {"model": "mnist-cnn", "unit": "epoch", "units": asked}})
    name = plan.chosen.name
    repeats = [repeat(name, block, 3.0, steady=0.001, compile=0.5, elapsed=2.5, **more) for block in range(3)]
    description = Description(title="x", default=name, protocol=Protocol(), plans=[plan])
    (record,) = measurements_of(Finished(description, repeats, outcomes(repeats), folder), load_catalogue())
    return record


@pytest.mark.parametrize("counted", [1500, 500, 4])
def test_units_that_the_launcher_counts_are_recorded_as_those_of_the_workload(tmp_path, counted):
    record = recorded(tmp_path, 4, units=counted)
    phases = own_phases(record.runs[0], record)
    assert phases.steady == pytest.approx(0.001 * counted / 4)
    assert phases.total == pytest.approx(3.0)


def test_of_a_single_unit_the_whole_is_recorded(tmp_path):
    """A launcher that counts steps tells nothing of it: the run is not its start and one step."""
    record = recorded(tmp_path, 1, units=1500)
    assert own_phases(record.runs[0], record).total == pytest.approx(3.0)
    assert not record.by_phases


def test_a_record_says_how_it_was_measured(tmp_path):
    assert recorded(tmp_path, 1, compared=2).provenance.method == (
        "modak benchmark: whole processes in interleaved rounds of random order on one node, wall time; disturbed "
        "runs and outliers are left out, and results were compared with the default's."
    )
    method = recorded(tmp_path, 1, disturbed=True).provenance.method
    assert "other work disturbed the runs" in method
    assert "results were not compared" in method


MIDNIGHT = 1_795_305_600


@pytest.mark.parametrize("began", [MIDNIGHT, MIDNIGHT - 10])
def test_a_benchmark_through_midnight_is_one(tmp_path, began):
    """Its configurations were recorded under two days, and no longer compared round by round."""
    application = {"workload": {"model": "new", "units": 4}}
    catalogue = load_catalogue()
    plans = plans_of(digits_plan(application=application), Wanted(levers=["malloc-hugepages"]), catalogue)[:2]
    names = [plan.chosen.name for plan in plans]
    repeats = []
    for block in range(6):
        for number, name in enumerate(names):
            wall = (10.0 - number) * (1 + 0.1 * (block % 3) + 0.001 * block)
            one = repeat(name, block, wall)
            repeats.append(one.model_copy(update={"time": began + 30 * block + 15 * number}))
    description = Description(title="x", default=names[0], protocol=Protocol(), plans=plans)
    records = measurements_of(Finished(description, repeats, outcomes(repeats), tmp_path), catalogue)
    assert len({record.provenance.date for record in records}) == 1
    plan = digits_plan(application=application, measurements=Table(records))
    assert plan.chosen.name == names[1]
    assert plan.prediction.gain.low == pytest.approx(10 / 9, rel=0.01)
