"""What a deployed job took becomes a measurement that the next Plan knows."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.job import JobResult
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.performance.cli import measurements
from modak_deploy.performance.matching import own_phases
from modak_deploy.performance.recording import is_learnt_from, records_of
from modak_deploy.performance.records import Table, available_measurements

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEPLOYMENT = Deployment.model_validate(
    {
        "application": {
            "name": "net",
            "script": "net.py",
            "framework": {"name": "keras"},
            "workload": {"model": "my-net", "units": 4, "samples": 100},
        },
        "request": {"require_levers": ["malloc-hugepages"]},
    }
)
FACTS = Facts.model_validate(
    {
        "hostname": "here",
        "glibc": "2.36",
        "python": "/usr/bin/python3",
        "node": {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC 9654"},
        "packages": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0", "numpy": "2.4.6"},
    }
)
METRICS = {
    "first_epoch_seconds": 2.0,
    "later_epoch_seconds": [1.0, 1.1, 0.9],
    "accuracy": 0.98,
    "backend": "tensorflow",
}


def plan(table=None):
    return make_plan(DEPLOYMENT, FACTS, [], now=NOW, measurements=table or Table([]))


@pytest.fixture
def results(tmp_path):
    """Return the function that writes a job's results folder."""

    def write(number=1, **change):
        folder = tmp_path / f"results-{number}"
        folder.mkdir()
        made = plan()
        job = {
            "id": str(number), "scheduler": "process", "tag": made.tag(), "state": "completed", "exit_code": 0,
            "submitted": 1795208280.0, "started": 1795208281.8, "ended": 1795208290.3, "seconds": 8.5,
            "directory": "/somewhere", "metrics": METRICS,
        }  # fmt: skip
        (folder / "plan.json").write_text(made.to_json())
        (folder / "job.json").write_text(JobResult.model_validate({**job, **change}).model_dump_json())
        return folder

    return write


def record(folder):
    (one,) = records_of(folder, load_catalogue(), first="first_epoch_seconds", later="later_epoch_seconds")
    return one


def test_a_job_becomes_a_measurement(results):
    found = record(results())
    assert found.workload == DEPLOYMENT.application.workload
    assert found.configuration.levers == ["keras-tensorflow", "malloc-hugepages"]
    assert (found.hardware.microarchitecture, found.hardware.cores) == ("zen4", 8)
    assert found.software == {"keras": "3.15.1", "tensorflow": "2.21.0"}
    (run,) = found.runs
    assert (run.total, run.first, run.later, run.accuracy) == (8.5, 2.0, [1.0, 1.1, 0.9], 0.98)
    assert run.start == pytest.approx(8.5 - 5.0)
    assert found.provenance.source == "job 1 of net on localhost"
    assert found.provenance.date == "2026-11-20"


def test_the_next_plan_knows_it(results):
    before, after = plan(), plan(Table([record(results(n)) for n in (1, 2, 3)]))
    assert before.prediction.basis == "none"
    assert after.prediction.basis == "measurement"
    assert after.prediction.seconds == pytest.approx(3.5 + 1.0 + 4 * 1.0)


def test_without_phases_the_whole_counts(results):
    (run,) = record(results(metrics={"loss": 1.0})).runs
    assert (run.total, run.first, run.later) == (8.5, None, [])


@pytest.mark.parametrize(
    ("asked", "reported", "first", "later"),
    [
        (1, [3.0, 2.0, 2.0, 2.0], None, []),  # the run is the one unit, which is what a workload has by itself
        (3, [3.0, 2.0, 2.0, 2.0, 2.0, 2.0], 5.0, [4.0, 4.0]),
        (6, [3.0, 2.0, 2.0], 2.0, [1.0] * 5),  # as where it stops early
        (2000, [3.0, 2.0, 2.0, 2.0], None, []),
        (4, [3.0, 2.5, 2.0, 1.0], 3.0, [2.5, 2.0, 1.0]),
    ],
)
def test_epochs_that_are_no_units_of_the_workload_are_not_taken_for_them(results, asked, reported, first, later):
    """A run of 20 s whose document gave no number of units was taken for one epoch of 5 s, and foretold so."""
    folder = results(seconds=20.0, metrics={"first_epoch_seconds": reported[0], "later_epoch_seconds": reported[1:]})
    data = json.loads((folder / "plan.json").read_text())
    data["application"]["workload"]["units"] = asked
    made = Plan.model_validate(data)
    (folder / "plan.json").write_text(made.to_json())
    job = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**job, "tag": made.tag()}))
    one = record(folder)
    (run,) = one.runs
    assert run.first == (first and pytest.approx(first))
    assert run.later == pytest.approx(later)
    if asked != 4:
        assert own_phases(run, one).total == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "failed"}, "needs a job that completed, and this one is failed"),
        ({"seconds": None}, "seconds: the job.s script measured none, or its clock was set"),
        ({"seconds": 0.0}, "seconds: the job.s script measured none, or its clock was set"),
        ({"tag": "modak-0123456789abcdef"}, "is of another job than plan.json"),
    ],
)
def test_what_is_no_measurement_is_refused(results, change, words):
    with pytest.raises(InputError, match=words):
        record(results(**change))


def test_a_workload_without_a_name_is_refused(results):
    folder = results()
    data = json.loads((folder / "plan.json").read_text())
    data["application"]["workload"]["model"] = None
    (folder / "plan.json").write_text(json.dumps(data))
    with pytest.raises(InputError):
        record(folder)


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"plan\.json: file not found"):
        record(tmp_path)


def test_the_command_adds_to_the_store(results, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("MODAK_MEASUREMENTS", raising=False)
    words = ["record", str(results(1)), str(results(2))]
    done = CliRunner().invoke(measurements, words, catch_exceptions=False)
    assert "2 new, 0 known already" in done.output
    assert len(available_measurements().of_workload("my-net")) == 2


@pytest.mark.parametrize(
    "metrics",
    [
        {"first_epoch_seconds": 5000.0, "later_epoch_seconds": [1.0]},
        {"first_epoch_seconds": 1.0, "later_epoch_seconds": [1.0, 8.0]},
    ],
)
def test_units_longer_than_their_job(results, metrics):
    with pytest.raises(
        InputError, match=r"job\.json: metrics\.first_epoch_seconds: with later_epoch_seconds .* the job is"
    ):
        record(results(metrics=metrics))


@pytest.mark.parametrize(
    "text", ["[" * 400_000, '{"seconds": ' + "9" * 5000 + "}", '{"seconds": 1e999}', '{"started": 1e300}']
)
def test_a_result_that_is_no_result(results, text):
    folder = results()
    (folder / "job.json").write_text(text)
    with pytest.raises(InputError) as caught:
        record(folder)
    assert str(caught.value).startswith(f"{folder}/job.json")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"load": 0.0}, True),
        ({"load": 0.8}, True),
        ({"load": 1.5}, False),
        ({}, False),
        ({"load": 0.0, "state": "failed"}, False),
        ({"load": 0.0, "seconds": None}, False),
    ],
)
def test_a_job_is_recorded_by_itself_where_it_ran_undisturbed(results, change, expected):
    folder = results(**change)
    result = JobResult.model_validate_json((folder / "job.json").read_text())
    assert is_learnt_from(plan(), result) == expected
    if expected:
        assert records_of(folder, load_catalogue())[0].runs[0].load == change["load"]


def test_a_workload_without_a_name_and_an_array_are_not_recorded(results):
    result = JobResult.model_validate_json((results(load=0.0) / "job.json").read_text())
    made = plan()
    workload = made.application.workload.model_copy(update={"model": None})
    assert not is_learnt_from(
        made.model_copy(update={"application": made.application.model_copy(update={"workload": workload})}), result
    )
    array = made.model_copy(update={"job": made.job.model_copy(update={"array": "1-3"})})
    assert not is_learnt_from(array, result)
