"""A survey of all sets of levers: programs whose units take given times."""

import random

import pytest

from launch_parts import Program, launch, lever
from modak_deploy.launch.trials import sentence
from modak_deploy.launch.variants import DEFAULT, Variant

TIMES = {"default": 1.0, "a": 0.8, "b": 0.9, "c": 1.5, "a + b": 0.5, "a + c": 0.1}
"""What is slow alone is in no combination, however fast that would be."""


def surveyed(program):
    return {" + ".join(entry["levers"]) or "default": entry for entry in program.record.of("surveyed")}


@pytest.mark.parametrize("checks", [True, False])
def test_all_sets_are_measured_beside_the_default(checks):
    program = Program([lever("a"), lever("b"), lever("c")], TIMES, checks=checks, mode="survey").run(300)
    found = surveyed(program)
    assert {name: round(entry["gain"], 2) for name, entry in found.items()} == {
        "a + b": 2.0, "a": 1.25, "b": 1.11, "default": 1.0, "c": 0.67,
    }  # fmt: skip
    assert {len(found[name]["times"]) for name in ("a", "b", "c", "a + b")} == {12}
    assert set(found["a"]["rounds"]) <= set(found["default"]["rounds"])
    assert program.search.settled
    assert program.search.best.name == "a + b"
    assert program.used[-1] == "a + b"


def test_a_machine_that_changes_its_speed_changes_no_gain():
    speed = random.Random(1)
    factors = [speed.uniform(1, 2) for _ in range(60)]
    program = Program([lever("a"), lever("b")], lambda name, unit: TIMES[name] * factors[unit // 20], mode="survey")
    found = surveyed(program.run(400))
    assert found["a + b"]["gain"] == pytest.approx(2.0, abs=0.3)
    assert next(iter(found)) == "a + b"


def test_what_is_wrong_or_excluded_is_in_no_set():
    levers = [lever("a", group="one"), lever("b", group="one"), lever("c")]
    program = Program(levers, {"default": 1.0, "a": 0.5, "b": 0.6, "c": 0.9}, mode="survey")
    program.wrong = {"c"}
    assert set(surveyed(program.run(300))) == {"default", "a", "b"}
    assert [entry["what"] for entry in program.record.of("fallback")] == ["c"]
    assert [(entry["variant"], entry["failed"]) for entry in program.record.of("trial")] == [("c", True)]
    assert program.record.of("settled")[-1]["gain"] == pytest.approx(2.0)


def test_sets_that_are_asked_for_are_measured_to_the_end():
    levers = [lever(name) for name in "abcdefgh"]
    times = {"default": 1.0, **dict.fromkeys("abcdefg", 0.9), "h": 1.2, "g + h": 3.0}
    found = surveyed(Program(levers, times, mode="survey", sets=[["g", "h"], ["h"], ["x"]]).run(2000))
    assert {name for name, entry in found.items() if entry["asked"]} == {"default", "g + h", "h"}
    assert len(found["g + h"]["times"]) == len(found["h"]["times"]) == 12


def test_what_is_dear_and_does_not_win_alone_is_combined_with_nothing():
    levers = [lever("a"), lever("compiled", expensive=True)]
    program = Program(levers, {"default": 1.0, "a": 0.5, "compiled": 0.6, "a + compiled": 0.4}, mode="survey")
    while not program.record.of("surveyed"):
        if program.search.current.name == "compiled" and not program.search.settled:
            program.search.prepared(30.0)
        program.run(1)
    assert set(surveyed(program)) == {"default", "a", "compiled"}


def test_a_program_that_ends_before_has_what_was_measured():
    program = Program([lever("a"), lever("b")], TIMES, mode="survey").run(20)
    program.search.end()
    assert set(surveyed(program)) == {"default", "a", "b"}
    assert program.record.of("settled")[-1]["reason"] == "the program ended before the survey did"


def test_a_set_that_fails_on_its_way_leaves_the_others_as_they_are():
    program = Program([lever("a"), lever("b")], TIMES, mode="survey")
    while not (program.used[-1:] == ["b"] and program.kinds[-1] == "run" and len(program.used) > 20):
        program.run(1)
    program.search.failed("it broke")
    program.search.report(DEFAULT, 9.0)
    found = surveyed(program.run(300))
    assert "b" not in found and {"default", "a"} <= set(found)
    assert set(found["default"]["times"]) == {1.0}


def test_what_was_measured_before_the_program_is_left_alone_is_told():
    program = Program([lever("a"), lever("b")], TIMES, mode="survey").run(20)
    program.search.stop("it trains")
    assert set(surveyed(program)) == {"default", "a", "b"}
    assert program.run(5).used[-1] == "default"


def test_sets_that_exclude_one_another_are_not_measured_together():
    levers = [lever("a", group="one"), lever("b", group="one")]
    program = Program(levers, {"default": 1.0}, mode="survey", sets=[["a", "b"]])
    assert [entry["lever"] for entry in program.record.of("not_tried")] == ["a + b"]
    assert set(surveyed(program.run(300))) == {"default", "a", "b"}


def test_what_has_few_rounds_does_not_win():
    """It is the fastest by chance, and what was made for it is gone."""
    levers = [lever(name) for name in "abcdefgh"]
    program = Program(levers, lambda name, unit: 0.1 if name == "a" and unit > 300 else 1.0, mode="survey")
    while program.search.next() and program.search._final is None:
        program.run(1)
    assert set(program.search.wanted) <= {"default", *program.search._final}
    program.run(2000)
    assert program.search.best.name in {"default", *program.search._final}


def test_where_nothing_is_offered_there_is_no_survey():
    """Several ranks switch nothing: what was chosen is on."""
    program = Program([], {"default": 1.0, "a": 0.5}, mode="survey")
    program.search.fix(Variant((lever("a"),)))
    assert program.run(50).used[-1] == "a"


def test_objects_follow_one_another():
    first, second = (Program([lever("a")], TIMES, mode="survey") for _ in range(2))
    for program in (first, second):
        program.search.beside = [first.search, second.search]
    for _ in range(200):
        if not first.search.settled:
            assert set(second.used) <= {"default"}
        first.run(1)
        second.run(1)
    assert surveyed(second)["a"]["gain"] == pytest.approx(1.25)


def test_the_winners_results_are_compared_again():
    levers = [lever("a"), lever("slow")]
    program = Program(levers, {"default": 1.0, "a": 0.5, "slow": 50.0, "a + slow": 50.0}, mode="survey").run(100)
    assert program.search.best.name == "a"
    program.search.verify()
    program.wrong = {"a"}
    assert program.run(1).search.best.name == "default"


def test_a_command_tells_what_was_surveyed(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "infer.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)).eval()\n"
        "with torch.no_grad():\n"
        "    for _ in range(200):\n"
        "        model(torch.ones(1, 3, 32, 32))\n"
    )
    trials = {"mode": "survey", "candidates": ["pytorch-channels-last", "pytorch-keep-memory"]}
    done = launch(script, tmp_path, {"trials": trials})
    assert done.returncode == 0, done.stderr
    found = [entry["levers"] for entry in done.entries if entry["event"] == "surveyed"]
    assert all(levers in found for levers in ([], *([name] for name in trials["candidates"]))), done.entries


def test_a_long_error_leaves_room_for_the_rest_of_an_entry():
    text = sentence(RuntimeError("converted\n  at " + "x" * 9000))
    assert text.startswith("RuntimeError: converted at xx") and len(text) == 300


def test_what_nothing_switches_off_is_left_out_also_where_it_was_chosen():
    levers = [lever("a"), lever("pages", irreversible=True)]
    program = Program(levers, {"default": 1.0, "a": 0.8}, mode="survey")
    program.search.fix(Variant((levers[1], levers[0])))
    program.search.fix(Variant((levers[1],)))
    assert set(surveyed(program.run(300))) == {"default", "a"}
    assert not any("pages" in name for name in program.used)
    assert {entry["lever"] for entry in program.record.of("not_tried")} == {"pages"}
    assert program.record.of("surveyed")[0]["asked"]
