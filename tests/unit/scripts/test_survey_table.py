"""``benchmarks/survey.py``: what is judged, and what the table says of it."""

import pytest

MODULES = ("survey", "survey_table", "program_table", "program_rows", "program_runs")


@pytest.fixture
def survey(benchmark_module):
    return benchmark_module(*MODULES)


def surveyed(gain, levers, **changed):
    entry = {"event": "surveyed", "of": "Net", "levers": levers, "gain": gain, "times": [0.1 / gain] * 6}
    return {**entry, "rounds": list(range(1, 7)), "once": 0.0, "difference": None, "asked": False, **changed}


def test_the_regret_is_that_over_the_fastest_set(survey):
    (row,) = [row for row in survey.ROWS if row.name == "mnist-cnn"]
    events = [surveyed(1.0, []), surveyed(1.5, ["a"]), surveyed(2.0, ["b", "a"]), {"event": "end"}]
    events.append(surveyed(9.0, ["x"], of="another object", times=[0.01] * 6))
    chosen = {"live-exact": ("a",), "second-exact": ("a", "b"), "live-relaxed": ("c",)}
    lines = survey.survey_table.lines_of(row, "exact", events, chosen)
    assert [line["chosen"] for line in lines] == [[], ["live-exact"], ["second-exact"]]
    table = survey.survey_table.table(lines).splitlines()
    assert table[2] == "| mnist-cnn | 3 | 100 | 1.50 | 2.00 | 2.00 | b + a | 33.3% | 0.0% |"
    assert table[-1] == "| worst |  |  |  |  |  |  | 33.3% | 0.0% |"


def test_what_was_not_surveyed_has_no_regret(survey):
    (row,) = [row for row in survey.ROWS if row.name == "mnist-cnn"]
    events, chosen = [surveyed(1.0, []), surveyed(0.5, ["b"])], {"live-exact": ("a",)}
    lines = survey.survey_table.lines_of(row, "exact", events, chosen)
    table = survey.survey_table.table(lines).splitlines()
    assert table[2] == "| mnist-cnn | 2 | 100 | - | - | 1.00 | default | - | - |"
    assert survey.survey_table.lines_of(row, "exact", [], {}) == []


def test_a_program_of_few_rounds_says_so(survey):
    (row,) = [row for row in survey.ROWS if row.name == "mnist-cnn"]
    few = [surveyed(1.0, [], rounds=[1], times=[0.1]), surveyed(2.0, ["a"], rounds=[1], times=[0.05])]
    table = survey.survey_table.table(survey.survey_table.lines_of(row, "exact", few, {"live-exact": ("a",)}))
    assert table.splitlines()[2] == "| mnist-cnn | 2 | 100 | - | - | - | too few rounds: 1 | - | - |"


def test_deployments_are_judged_by_what_can_be_switched(survey):
    entry = {"row": "r", "arm": "second-exact", "state": "completed", "levers": ["jemalloc", "pytorch-openvino"],
             "settled": [{"levers": ["pytorch-openvino", "pytorch-keep-memory"]}]}  # fmt: skip
    entries = [entry, {**entry, "arm": "best"}, {**entry, "arm": "live-exact", "state": "failed"}]
    assert survey.chosen_in(entries) == {("r", "second-exact"): ("pytorch-openvino", "pytorch-keep-memory")}


def test_of_sets_as_fast_as_each_other_none_is_worse_by_chance(survey):
    """The fastest by chance in some rounds is compared in others."""
    default = {"levers": [], "rounds": [1, 2, 3, 4, 5, 6], "times": [1.0] * 6, "chosen": []}
    own = {**default, "levers": ["a"], "times": [0.5] * 6, "chosen": ["live-exact"]}
    lucky = {**default, "levers": ["b"], "times": [0.4, 0.6, 0.4, 0.6, 0.4, 0.6]}
    few = {**default, "levers": ["c"], "rounds": [1], "times": [0.1]}
    assert survey.survey_table.regret_of([default, own, lucky, few], "live-exact") == pytest.approx(-1 / 12)
