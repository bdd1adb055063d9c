"""``benchmarks/programs.py``: what is measured, once, in which order, and what the table says of it."""

import argparse
import math

import pytest

MODULES = ("programs", "program_table", "program_rows", "program_runs")
SINGLES = ([], ["malloc-hugepages"], ["jemalloc"], ["pytorch-channels-last"], ["pytorch-autocast-bf16"])
TIMES = {
    "malloc-hugepages": 0.8,
    "jemalloc": 1.5,
    "pytorch-channels-last": 0.7,
    "pytorch-autocast-bf16": 0.5,
}
"""By how much each lever multiplies the seconds of a unit."""


@pytest.fixture
def programs(benchmark_module):
    return benchmark_module(*MODULES)


class Machine:
    """Stands in for deployments: a unit takes 0.1 s, times what the levers bring; live trials find what they can."""

    def __init__(self, tried=()):
        self.runs = []
        self.tried = list(tried)

    def deploy(self, place, row, units, request, *, run, store, record, limit, starter, short, keeps):
        self.runs.append(run)
        levers = (request.get("configuration") or {}).get("levers", [])
        found = ["pytorch-channels-last"] if store.endswith(("exact-1", "relaxed-1")) and not record else []
        steady = 0.1 * math.prod(TIMES[lever] for lever in [*levers, *found])
        return {
            "state": "completed", "units": units, "total": 1 + units * steady, "steady": steady, "start": 1.0,
            "result": 1.0, "levers": [*levers, *found], "tried": self.tried if record else [], "settled": [],
        }  # fmt: skip

    @staticmethod
    def candidates(place, row, units, numerics):
        singles = [levers for levers in SINGLES if numerics == "relaxed" or "pytorch-autocast-bf16" not in levers]
        return [{"levers": levers} for levers in singles]

    def of(self, kind):
        return [run.split("/")[1].removeprefix(f"{kind}-") for run in self.runs if f"/{kind}-" in run]


def measured(programs, machine, folder, monkeypatch, **changed):
    table = table_of(programs, machine, folder, monkeypatch, ["mnist-cnn"], **changed)
    (line,) = programs.program_table.lines_of(table.results.entries)
    return table, line


def table_of(programs, machine, folder, monkeypatch, names, **changed):
    monkeypatch.setattr(programs, "deploy", machine.deploy)
    monkeypatch.setattr(programs, "candidates", machine.candidates)
    options = {
        "only": names, "arms": ["default", "live-exact", "second-exact", "best"], "minutes": 0.1,
        "live_minutes": 0.5, "restart": 60, "rounds": 1, "budget": 3600.0, "out": folder / "programs.jsonl",
        "again": False, "pairs": True, "exact": False,
    }  # fmt: skip
    table = programs.Table(argparse.Namespace(**{**options, **changed}))
    table.run([row for row in programs.ROWS if row.name in names])
    return table


def test_the_search_finds_the_best_combination_and_measures_it_again(programs, tmp_path, monkeypatch):
    machine = Machine()
    _, line = measured(programs, machine, tmp_path, monkeypatch)
    best = machine.of("best")
    assert best[:5] == ["1-as-is", *(f"1-{'_'.join(levers)}" for levers in SINGLES[1:])]
    assert "1-pytorch-autocast-bf16_pytorch-channels-last" in best
    name, seconds = line.best("relaxed")
    assert set(name.split("+")) == {"pytorch-autocast-bf16", "pytorch-channels-last", "malloc-hugepages"}
    assert seconds == pytest.approx(0.1 * 0.5 * 0.7 * 0.8)
    finals = [run for run in best if not run.startswith("1-")]
    assert len(finals) == programs.FINALS * len(line.finalists())
    assert "jemalloc" not in " ".join(finals)


def test_regret_is_of_what_the_second_deployment_ran_with(programs, tmp_path, monkeypatch):
    _, line = measured(programs, Machine(), tmp_path, monkeypatch)
    assert line.second("exact") == pytest.approx(0.07)
    assert line.regret("exact") == pytest.approx(0.07 / line.best("exact")[1] - 1)
    assert line.best("exact")[1] == pytest.approx(0.1 * 0.7 * 0.8)


def test_what_live_trials_showed_to_be_far_slower_is_not_measured_again(programs, tmp_path, monkeypatch):
    tried = [
        {"levers": ["pytorch-channels-last"], "gain": 1.4, "kept": True, "failed": False, "result": ""},
        {"levers": ["jemalloc"], "gain": 0.6, "kept": False, "failed": False, "result": ""},
    ]
    machine = Machine(tried)
    _, line = measured(programs, machine, tmp_path, monkeypatch)
    assert not any("jemalloc" in run for run in machine.of("best"))
    assert line.best("relaxed") is not None


def test_exact_candidates_alone(programs, tmp_path, monkeypatch):
    machine = Machine()
    _, line = measured(programs, machine, tmp_path, monkeypatch, exact=True)
    assert not any("bf16" in run for run in machine.of("best"))
    assert line.best("relaxed") == line.best("exact")


def test_an_interrupted_table_goes_on_and_measures_nothing_twice(programs, tmp_path, monkeypatch):
    whole = Machine()
    measured(programs, whole, tmp_path / "whole", monkeypatch)
    first = Machine()

    def interrupted(*arguments, **keywords):
        if len(first.runs) == 6:
            raise KeyboardInterrupt
        return Machine.deploy(first, *arguments, **keywords)

    first.deploy = interrupted
    with pytest.raises(KeyboardInterrupt):
        measured(programs, first, tmp_path / "parts", monkeypatch)
    second = Machine()
    measured(programs, second, tmp_path / "parts", monkeypatch)
    assert first.runs + second.runs == whole.runs


def test_without_time_what_is_left_out_is_named(programs, tmp_path, monkeypatch):
    table, _ = measured(programs, Machine(), tmp_path, monkeypatch, budget=20.0)
    assert [text.split(" (")[0].strip() for text in table.left_out][:2] == ["mnist-cnn live-exact", "mnist-cnn best"]
    assert "mnist-cnn live-exact" in (tmp_path / "programs.md").read_text(encoding="utf-8")


def test_a_combination_that_a_plan_refuses_takes_no_others_place(programs):
    singles = [[], *([lever] for lever in "abcde")]
    steady = {tuple(levers): 1.0 - 0.05 * number for number, levers in enumerate(singles)}
    asked = []
    for levers in programs.combinations(singles, [], steady):
        asked.append("".join(levers))
        if "d" not in levers:  # which is refused
            steady[tuple(levers)] = 0.5
    assert asked == ["ed", "ec", "ecb", "eca"]


def test_levers_that_exclude_each_other_are_not_combined(programs):
    singles = [[], ["pytorch-openvino-bf16"], ["pytorch-openvino"], ["malloc-hugepages"]]
    steady = {tuple(levers): 1.0 - 0.2 * number for number, levers in enumerate(singles)}
    asked = {frozenset(levers) for levers in programs.combinations(singles, [], steady)}
    assert asked == {frozenset(("malloc-hugepages", *other)) for other in singles[1:3]}


def test_deployments_of_all_programs_come_before_the_first_search(programs, tmp_path, monkeypatch):
    machine = Machine()
    table_of(programs, machine, tmp_path, monkeypatch, ["mnist-cnn", "bert-b1"])
    kinds = [run.split("/")[1].split("-")[0] for run in machine.runs]
    searches = kinds.index("best")
    assert {run.split("/")[0] for run in machine.runs[:searches]} == {"mnist-cnn", "bert-b1"}
    assert set(kinds[searches:]) == {"best"}
