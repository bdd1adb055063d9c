"""The time model keeps up with what is measured, and never at the cost of what was measured."""

import fcntl
import os
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lawful import measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.evidence import benchmark
from modak_deploy.evidence.command import recorded
from modak_deploy.performance import fitting, refitting
from modak_deploy.performance.cli import measurements
from modak_deploy.performance.fitting import TooFewError, fit
from modak_deploy.performance.modelling import report
from modak_deploy.performance.paths import FITTING_VARIABLE, model_folder
from modak_deploy.performance.records import Table, load_measurements, to_line
from modak_deploy.performance.refitting import GROWTH, keep_current
from modak_deploy.performance.store import Filter, Store
from modak_deploy.performance.timemodel import Held, TimeModel, read_description

RECORDS = list(measured(24).records)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("MODAK_MEASUREMENTS", raising=False)
    monkeypatch.delenv(FITTING_VARIABLE, raising=False)
    opened = Store()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def fitted():
    return fit(Table(RECORDS), load_catalogue())


@pytest.fixture(autouse=True)
def quick(monkeypatch, fitted, request):
    """Fitting takes seconds, and what is fitted does not matter here: every model but one is the same."""

    def fit_quickly(measurements, catalogue):
        said = {"measurements": measurements.count, "origin": measurements.origin, "data": measurements.version}
        return replace(fitted, description=fitted.description.model_copy(update=said))

    if "real_fit" not in request.fixturenames:
        monkeypatch.setattr(refitting, "fit", fit_quickly)


@pytest.fixture
def real_fit(monkeypatch):
    """Say that a test wants to fit: with few workloads held out, as all that ships is fitted to."""
    monkeypatch.setattr(fitting, "FOLDS", 3)


def kept(notices=None):
    notices = [] if notices is None else notices
    return keep_current(notices.append)


def test_it_is_fitted_to_the_first_measurements_and_again_when_enough_has_come(store, real_fit):
    half = len(RECORDS) // 2
    store.add(RECORDS[:half])
    notices = []
    assert kept(notices)
    first = read_description(model_folder())
    assert first.measurements == len(load_measurements().records) + half
    assert notices == [f"fitting the time model to {first.measurements} measurements"]
    assert "steady" in TimeModel(model_folder()).description.phases

    few = first.measurements // GROWTH - 1
    store.add(RECORDS[half : half + few])
    assert not kept()
    assert read_description(model_folder()) == first
    store.add(RECORDS[half + few :][: few + 2])
    assert kept()
    assert read_description(model_folder()).measurements > first.measurements
    assert not kept()


def test_it_is_fitted_again_when_measurements_were_taken_away_or_the_catalogue_is_another(store):
    store.add(RECORDS)
    assert kept()
    store.forget(Filter(workload=str(RECORDS[0].workload.model)))
    assert kept()
    described = read_description(model_folder())
    assert described.catalogue == load_catalogue().version
    (model_folder() / "model.json").write_text(
        described.model_copy(update={"catalogue": "0" * 64}).model_dump_json(by_alias=True), encoding="utf-8"
    )
    assert kept()


def test_a_broken_model_is_fitted_again(store):
    store.add(RECORDS)
    assert kept()
    next(model_folder().glob("steady-*.onnx")).write_bytes(b"broken")
    assert kept()
    TimeModel(model_folder())


def test_what_the_model_was_worth_stays_with_the_next_one(store):
    half = len(RECORDS) // 2
    store.add(RECORDS[:half])
    assert kept()
    described = read_description(model_folder())
    worth = [Held(workload="net", units=4, records=6, predicted=6, error=0.2)]
    judged = described.model_copy(update={"held": worth, "held_with": described.measurements})
    (model_folder() / "model.json").write_text(judged.model_dump_json(by_alias=True), encoding="utf-8")
    store.add(RECORDS[half:])
    assert kept()
    now = read_description(model_folder())
    assert (now.held, now.held_with) == (worth, described.measurements)
    assert f"evaluation with {described.measurements} measurements" in report(now)


def test_measurements_that_are_removed_while_it_is_fitted_are_not_learned(store, monkeypatch):
    quickly = refitting.fit

    def slow(measurements, catalogue):
        fitted = quickly(measurements, catalogue)
        store.forget(Filter(workload=str(RECORDS[0].workload.model)))
        return fitted

    monkeypatch.setattr(refitting, "fit", slow)
    store.add(RECORDS)
    notices = []
    assert kept(notices)
    described = read_description(model_folder())
    assert [int(text.split()[-2]) > described.measurements for text in notices] == [True, False]
    assert not kept()


def test_the_worth_of_a_model_of_other_measurements_is_not_told(store):
    store.add(RECORDS)
    assert kept()
    described = read_description(model_folder())
    worth = [Held(workload="net", units=4, records=6, predicted=6, error=0.2)]
    judged = described.model_copy(update={"held": worth, "held_with": described.measurements})
    (model_folder() / "model.json").write_text(judged.model_dump_json(by_alias=True), encoding="utf-8")
    store.forget(Filter(workload=str(RECORDS[0].workload.model)))
    assert kept()
    assert read_description(model_folder()).held == []


def test_nothing_is_fitted_where_the_user_does_it(store, monkeypatch):
    monkeypatch.setenv(FITTING_VARIABLE, "manual")
    store.add(RECORDS)
    assert not kept()


def test_each_store_has_a_model_of_its_own(store, monkeypatch, tmp_path):
    store.add(RECORDS)
    assert kept()
    ours = read_description(model_folder())
    address = f"sqlite:///{tmp_path}/team.sqlite"
    team = Store(address)
    team.add(RECORDS[:8])
    team.close()
    monkeypatch.setenv("MODAK_MEASUREMENTS", address)
    assert kept()
    assert read_description(model_folder()).origin != ours.origin
    monkeypatch.delenv("MODAK_MEASUREMENTS")
    assert read_description(model_folder()) == ours
    assert not kept()


def test_nothing_is_fitted_without_the_libraries(store, monkeypatch):
    monkeypatch.setattr(refitting, "missing_library", lambda: "skl2onnx")
    store.add(RECORDS)
    notices = []
    assert not kept(notices)
    assert notices == []
    assert not model_folder().exists()


def test_too_many_measurements_are_left_to_the_command(store, monkeypatch):
    monkeypatch.setattr(refitting, "MOST", 3)
    store.add(RECORDS)
    notices = []
    assert not kept(notices)
    assert notices == []
    monkeypatch.setattr(refitting, "MOST", 10_000)
    assert kept()
    monkeypatch.setattr(refitting, "MOST", 3)
    store.forget(Filter(workload=str(RECORDS[0].workload.model)))
    assert not kept(notices)
    (notice,) = notices
    assert notice.endswith("run 'modak model fit'")


def test_two_processes_do_not_fit_at_once(store):
    store.add(RECORDS)
    model_folder().mkdir(parents=True)
    handle = os.open(model_folder() / ".fitting", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert not kept()
    finally:
        os.close(handle)
    assert kept()


@pytest.mark.parametrize(
    ("step", "error", "text"),
    [
        ("write_model", InputError("no room"), "no room"),
        ("write_model", OSError("no room"), "no room"),
        ("fit", ValueError("singular matrix"), "singular matrix"),
        ("fit", KeyboardInterrupt(), "it was stopped"),
    ],
)
def test_what_goes_wrong_is_told_and_fails_nothing(store, monkeypatch, step, error, text):
    def failing(*arguments):
        raise error

    monkeypatch.setattr(refitting, step, failing)
    store.add(RECORDS)
    notices = []
    assert not kept(notices)
    assert notices[1:] == [f"the time model is not fitted anew: {text}"]


def test_what_has_failed_is_tried_again_when_more_was_measured(store, monkeypatch):
    quickly, notices = refitting.fit, []

    def failing(*arguments):
        raise ValueError("singular matrix")

    monkeypatch.setattr(refitting, "fit", failing)
    store.add(RECORDS[:2])
    assert not kept(notices)
    assert not kept(notices)
    assert len(notices) == 2
    store.add(RECORDS[2:50])
    assert not kept(notices)
    assert len(notices) == 4
    monkeypatch.setattr(refitting, "fit", quickly)
    store.add(RECORDS[50:])
    assert kept(notices)
    assert not (model_folder() / refitting.FAILED).exists()


def test_too_few_workloads_are_no_fault(monkeypatch):
    def too_few(*arguments):
        raise TooFewError("a time model needs measurements of at least three workloads of known size")

    monkeypatch.setattr(refitting, "fit", too_few)
    assert not kept()
    assert not (model_folder() / "model.json").exists()


def test_it_keeps_up_with_what_is_imported(tmp_path):
    (tmp_path / "records.jsonl").write_text("".join(map(to_line, RECORDS)), encoding="utf-8")
    count = len(load_measurements().records) + len(RECORDS)
    for told in (f"fitting the time model to {count} measurements", ""):  # the second time, nothing is new
        ended = CliRunner().invoke(measurements, ["import", str(tmp_path / "records.jsonl")])
        assert ended.exit_code == 0, ended.output
        assert ended.stderr.strip() == told
        assert read_description(model_folder()).measurements == count


def test_it_keeps_up_with_what_is_forgotten(store):
    store.add(RECORDS)
    assert kept()
    before = read_description(model_folder())
    workload = str(RECORDS[0].workload.model)
    ended = CliRunner().invoke(measurements, ["forget", "--workload", workload])
    assert ended.exit_code == 0, ended.output
    described = read_description(model_folder())
    assert ended.stderr.strip() == f"fitting the time model to {described.measurements} measurements"
    assert described.measurements < before.measurements
    assert described.origin != before.origin
    ended = CliRunner().invoke(measurements, ["forget", "--workload", workload])  # the second time, nothing is left
    assert (ended.exit_code, ended.stderr) == (0, ""), ended.output
    assert read_description(model_folder()) == described


def test_it_keeps_up_with_what_a_benchmark_records(monkeypatch):
    monkeypatch.setattr(benchmark, "measurements_of", lambda finished, catalogue: RECORDS)
    notices = []
    assert recorded(None, notices.append).startswith(f"{len(RECORDS)} new measurements, 0 known already")
    assert recorded(None, notices.append).startswith("0 new measurements")
    assert notices == [f"fitting the time model to {len(load_measurements().records) + len(RECORDS)} measurements"]
