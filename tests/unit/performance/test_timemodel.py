"""The time model: what it learns from times that follow a law, what it says of itself, and what it refuses."""

import hashlib
import json
import math
import sys

import pytest
from typer.testing import CliRunner

from lawful import HERE, SETS, case_of, law, measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Run, Summary
from modak_deploy.optimiser.cli import model as commands
from modak_deploy.performance.estimators import PARTS, Row, Sheet
from modak_deploy.performance.features import Case, difference
from modak_deploy.performance.fitting import Errors, fit, rows_of
from modak_deploy.performance.intervals import ENDLESS, lengths
from modak_deploy.performance.paths import MODEL_FILE
from modak_deploy.performance.records import Table
from modak_deploy.performance.timemodel import (
    ANY,
    LEAST,
    PHASES,
    TimeModel,
    file_of,
    logarithm_of,
    read_description,
    seconds_of,
    write_model,
)


@pytest.fixture(scope="module")
def fitted():
    table = measured()
    return table, fit(table, load_catalogue())


@pytest.fixture
def folder(fitted, tmp_path):
    _, model = fitted
    write_model(tmp_path / "model", model.description, model.contents)
    return tmp_path / "model"


CASE = Case("ai_training", "keras", Workload(model="w"), HERE, Configuration())


def test_a_law_is_learned_and_carried_to_a_workload_never_seen(folder):
    model = TimeModel(folder)
    for levers in SETS:
        start, compiling, unit = law(1e8, 1024, levers, 1.0)
        parts = model.phases(case_of(1e8, levers))
        assert parts["start"] == pytest.approx(start, rel=0.25)
        assert parts["compile"] == pytest.approx(compiling, rel=0.4)
        assert parts["steady"] == pytest.approx(unit, rel=0.5)
    faster = model.ratio(case_of(1e9, SETS[0]), case_of(1e9, SETS[1]), 100)
    assert faster.low < 1 / 0.8 < faster.high


def test_a_lever_that_one_workload_alone_was_measured_with_is_not_told(tmp_path):
    table = measured()
    (record, *_) = table.records
    once = record.model_copy(update={"configuration": Configuration(levers=["keras-tensorflow", "tf-onednn-off"])})
    both = Table([*table.records, once])
    model = fit(both, load_catalogue())
    write_model(tmp_path, model.description, model.contents)
    assert "without 'lever:tf-onednn-off'" in TimeModel(tmp_path).refusal(case_of(1e8, once.configuration.levers))


@pytest.mark.parametrize(("workloads", "known"), [(1, False), (2, False), (3, True)])
def test_an_engine_that_is_chosen_takes_three_workloads(workloads, known):
    """What it brings depends on the work; the one that is there without a choice tells of few workloads too."""
    rows = [
        Row(f"w{n}", CASE, f"s{n}", engine == "runs:own", {engine: 1.0, "flops": n, "training": 1.0}, 1,
            {"steady": 1.0}, 1.0)
        for n in range(4)
        for engine in ("runs:own", "runs:other")[: 1 + (n < workloads)]
    ]  # fmt: skip
    learning = Sheet.of(rows, "steady").whole().without(())
    assert ("runs:other" in learning.names) == known
    assert "runs:own" in Sheet.of(rows[:3], "steady").whole().without(()).names


def test_nothing_is_blamed_for_what_it_stands_beside():
    """A lever that brings nothing stays so where it was also measured beside one that costs much."""
    rows = [
        Row(f"w{n}", CASE, f"s{n}", levers == (), {**dict.fromkeys(levers, 1.0), "flops": n, "training": 1.0}, 1,
            {"steady": 1.0 * (1 + 9 * ("compiler:xla" in levers))}, 1.0)
        for n in range(4)
        for levers in ((), ("lever:a",), ("compiler:xla", "lever:xla"), ("compiler:xla", "lever:a", "lever:xla"))
    ]  # fmt: skip
    strong = Sheet.of(rows, "steady").whole().fitted("ridge", dict.fromkeys(PARTS, 100.0))
    base, lever = strong.predict([rows[0].inputs, rows[1].inputs])
    assert lever == pytest.approx(base, abs=1e-6)


def test_a_ratio_has_the_interval_of_what_differs(folder):
    default, other = case_of(1e9, SETS[0]), case_of(1e9, SETS[1])
    widths = {ANY: 0.5, "levers": 0.4, difference(default, other): 0.1}
    for name in (difference(default, other), "levers", ANY):
        changed(folder, lambda data: data.update(half_width_ratio=dict(widths)))
        ratio = TimeModel(folder).ratio(default, other, 100)
        assert ratio.high / ratio.value == pytest.approx(math.exp(widths.pop(name)))


def test_what_was_done_in_turns_is_compared_turn_by_turn():
    """A neighbour came for the later turns, in which the default was measured alone."""
    slow = {1: 1.0, 2: 1.0, 3: 1.0, 4: 2.0, 5: 2.0, 6: 2.0, 7: 2.0}

    def turns(record, factor, numbers):
        units = {number: slow[number] * factor for number in numbers}
        runs = [Run(total=3.1 + 2 * unit, first=0.1 + unit, later=[unit], block=turn) for turn, unit in units.items()]
        return record.model_copy(update={"runs": runs, "kind": "trial"})

    by_levers = {tuple(record.configuration.levers): record for record in measured(1).records}
    default, faster = (by_levers[tuple(levers)] for levers in SETS[:2])
    records = [turns(default, 1.0, range(1, 8)), turns(faster, 0.5, (1, 2, 3))]
    base, other = sorted(rows_of(records, load_catalogue()), key=lambda row: not row.default)
    assert base.seconds["steady"] == 2.0
    assert other.seconds["steady"] == pytest.approx(1.0)  # and not the 0.5 of its own turns
    assert other.total == pytest.approx(3.0 + 0.1 + 1.0 * other.units)
    few = [records[0], turns(faster, 0.5, (1, 2))]
    assert min(row.seconds["steady"] for row in rows_of(few, load_catalogue())) == 0.5


def test_publications_do_not_teach_seconds_where_own_measurements_are_enough():
    table, catalogue = measured(), load_catalogue()
    strange = [
        record.model_copy(update={"runs": [], "summary": Summary(mean=1e5 * number)})
        for number, record in enumerate(table.records, start=1)
    ]
    alone, both = fit(table, catalogue), fit(Table([*table.records, *strange]), catalogue)
    assert both.description.phases == alone.description.phases
    assert both.description.half_width == alone.description.half_width
    assert fit(Table(strange), catalogue).description.phases, "and they do where there is nothing else"


def test_a_workload_counts_once_however_much_was_measured_of_it():
    few, many = (Row(name, CASE, name, False, {"training": 1.0}, 1, {"steady": 1.0}, 1.0) for name in ("few", "many"))
    errors = Errors()
    errors.add([(few, 1.0), *[(many, 3.0)] * 9])
    assert errors.mean("between") == 2.0


def test_several_rows_of_one_configuration_can_be_fitted(tmp_path):
    """As they come from trials: the default is there by its trial and by the run itself."""
    table = measured()
    again = [
        record.model_copy(update={"configuration": record.configuration.model_copy(update={"threads": 1})})
        for record in table.records
    ]
    both = Table([*table.records, *again])
    model = fit(both, load_catalogue())
    assert "" not in model.description.half_width_ratio


def test_a_trial_is_judged_by_as_many_units_as_were_asked_for():
    """Its records have two units of each configuration, whatever the work at hand takes."""
    (record, *_) = measured().records
    asked = record.workload.model_copy(update={"units": 100})
    run = Run(total=3.0 + 0.9 + 0.5, first=0.9, later=[0.5])
    (row,) = rows_of([record.model_copy(update={"workload": asked, "runs": [run], "kind": "trial"})], load_catalogue())
    assert row.total == row.at(100) == pytest.approx(3.0 + 0.4 + 100 * 0.5)
    assert lengths(row) == (100,)


@pytest.mark.parametrize("kind", ["ridge", "boosting"])
def test_no_prediction_is_far_outside_of_what_was_learned(kind):
    """A linear model told 10^7 times too much of a configuration that lay outside in several features at once."""
    rows = [
        Row(f"w{n}", CASE, f"s{n}", True, {"flops": float(n), "training": 1.0}, 1, {"steady": 10.0**n}, 1.0)
        for n in range(4)
    ]
    learning = Sheet.of(rows, "steady").whole()
    strong = learning.fitted(kind, dict.fromkeys(PARTS, 0.3))
    low, high = strong.predict([{"flops": -100.0, "training": 1.0}, {"flops": 100.0, "training": 1.0}])
    assert math.log(1 / 4) - 1e-9 <= low <= high <= math.log(4000) + 1e-9


def test_a_stored_model_keeps_to_its_limits(folder):
    inputs = case_of(1e8, SETS[0])
    free = TimeModel(folder).phases(inputs)["steady"]
    changed(folder, lambda data: data["phases"]["steady"].update(limits=[math.log(free / 3), math.log(free / 2)]))
    assert TimeModel(folder).phases(inputs)["steady"] == pytest.approx(free / 2)


def test_impossible_sizes_are_not_learned():
    (record, *_) = measured().records
    huge = record.model_copy(update={"workload": record.workload.model_copy(update={"flops_per_sample": 1e308})})
    assert rows_of([huge], load_catalogue()) == []


@pytest.mark.parametrize("seconds", [0.0, 0.02, 4.0])
@pytest.mark.parametrize("phase", PHASES)
def test_what_is_learned_of_a_phase_gives_its_seconds_back(seconds, phase):
    assert seconds_of(logarithm_of(seconds, phase), phase) == pytest.approx(seconds, abs=2 * LEAST)


def test_milliseconds_of_compilation_are_no_more_than_noise():
    """A ten times longer compilation counts; that a first unit took 1 or 30 ms longer than the others does not."""
    noise = logarithm_of(0.03, "compile") - logarithm_of(0.001, "compile")
    assert noise < math.log(1.5) < logarithm_of(10.0, "compile") - logarithm_of(1.0, "compile")


def test_units_alone_teach_the_steady_phase_beside_whole_runs():
    """Published latencies, and runs that are known by their units, have no start; other wholes are left out."""
    table = measured()
    (record, *_) = table.records
    published = record.model_copy(update={"runs": [], "summary": Summary(mean=2.0, steady=True)})
    whole = record.model_copy(update={"runs": [], "summary": Summary(mean=2.0)})
    by_units = record.model_copy(update={"runs": [Run(later=[0.5, 0.4, 0.6])]})
    alone = {"published": published, "by units": by_units, "whole": whole}
    records = list(table.all_records())
    for name, one in alone.items():
        records.append(one.model_copy(update={"workload": one.workload.model_copy(update={"model": name})}))
    rows = {row.workload: row for row in rows_of(records, load_catalogue())}
    assert "whole" not in rows
    units = record.workload.units
    for name, unit in (("published", 2.0 / units), ("by units", 0.5)):
        row = rows[name]
        assert row.seconds == {"steady": unit}
        assert lengths(row) == (ENDLESS,)
        assert row.at(ENDLESS) == pytest.approx(ENDLESS * unit)
        assert row.at(units) == pytest.approx(units * unit)


def test_the_same_measurements_give_the_same_model(fitted):
    table, model = fitted
    again = fit(table, load_catalogue())
    assert again.description == model.description


def test_two_workloads_are_too_few():
    table = measured(2)
    with pytest.raises(InputError, match="at least three workloads of known size, and there are 2"):
        fit(table, load_catalogue())


def test_the_published_ratios_have_no_times_to_learn_from():
    from modak_deploy.performance.records import load_measurements

    rows = rows_of(load_measurements().records, load_catalogue())
    assert {"alexnet", "bert-base-uncased", "mnist-cnn", "squeezenet"} <= {row.workload for row in rows}
    assert "resnet50" not in {row.workload for row in rows}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"levers": ["keras-tensorflow", "tf-onednn-off"]}, "fitted without 'lever:tf-onednn-off'"),
        ({"flops": 1e13}, "far outside of what the model was fitted with"),
        ({"levers": ["keras-jax", "malloc-hugepages"]}, "to no run with all of this at once"),
    ],
)
def test_what_it_never_met_it_does_not_tell(folder, change, words):
    found = case_of(change.get("flops", 1e8), change.get("levers", SETS[0]))
    assert words in TimeModel(folder).refusal(found)


def test_hardware_of_unknown_speed_has_no_features():
    assert case_of(1e8, SETS[0], hardware=Hardware(cpu_model="Z80", cores=1)) is None


def test_a_model_without_steady_times_of_such_work_tells_nothing(folder):
    changed(folder, lambda data: data["phases"]["steady"]["ranges"].update(training=[0.0, 0.0]))
    inputs = {**case_of(1e8, SETS[0]), "training": 1.0}
    assert TimeModel(folder).refusal(inputs) == "the model was fitted to no steady times of training"


def file(folder, phase):
    (path,) = folder.glob(f"{phase}-*.onnx")
    return path


def test_a_tampered_file_is_refused(folder):
    path = file(folder, "steady")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"steady-\w+\.onnx: is not the file that was fitted"):
        TimeModel(folder)


def test_a_missing_file_is_refused(folder):
    file(folder, "start").unlink()
    with pytest.raises(InputError, match=r"start-\w+\.onnx: cannot be read"):
        TimeModel(folder)


def changed(folder, change):
    path = folder / "model.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_something_else_with_the_right_hash_is_refused(folder):
    digest = hashlib.sha256(b"no model").hexdigest()
    (folder / file_of("steady", digest)).write_bytes(b"no model")
    changed(folder, lambda data: data["phases"]["steady"].update(sha256=digest))
    with pytest.raises(InputError, match=r"steady-\w+\.onnx: not a model that can be run"):
        TimeModel(folder).phases(case_of(1e8, SETS[0]))


def test_without_what_runs_it_the_message_says_what_to_do(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime, which runs it, is not installed.*modak-deploy\[models\]"):
        TimeModel(folder).phases(case_of(1e8, SETS[0]))


def test_features_that_do_not_fit_are_refused(folder):
    changed(folder, lambda data: data["phases"]["steady"]["features"].pop())
    with pytest.raises(InputError, match=r"steady-\w+\.onnx: takes \d+ features, and model\.json names \d+"):
        TimeModel(folder).phases(case_of(1e8, SETS[0]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(features_version=99), "was fitted with features of version 99"),
        (lambda data: data.update(half_width=-1), "half_width: must be at least 0"),
        (lambda data: data.update(colour="red"), "unknown key 'colour'"),
        (lambda data: data.update(schema="modak.model/3"), "it is modak.model/3, and this modak reads modak.model/6"),
        (lambda data: data.pop("data"), "the key 'data' is required"),
        (lambda data: data["half_width_ratio"].pop("any"), "half_width_ratio lacks 'any'"),
        (lambda data: data["phases"]["steady"]["ranges"].pop("flops"), "the ranges lack 'flops'"),
    ],
)
def test_a_bad_description_is_refused_with_its_place(folder, change, words):
    changed(folder, change)
    with pytest.raises(InputError) as caught:
        read_description(folder)
    assert str(folder / "model.json") in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", pytest.param("[" * 100_000, id="nested deeply"), "{}"])
def test_a_description_that_is_none_is_refused(tmp_path, text):
    (tmp_path / MODEL_FILE).write_text(text)
    with pytest.raises(InputError, match=r"is not JSON: .*; fit the model anew|it is of no version"):
        read_description(tmp_path)


def test_who_has_read_the_description_before_still_finds_its_files(fitted, folder):
    """Of three models the files of the last two are there: one that is being read, and the one in its place."""
    _, model = fitted
    first = {path.name for path in folder.glob("*.onnx")}
    before = read_description(folder)

    def rewritten(text):
        contents, phases = {}, {}
        for phase, part in model.description.phases.items():
            content = model.contents[file_of(phase, part.sha256)] + text
            phases[phase] = part.model_copy(update={"sha256": hashlib.sha256(content).hexdigest()})
            contents[file_of(phase, phases[phase].sha256)] = content
        write_model(folder, model.description.model_copy(update={"phases": phases}), contents)
        return {path.name for path in folder.glob("*.onnx")}

    second = rewritten(b"2")
    assert first < second
    for phase, part in before.phases.items():
        name = file_of(phase, part.sha256)
        assert (folder / name).read_bytes() == model.contents[name]
    third = rewritten(b"3")
    assert not first & third
    assert len(third) == 2 * len(first)


def test_no_model_says_how_to_get_one(tmp_path):
    with pytest.raises(InputError, match="run 'modak model fit'"):
        TimeModel(tmp_path)


def test_fit_show_evaluate(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("modak_deploy.optimiser.evaluating.available_measurements", lambda: measured(4))
    fitted = CliRunner().invoke(commands, ["fit"], catch_exceptions=False).stdout
    assert f"written to {tmp_path}/modak/model" in fitted
    shown = CliRunner().invoke(commands, ["show"], catch_exceptions=False).stdout
    evaluated = CliRunner().invoke(commands, ["evaluate"], catch_exceptions=False).stdout
    assert shown == evaluated == fitted[: len(shown)]
    table = ("held out", "MAPE", "coverage", "regret", "net-3", "mean")
    assert all(words in shown for words in table)
    quick = CliRunner().invoke(commands, ["fit", "--no-evaluation"], catch_exceptions=False).stdout
    assert not any(words in quick for words in table[1:])
