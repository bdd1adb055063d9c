"""The time model by devices and phases: GPUs apart from processors, and what units alone tell of a whole job."""

import pytest

from lawful import SETS, case_of, measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.measurement import Configuration, Hardware, Run
from modak_deploy.performance.fitting import fit, rows_of
from modak_deploy.performance.intervals import ENDLESS
from modak_deploy.performance.modelling import report
from modak_deploy.performance.records import Table
from modak_deploy.performance.timemodel import TimeModel, write_model

GPU = Hardware(cpu_model="Intel Xeon", cores=16, accelerator="NVIDIA H100 80GB HBM3", accelerators=1)


def test_units_alone_tell_what_it_took_to_make_them_ready():
    """The first unit is longer by that; there is no start, and the whole is as long as the units and that."""
    (record, *_) = measured().records
    ready = record.model_copy(update={"runs": [Run(first=5.5, later=[0.5, 0.4, 0.6]), Run(first=6.5, later=[0.5])]})
    (row,) = rows_of([ready], load_catalogue())
    assert row.seconds == {"steady": 0.5, "compile": 5.5}
    assert row.at(ENDLESS) == pytest.approx(ENDLESS * 0.5 + 5.5)


def test_the_start_is_told_of_a_live_lever_that_no_whole_run_had(tmp_path):
    """What was measured by units alone has no start, and a live lever is switched after it."""
    records, levers = [], ["keras-tensorflow", "keras-openvino"]
    for record in measured(spread=0.0).all_records():
        records.append(record)
        if record.configuration.levers == levers[:1]:
            unit = record.runs[0].later[0]
            alone = {"configuration": Configuration(levers=levers), "runs": [Run(first=2 + unit / 2, later=[unit / 2])]}
            default = {"runs": [Run(first=unit, later=[unit])]}
            source = record.provenance.model_copy(update={"source": "in turns"})
            records += [record.model_copy(update={**runs, "provenance": source}) for runs in (alone, default)]
    table = Table(records)
    model = fit(table, load_catalogue())
    write_model(tmp_path, model.description, model.contents)
    told = TimeModel(tmp_path)
    inputs = case_of(1e8, levers)
    assert told.refusal(inputs) is None
    assert told.phases(inputs)["start"] == told.phases(case_of(1e8, levers[:1]))["start"]
    assert told.ratio(case_of(1e8, levers[:1]), inputs, 10**6).value == pytest.approx(2.0, rel=0.3)


def on_gpu(record, factor):
    """Return the record as a GPU's, whose levers bring the opposite."""
    faster = [
        run.model_copy(update={"later": [unit / factor for unit in run.later], "first": run.first / factor})
        for run in record.runs
    ]
    return record.model_copy(update={"hardware": GPU, "runs": faster})


def test_gpus_are_told_apart_from_processors(tmp_path):
    """Of processors nothing changes by what was measured on a GPU, where a lever brings something else."""
    table = measured(spread=0.0)
    alone = fit(table, load_catalogue())
    assert alone.description.gpu is None
    slower = {"malloc-hugepages"}
    of_gpu = [on_gpu(one, 5.0 if slower & set(one.configuration.levers) else 10.0) for one in table.all_records()]
    both = Table([*table.all_records(), *of_gpu])
    model = fit(both, load_catalogue())
    files = {phase: part.sha256 for phase, part in model.description.phases.items()}
    assert files == {phase: part.sha256 for phase, part in alone.description.phases.items()}
    write_model(tmp_path, model.description, model.contents)
    told = TimeModel(tmp_path)
    default, lever = (case_of(1e8, levers, hardware=GPU) for levers in SETS[:2])
    assert told.ratio(default, lever, 10**6).value == pytest.approx(0.5 / 0.8, rel=0.1)
    assert told.ratio(*(case_of(1e8, levers) for levers in SETS[:2]), 10**6).value == pytest.approx(1 / 0.8, rel=0.1)
    assert told.records(default) == len(of_gpu)
    assert "on GPUs:" in report(model.description)
    assert {path.name for path in tmp_path.glob("*.onnx")} == set(model.contents)


def test_without_measurements_of_gpus_nothing_is_told_of_one(tmp_path):
    table = measured()
    model = fit(table, load_catalogue())
    write_model(tmp_path, model.description, model.contents)
    inputs = case_of(1e8, SETS[0], hardware=GPU)
    assert TimeModel(tmp_path).refusal(inputs) == "the model was fitted to too little work on GPUs"
