"""``benchmarks/chosen_table.py``: what deployments ended with, judged by the surveys that ship."""

import pytest

ROW, FASTEST = "alexnet-b1", ("pytorch-onnxruntime",)


def entry(arm, levers, settled=None, total=60.0, units=100, **others):
    return {"row": ROW, "kind": "inference", "arm": arm, "name": "", "state": "completed", "levers": list(levers),
            "settled": [] if settled is None else [{"of": "AlexNet", "levers": list(settled)}],
            "total": total, "units": units, "steady": 0.5, **others}  # fmt: skip


@pytest.fixture
def chosen_table(benchmark_module):
    neighbours = ("program_table", "survey", "survey_choice", "survey_table")
    return benchmark_module("chosen_table", *neighbours)


def test_what_was_chosen_is_looked_up_in_the_survey(chosen_table):
    text = chosen_table.table([entry("live-exact", (), ()), entry("second-exact", (), FASTEST)])
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {ROW} |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[3] == "1.00" and cells[4] == cells[5], (
        "the default in the first one, and the fastest set in the second"
    )
    assert cells[6] == FASTEST[0]
    assert float(cells[7].rstrip("%")) > 30 > 5 > float(cells[8].rstrip("%"))


def test_a_lever_that_trials_took_away_is_not_what_a_job_ended_with(chosen_table):
    entries = [entry("live-exact", (), ()), entry("second-exact", ("pytorch-channels-last", "jemalloc"), FASTEST)]
    ended = chosen_table.program_table.ended_with(entries[1])
    assert ended == ["jemalloc", *FASTEST]


def test_what_several_objects_ended_with_counts_together(chosen_table):
    function, pipelines = "keras: predict of Functional", "the pipelines of Keras"
    job = entry("second-exact", ("keras-tensorflow", "keras-openvino", "keras-plain-input"), ())
    settled = [{"of": function, "levers": ["keras-jit-compile"]}, {"of": function, "levers": ["keras-openvino"]}]
    ended = chosen_table.program_table.ended_with
    kept = ["keras-tensorflow", "keras-openvino", "keras-plain-input"]
    assert ended({**job, "settled": settled}) == kept, "chosen before the run, and never tried"
    assert ended({**job, "settled": [*settled, {"of": pipelines, "levers": []}]}) == kept[:2]
    first = {**job, "levers": ["keras-tensorflow"], "settled": [*settled, {"of": pipelines, "levers": [kept[2]]}]}
    assert ended(first) == kept


def test_jobs_stand_beside_as_many_units_of_the_default(chosen_table):
    default = entry("default", (), total=25.0, units=40)
    first, second = entry("live-exact", (), (), 50.0), entry("second-exact", (), FASTEST, 27.5, forecast=33.0)
    text = chosen_table.jobs([default, first, second])
    assert f"| {ROW} | ~55.0 | 50.0 | 27.5 | 1.10 | 2.00 | - | +20.0% |" in text
    assert text.rstrip().endswith("| **1.10** | **2.00** | - | **20.0%** |")
