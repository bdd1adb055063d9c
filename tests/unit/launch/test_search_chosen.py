"""Live trials that go on from a variant chosen before the run: programs whose units take given times."""

import pytest

from launch_parts import Program, lever
from modak_deploy.launch.parts import Part
from modak_deploy.launch.variants import Variant


def chosen_before(levers, times, **trials):
    program = Program(levers, times, **trials)
    program.search.fix(Variant((levers[0],)))
    return program


@pytest.mark.parametrize("checks", [True, False])
def test_trials_go_on_from_a_variant_chosen_before(checks):
    times = {"default": 1.0, "a": 0.5, "a + b": 0.3, "a + b + c": 0.4}
    levers = [lever("a"), lever("b"), lever("c", expensive=True)]
    program = chosen_before(levers, times, checks=checks, units=200, gain=1.9, costs={"c": 5.0}).run(200)
    assert program.search.best.name == "a + b"
    assert [entry["variant"] for entry in program.record.of("trial")] == ["a + b", "a + b + c"]
    assert program.record.of("trial")[0]["rival"] == "a"
    assert [entry["rival"] for entry in program.record.of("drift")] == ["a"]
    assert "default" not in program.used
    settled = program.record.of("settled")[-1]
    assert (settled["reason"], settled["gain"]) == ("fastest of all that was tried", pytest.approx(0.95 / 0.3))
    assert program.seconds < 80


def test_what_a_choice_saves_pays_for_what_is_expensive():
    def tried(gain):
        levers = [lever("a"), lever("convert", expensive=True, group="g")]
        times = {"default": 1.0, "a": 0.5, "a + convert": 0.2}
        program = chosen_before(levers, times, units=100, gain=gain, share=0.03, costs={"convert": 6.0})
        return [entry["variant"] for entry in program.run(100).record.of("trial")]

    assert tried(1.0) == []  # 3 % of 50 s
    assert tried(2.0) == ["a + convert"]


def test_a_choice_that_is_wrong_ends_all_trials():
    program = chosen_before([lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "b": 0.1}, units=100)
    program.wrong = {"a"}
    program.run(50)
    assert program.used == ["a"] + ["default"] * 49


def test_a_lever_that_does_harm_leaves_the_choice():
    times = {"default": 1.0, "a": 0.5, "a + b": 0.1, "a + c": 2.0}
    program = chosen_before([lever("a"), lever("b"), lever("c")], times, units=300, gain=2.0)
    program.wrong = {"a + b"}
    program.run(300)
    assert program.search.best.name == "a"
    assert program.record.of("settled")[-1]["reason"] == "chosen before the run"


def test_the_pace_of_a_choice_is_known_from_its_check_on():
    program = chosen_before([lever("a", expensive=True)], {"default": 1.0, "a": 0.5}, units=100, gain=2.0)
    program.run(1)
    assert program.search.pace == 0.5
    program.run(10)
    assert program.record.of("settled")[-1]["gain"] == 2.0
    assert program.search.pace == 0.5


def test_a_choice_whose_weights_change_is_compared_again_at_once():
    program = chosen_before([lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.4}, units=100, gain=2.0)
    program.run(2)
    program.search.verify()
    program.run(1)
    assert program.kinds[-1] == "check"
    program.run(3)
    program.search.verify()  # while another lever is being chosen or measured
    program.wrong = {"a"}
    program.run(20)
    assert program.used[-1] == "default"


def test_the_default_as_it_was_seen_limits_what_a_choice_is_said_to_save():
    def left(gain):
        levers = [lever("a"), lever("b")]
        program = chosen_before(levers, {"default": 1.0, "a": 0.9, "a + b": 0.9}, units=100, gain=gain).run(60)
        return program.search.ledger.default

    assert left(1.05) == pytest.approx(0.945)
    assert left(3.0) == pytest.approx(1.0)


def test_a_winner_that_is_wrong_on_the_whole_leaves_the_choice():
    levers, times = [lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.3}
    program = chosen_before(levers, times, part=Part(2, 16), units=300, gain=2.0)
    program.wrong = {"a + b"}
    program.run(300)
    assert [entry["what"] for entry in program.record.of("fallback")] == ["a + b"]
    assert program.search.best.name == "a"
    assert program.record.of("settled")[-1]["reason"] == "chosen before the run"


@pytest.mark.parametrize("checks", [True, False])
def test_what_beats_a_choice_in_its_slow_beginning_only_does_not_stay(checks):
    def times(name, unit):
        return {"default": 1.0, "a": 0.8 if unit < 8 else 0.5, "a + b": 0.7 if unit < 8 else 0.55}[name]

    program = chosen_before([lever("a"), lever("b")], times, units=400, gain=1.5, checks=checks).run(400)
    assert program.search.best.name == "a"


def test_what_a_choice_took_to_be_made_ready_is_told_with_its_times():
    program = chosen_before([lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.4}, units=100, gain=2.0)
    program.search.prepared(3.0)
    program.run(60)
    trial = program.record.of("trial")[0]
    assert (trial["rival"], trial["rival_cost"], trial["one_time"]) == ("a", 3.0, 0.0)


def test_what_was_made_for_a_choice_is_kept_until_it_was_measured_again():
    levers, times = [lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.3}
    program = chosen_before(levers, times, units=200, gain=2.0)
    while not program.record.of("drift"):
        program.run(1)
        assert program.record.of("drift") or "a" in program.search.wanted
    program.run(20)
    assert program.search.wanted == {"a + b"}


def test_a_choice_that_fails_when_it_is_measured_again_does_not_take_the_winner_along():
    levers, times = [lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.3}
    program = chosen_before(levers, times, units=200, gain=2.0)
    while program.search._phase != "final" or program.search._turn:
        program.run(1)
    assert program.search.next().variant.name == "a"
    program.search.failed("MemoryError: no")
    program.run(20)
    assert program.search.best.name == "a + b"
    assert program.search.settled


def test_a_cheap_lever_on_an_expensive_choice_costs_what_the_choice_costs():
    def tried(share):
        levers = [lever("convert", expensive=True), lever("b")]
        times = {"default": 1.0, "convert": 0.5, "convert + b": 0.4}
        program = chosen_before(levers, times, units=100, share=share, costs={"convert": 5.0})
        return [entry["variant"] for entry in program.run(100).record.of("trial")]

    assert tried(0.03) == []
    assert tried(0.2) == ["convert + b"]


def test_a_variant_chosen_before_that_is_given_up_is_named() -> None:
    """What is settled has the object's name alone, and objects share names: nobody could tell which one lost it."""
    times = {"default": 1.0, "a": 0.5}
    for go in ("failed", "stop"):
        program = chosen_before([lever("a")], times, units=100, checks=False).run(20)
        getattr(program.search, go)("of the lever's making")
        program.search.stop("a second reason")
        given_up = {"event": "given_up", "of": program.search.name, "variant": "a", "reason": "of the lever's making"}
        assert program.record.of("given_up") == [given_up]
    program = Program([lever("a")], times, units=100).run(20)
    program.search.stop("as without one")
    assert program.record.of("given_up") == []
