"""The time model: what it learns from times that follow a law, what it says of itself, and what it refuses."""

import json
import math

import pytest
from typer.testing import CliRunner

from lawful import HERE, SETS, law, measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware
from modak_deploy.optimiser.cli import model as commands
from modak_deploy.performance.estimators import PARTS, Row
from modak_deploy.performance.estimators import fitted as fitted_to
from modak_deploy.performance.features import Case, change, features
from modak_deploy.performance.fitting import fit, rows_of
from modak_deploy.performance.intervals import HeldOut, quantile, widths_of
from modak_deploy.performance.records import Table
from modak_deploy.performance.timemodel import ANY, TimeModel, read_description, write_model


@pytest.fixture(scope="module")
def fitted():
    table = measured()
    return table, fit(table.all_records(), table.version, load_catalogue())


@pytest.fixture
def folder(fitted, tmp_path):
    _, model = fitted
    write_model(tmp_path / "model", model.description, model.contents)
    return tmp_path / "model"


def case_of(flops, levers, samples=1024, hardware=HERE):
    workload = Workload(
        model="new", units=4, samples=samples, batch=64, parameters=10**6, layers=10,
        flops_per_sample=flops, bytes_per_sample=flops / 10,
    )  # fmt: skip
    return features(Case("ai_training", "keras", workload, hardware, Configuration(levers=levers)), load_catalogue())


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
    model = fit(both.all_records(), both.version, load_catalogue())
    write_model(tmp_path, model.description, model.contents)
    assert "without 'lever:tf-onednn-off'" in TimeModel(tmp_path).refusal(case_of(1e8, once.configuration.levers))


def test_nothing_is_blamed_for_what_it_stands_beside():
    """A lever that brings nothing stays so where it was also measured beside one that costs much."""
    rows = [
        Row(f"w{n}", CASE, f"s{n}", levers == (), {**dict.fromkeys(levers, 1.0), "flops": n, "training": 1.0}, 1,
            {"steady": 1.0 * (1 + 9 * ("compiler:xla" in levers))}, 1.0)
        for n in range(4)
        for levers in ((), ("lever:a",), ("compiler:xla", "lever:xla"), ("compiler:xla", "lever:a", "lever:xla"))
    ]  # fmt: skip
    strong = fitted_to(rows, "steady", "ridge", dict.fromkeys(PARTS, 100.0))
    base, lever = strong.predict([rows[0].inputs, rows[1].inputs])
    assert lever == pytest.approx(base, abs=1e-6)


def told_of(default, *others, workload):
    """Return one setting; each is the measured seconds, the told ones, and the levers that are on."""
    rows = [(True, default), *((False, other) for other in others)]
    return [
        HeldOut(
            Row(workload, CASE, workload, is_default, dict.fromkeys(names, 1.0), 1, {"steady": measured}, measured),
            1,
            seconds,
        )
        for is_default, (measured, seconds, *names) in rows
    ]


def test_each_workload_counts_once_for_the_interval_of_a_ratio():
    """Levers were told 1.1 times too high in one workload, twice, and 1.2 and 1.3 times too low in two others."""
    told = [
        *told_of((4.0, 4.0), (4.0, 4.0 / 1.1, "lever:a"), (4.0, 4.0 / 1.1, "lever:b"), workload="u"),
        *told_of((4.0, 4.0), (4.0, 4.8, "lever:a"), (4.0, None, "lever:b"), workload="v"),
        *told_of((4.0, 4.0), (4.0, 5.2, "lever:a"), (4.0, 8.0, "runs:jax"), workload="w"),
    ]
    square = {n: math.log(n) ** 2 for n in (1.1, 1.2, 1.3, 2.0)}
    levers = 2.353 * math.sqrt((square[1.1] + square[1.2] + square[1.3]) / 3)
    both = 2.353 * math.sqrt((square[1.1] + square[1.2] + (square[1.3] + square[2.0]) / 2) / 3)
    assert widths_of(told) == {ANY: pytest.approx(both), "levers": pytest.approx(levers)}


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ({"runs:tensorflow": 1.0}, {"runs:jax": 1.0, "lever:a": 1.0}, "engine"),
        ({"lever:a": 1.0}, {"compiler:xla": 1.0, "compiler:xla x flops": -2.0, "lever:xla": 1.0}, "compiler"),
        ({"container": 0.0}, {"container": 1.0, "lever:a": 1.0}, "image"),
        ({"lever:a": 1.0, "flops": 3.0}, {"lever:a x flops": 1.0, "flops": 3.0}, "levers"),
    ],
)
def test_what_two_configurations_differ_in(one, other, word):
    assert change(one, other) == change(other, one) == word


def test_the_same_measurements_give_the_same_model(fitted):
    table, model = fitted
    again = fit(table.all_records(), table.version, load_catalogue())
    assert again.description == model.description


def test_two_workloads_are_too_few():
    table = measured(2)
    with pytest.raises(InputError, match="at least three workloads of known size, and there are 2"):
        fit(table.all_records(), table.version, load_catalogue())


def test_the_published_ratios_have_no_times_to_learn_from():
    from modak_deploy.performance.records import load_measurements

    rows = rows_of(load_measurements().records, load_catalogue())
    assert {"alexnet", "bert-base-uncased", "mnist-cnn", "squeezenet"} <= {row.workload for row in rows}
    assert "resnet50" not in {row.workload for row in rows}


@pytest.mark.parametrize(
    ("errors", "level", "width"),
    [([], 0.9, 0.0), ([0.5], 0.9, 0.5), (list(range(1, 100)), 0.9, 90), ([-3, 1, 2], 0.9, 3), (range(1, 11), 0.5, 6)],
)
def test_the_conformal_quantile(errors, level, width):
    assert quantile(errors, level) == width


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


def test_a_tampered_file_is_refused(folder):
    path = folder / "steady.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"steady\.onnx: is not the file that was fitted"):
        TimeModel(folder)


def test_a_missing_file_is_refused(folder):
    (folder / "start.onnx").unlink()
    with pytest.raises(InputError, match=r"start\.onnx: cannot be read"):
        TimeModel(folder)


def changed(folder, change):
    path = folder / "model.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_something_else_with_the_right_hash_is_refused(folder):
    import hashlib

    (folder / "steady.onnx").write_bytes(b"no model")
    digest = hashlib.sha256(b"no model").hexdigest()
    changed(folder, lambda data: data["phases"]["steady"].update(sha256=digest))
    with pytest.raises(InputError, match=r"steady\.onnx: not a model that can be run"):
        TimeModel(folder).phases(case_of(1e8, SETS[0]))


def test_features_that_do_not_fit_are_refused(folder):
    changed(folder, lambda data: data["phases"]["steady"]["features"].pop())
    with pytest.raises(InputError, match=r"steady\.onnx: takes \d+ features, and model\.json names \d+"):
        TimeModel(folder).phases(case_of(1e8, SETS[0]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(features_version=99), "was fitted with features of version 99"),
        (lambda data: data.update(half_width=-1), "half_width: must be at least 0"),
        (lambda data: data.update(colour="red"), "unknown key 'colour'"),
        (lambda data: data.update(schema="modak.model/3"), "it is modak.model/3, and this modak reads modak.model/5"),
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


def test_no_model_says_how_to_get_one(tmp_path):
    with pytest.raises(InputError, match="run 'modak model fit'"):
        TimeModel(tmp_path)


def test_fit_show_evaluate(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("modak_deploy.optimiser.evaluating.available_measurements", lambda: measured(4))
    fitted = CliRunner().invoke(commands, ["fit"], catch_exceptions=False).output
    assert f"written to {tmp_path}/modak/model" in fitted
    shown = CliRunner().invoke(commands, ["show"], catch_exceptions=False).output
    evaluated = CliRunner().invoke(commands, ["evaluate"], catch_exceptions=False).output
    assert shown == evaluated == fitted[: len(shown)]
    table = ("held out", "MAPE", "coverage", "regret", "net-3", "mean")
    assert all(words in shown for words in table)
    quick = CliRunner().invoke(commands, ["fit", "--no-evaluation"], catch_exceptions=False).output
    assert not any(words in quick for words in table[1:])
