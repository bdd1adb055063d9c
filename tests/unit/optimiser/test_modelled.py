"""The time model in a decision: it speaks where nothing was measured, and only when it fits."""

from datetime import UTC, datetime

import pytest

from lawful import measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.table import render
from modak_deploy.performance.fitting import fit
from modak_deploy.performance.records import Table
from modak_deploy.performance.store import Filter, Store
from modak_deploy.performance.timemodel import TimeModel, write_model

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TABLE = measured(16, spread=0.02)
FACTS = {
    "hostname": "here",
    "glibc": "2.36",
    "python": "/usr/bin/python3",
    "node": {"cores": 8, "microarchitecture": "zen4", "cpu_model": "AMD EPYC 9654 96-Core Processor"},
    "packages": {"keras": "3.15.1", "tensorflow": "2.21.0", "jax": "0.10.2"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model = fit(TABLE, load_catalogue())
    where = tmp_path_factory.mktemp("model")
    write_model(where, model.description, model.contents)
    return where


def plan(folder, *, table=TABLE, model="new", units=200, catalogue=None, **request):
    workload = {"model": model, "units": units, "samples": 4096, "batch": 64, "flops_per_sample": 3e8,
                "bytes_per_sample": 3e7, "parameters": 10**6, "layers": 10}  # fmt: skip
    deployment = Deployment.model_validate(
        {
            "application": {"name": "a", "script": "a.py", "framework": {"name": "keras"}, "workload": workload},
            "request": request,
        }
    )
    return make_plan(deployment, Facts.model_validate(FACTS), [], now=NOW, measurements=table, model=folder,
                     catalogue=catalogue)  # fmt: skip


def test_a_new_workload_is_decided_by_the_model(folder):
    made = plan(folder)
    assert made.chosen.name == "keras-tensorflow+malloc-hugepages"
    assert made.prediction.basis == "model"
    assert made.gain.low > 1
    assert made.prediction.low < made.prediction.seconds < made.prediction.high
    parts = made.prediction.start + made.prediction.compile + 200 * made.prediction.steady
    assert parts == pytest.approx(made.prediction.seconds, rel=0.01)
    assert made.versions.model is not None
    assert "by the model" in made.reason
    assert "time model" in " ".join(render(made, explain=True).split())


def test_a_measurement_beats_the_model(folder):
    made = plan(folder, model="net-3")
    assert made.prediction.basis in ("measurement", "rule")


def test_a_lever_that_the_model_never_met_is_not_chosen_by_it(folder):
    bases = {r.candidate.name: r.prediction.basis for r in plan(folder).alternatives}
    assert bases["keras-tensorflow+tf-onednn-off"] == "none"
    assert bases["keras-jax"] == "model"


def test_pairs_are_looked_at_where_the_model_can_tell_of_them(folder):
    names = {r.candidate.name for r in plan(folder).alternatives}
    assert "keras-jax+malloc-hugepages" in names


def test_a_model_is_used_though_more_was_measured_since_and_not_once_something_was_removed(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/measurements.sqlite")
    store.add(TABLE.records)
    model = fit(store, load_catalogue())
    write_model(tmp_path / "model", model.description, model.contents)
    record = TABLE.records[0]
    other = record.model_copy(update={"workload": record.workload.model_copy(update={"model": "another"})})
    store.add([other])
    made = plan(tmp_path / "model", table=store)
    assert made.prediction.basis == "model"
    assert made.versions.model == TimeModel(tmp_path / "model").version

    store.forget(Filter(workload="another"))
    store.add([other])
    made = plan(tmp_path / "model", table=store)
    store.close()
    assert made.prediction.basis == "none"
    assert made.versions.model is None
    assert "measurements that were removed since" in {r.name: r.reason for r in made.rejected}["the time model"]


def test_a_model_of_other_measurements_is_not_used_and_said_so(folder):
    made = plan(folder, table=Table(TABLE.records[1:]))
    assert made.prediction.basis == "none"
    assert "it was fitted in another place" in {r.name: r.reason for r in made.rejected}["the time model"]


ADDED = """
version: 1
processors:
  - {name: ours, microarchitecture: zen4, cores: 8, frequency: 2, bandwidth: 100, source: its data sheet}
"""
REPLACED = """
version: 1
microarchitectures:
  - {name: zen4, fp32: 1}
"""


def test_a_catalogue_that_only_adds_keeps_the_model(folder, tmp_path):
    (tmp_path / "hardware.yaml").write_text(ADDED)
    made = plan(folder, catalogue=load_catalogue([tmp_path]))
    assert made.prediction == plan(folder).prediction


def test_a_catalogue_that_replaces_what_the_model_goes_by_does_not(folder, tmp_path):
    (tmp_path / "hardware.yaml").write_text(REPLACED)
    made = plan(folder, catalogue=load_catalogue([tmp_path]))
    assert made.prediction.basis == "none"
    reason = {r.name: r.reason for r in made.rejected}["the time model"]
    assert reason.endswith("of which the request's replaces what the model goes by")


def test_a_tampered_model_is_not_used_and_said_so(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (steady,) = tmp_path.glob("steady-*.onnx")
    steady.write_bytes(b"something else")
    made = plan(tmp_path)
    assert made.prediction.basis == "none"
    assert "is not the file that was fitted" in {r.name: r.reason for r in made.rejected}["the time model"]


def test_no_model_changes_nothing(tmp_path):
    assert plan(tmp_path) == plan(None)


def test_the_same_model_gives_the_same_plan(folder):
    assert plan(folder).to_json() == plan(folder).to_json()
