"""Live trials as such: programs whose units take given times."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch_parts import Program, lever
from modak_deploy.launch import hardware
from modak_deploy.launch.parts import Part, first
from modak_deploy.launch.search import Search


def test_the_fastest_variant_is_kept_and_the_default_is_measured_again():
    times = {"default": 1.0, "a": 0.6, "a + b": 0.4, "a + b + c": 0.9, "b": 0.7}
    program = Program([lever("a"), lever("b"), lever("c")], times, units=200).run(200)
    assert program.search.best.name == "a + b"
    trials = [(entry["variant"], entry["kept"]) for entry in program.record.of("trial")]
    assert trials == [("a", True), ("a + b", True), ("a + b + c", False), ("b", False)]
    (drift,) = program.record.of("drift")
    assert drift["drift"] == pytest.approx(1.0)
    assert program.record.of("settled")[-1]["gain"] == pytest.approx(2.5)
    assert program.used[-1] == "a + b"
    assert program.seconds < 105


def test_a_lever_takes_the_place_of_another_of_its_group():
    times = {"default": 1.0, "weights": 0.7, "autocast": 0.5}
    levers = [lever("weights", group="precision"), lever("autocast", group="precision")]
    assert Program(levers, times, units=100).run(100).search.best.name == "autocast"


def test_a_wrong_result_loses_whatever_its_speed():
    program = Program([lever("a")], {"default": 1.0, "a": 0.1}, units=100)
    program.wrong = {"a"}
    program.run(100)
    assert program.used.count("a") == 1
    assert program.search.best.name == "default"
    assert program.record.of("fallback") == [{"event": "fallback", "what": "a", "reason": "differs"}]


def test_a_winner_whose_results_differ_later_is_given_up():
    program = Program([lever("a")], {"default": 1.0, "a": 0.5}, units=1000).run(60)
    assert program.search.best.name == "a"
    program.wrong = {"a"}
    program.run(100)
    assert program.search.best.name == "default"
    assert program.used[-1] == "default"


def test_the_default_stays_when_nothing_is_faster():
    program = Program([lever("a"), lever("b")], {"default": 1.0, "a": 1.0, "b": 1.2}, units=300).run(300)
    assert program.search.settled
    assert program.search.best.name == "default"
    assert program.record.of("settled")[-1]["reason"] == "nothing tried is faster"


def test_a_job_of_few_units_tries_nothing():
    program = Program([lever("a")], {"default": 1.0, "a": 0.1}, units=6).run(6)
    assert set(program.used) == {"default"}


@given(st.floats(0.2, 7.0), st.floats(0.2, 7.0), st.integers(1, 400), st.booleans(), st.booleans())
def test_the_time_lost_never_exceeds_its_share(a, b, units, known, checks):
    times = {"default": 1.0, "a": a, "b": b, "a + b": (a + b) / 2}
    program = Program([lever("a"), lever("b")], times, checks=checks, units=units if known else None, share=0.05)
    program.run(units)
    # A first unit with a variant that is slower than anybody could expect is what goes beyond.
    assert program.worst <= 0.05 * units + max(a, b, (a + b) / 2) + 0.5 + 1e-6


def test_where_the_number_of_units_is_unknown_trials_begin_late():
    program = Program([lever("a")], {"default": 1.0, "a": 0.5}, share=0.05).run(100)
    assert program.used.index("a") >= 25
    assert program.search.best.name == "a"


def test_something_expensive_is_tried_where_the_units_left_pay_for_it():
    def program(units):
        return Program([lever("compile", expensive=True)], {"default": 1.0, "compile": 0.3}, units=units).run(units)

    assert "compile" not in program(100).used
    assert program(1000).search.best.name == "compile"


def test_on_a_busy_machine_something_expensive_costs_more(monkeypatch):
    monkeypatch.setattr("modak_deploy.launch.hardware.load", lambda: 20.0)
    program = Program([lever("compile", expensive=True)], {"default": 1.0, "compile": 0.3}, units=1000).run(1000)
    assert "compile" not in program.used


def test_something_expensive_is_not_given_up_for_a_single_slow_unit():
    units = iter([5.0, 0.3, 5.0] + [0.3] * 1000)

    def times(name, unit):
        return next(units) if name == "compile" else 1.0

    program = Program([lever("compile", expensive=True)], times, units=1000, share=0.1)
    program.run(1000)
    assert program.search.best.name == "compile"


def test_noise_decides_nothing():
    noise = random.Random(1)
    program = Program([lever("a")], lambda name, unit: noise.uniform(0.5, 1.5), units=300).run(300)
    assert program.search.best.name == "default"


def test_a_load_that_comes_and_goes_meets_both():
    """The machine becomes three times as slow while a lever of no effect, and one of a good one, are tried."""

    def times(name, unit):
        return (3.0 if 4 <= unit < 40 else 1.0) * (0.6 if "b" in name else 1.0)

    assert Program([lever("a"), lever("b")], times, units=300, share=0.05).run(300).search.best.name == "b"


def test_a_default_that_got_faster_is_gone_back_to():
    def times(name, unit):
        return 1.0 if name == "a" else (2.0 if unit < 12 else 0.9)

    program = Program([lever("a")], times, units=300).run(300)
    assert program.search.best.name == "default"


def test_a_variant_that_fails_while_it_is_measured_is_not_tried_again():
    program = Program([lever("a")], {"default": 1.0, "a": 0.5}, units=100).run(6)
    program.search.failed("MemoryError: no")
    program.run(90)
    assert program.search.best.name == "default"
    assert program.record.of("fallback")[0]["reason"] == "MemoryError: no"


def test_a_variant_chosen_before_is_checked_once_and_used():
    program = Program([lever("a")], {"default": 1.0, "a": 0.5})
    from modak_deploy.launch.variants import Variant

    program.search.fix(Variant((lever("a"),)))
    program.run(50)
    assert program.used == ["a"] * 50
    assert program.seconds == pytest.approx(26.0)


def test_a_variant_chosen_before_that_is_wrong_is_not_used():
    from modak_deploy.launch.variants import Variant

    program = Program([], {"default": 1.0, "a": 0.5})
    program.wrong = {"a"}
    program.search.fix(Variant((lever("a"),)))
    program.run(10)
    assert program.used == ["a"] + ["default"] * 9


def test_short_units_are_measured_more_often_than_long_ones():
    short = Program([lever("a")], {"default": 0.001, "a": 0.0005}, units=5000).run(300)
    long = Program([lever("a")], {"default": 1.0, "a": 0.5}, units=5000).run(300)
    assert short.record.of("trial")[0]["units"] > long.record.of("trial")[0]["units"] >= 3


def test_a_lever_that_leaks_memory_is_given_up(monkeypatch):
    program = Program([lever("leaks"), lever("b")], {"default": 1.0, "leaks": 0.3, "b": 0.8}, share=1.0)
    resident = [300 << 20]

    def grows():
        resident[0] += (800 << 20) if program.search.current.name == "leaks" else 0
        return resident[0]

    monkeypatch.setattr(hardware, "resident_memory", grows)
    program.run(60)
    assert program.search.best.name == "b"
    (fallback,) = program.record.of("fallback")
    assert fallback["what"] == "leaks" and "grown by" in fallback["reason"]


@pytest.mark.parametrize("checks", [True, False], ids=["calls", "training"])
@pytest.mark.parametrize("seconds", [0.002, 0.3, 3.0])
@pytest.mark.parametrize("units", [20, 60, 100, 150, 400, 2000])
@pytest.mark.parametrize("factor", [0.25, 0.5, 0.8, 0.97, 1.03, 1.3, 2.0, 4.0])
def test_trials_never_lose_more_than_their_share(factor, units, seconds, checks):
    """Times scatter by 3 %; the lever's longest plausible unit takes four times the default's."""
    scatter = random.Random(f"{factor} {units} {seconds}")

    def times(name, unit):
        return seconds * (1 if name == "default" else factor) * scatter.uniform(0.97, 1.03)

    program = Program([lever("a", risk=4.0)], times, checks=checks, units=units).run(units)
    default = units * seconds
    assert program.seconds <= (1.03 + 0.03 / units**0.5) * default
    if factor <= 0.8 and units >= 400:
        assert program.search.best.name == "a"
        assert 1 - program.seconds / default >= 0.6 * (1 - factor)
    if factor > 1:
        assert program.search.best.name == "default"


def test_a_lever_whose_longest_unit_would_lose_too_much_is_not_offered():
    program = Program([lever("a", risk=4.0)], {"default": 1.0, "a": 0.2}, checks=False, units=60).run(60)
    assert set(program.used) == {"default"}
    (entry,) = program.record.of("not_tried")
    assert entry["lever"] == "a"
    assert entry["reason"] == "a first unit with it may lose 3 s, and trials may lose 1.8 s in this job"
    assert program.record.of("settled")[0]["reason"] == (
        "nothing could be tried: a unit takes 1 s and trials may lose 1.8 s in this job"
    )
    assert program.search.settled


def test_a_known_gain_lets_a_lever_be_tried_in_a_shorter_job():
    from modak_deploy.launch.config import Expected

    options = {"checks": False, "units": 60, "expected": {"a": Expected(gain=2.0)}}
    program = Program([lever("a", risk=4.0)], {"default": 1.0, "a": 0.5}, **options).run(60)
    assert program.search.best.name == "a"


def test_what_a_safe_lever_gains_pays_for_a_risky_one():
    levers = [lever("risky", risk=4.0, group="x"), lever("safe", risk=1.5, group="x")]
    times = {"default": 1.0, "safe": 0.7, "risky": 0.4}
    program = Program(levers, times, checks=False, units=80).run(80)
    assert program.search.best.name == "risky"
    assert program.used.index("safe") < program.used.index("risky")


@pytest.mark.parametrize(
    ("shapes", "part"),
    [
        ([(16, 3, 8, 8)], Part(2, 16)),
        ([(17, 3), (17,), (), (1, 5)], Part(3, 17)),
        ([(4, 2)], Part(1, 4)),
        ([(3, 2)], None),
        ([(16, 3), (5, 3)], None),
        ([(16, 3), (0, 3)], None),
        ([(1, 3), ()], None),
        ([], None),
    ],
)
def test_the_part_of_a_call_is_its_first_rows(shapes, part):
    assert first(shapes) == part


def test_in_a_job_of_few_long_units_a_part_is_what_makes_a_trial_possible():
    levers, times = [lever("a", risk=2.0)], {"default": 0.95, "a": 0.3}
    without = Program(levers, times, units=23).run(23)
    assert set(without.used) == {"default"}
    program = Program([lever("a", risk=2.0)], times, part=Part(2, 16), units=23).run(23)
    assert program.search.best.name == "a"
    (settled,) = program.record.of("settled")
    assert (settled["variant"], settled["reason"]) == ("a", "the units left are few")
    assert program.kinds.count("probe") == program.kinds.count("check") == 1
    assert program.seconds < 0.75 * without.seconds


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("fixed", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("units", [23, 60, 400])
@pytest.mark.parametrize("factor", [0.25, 0.8, 1.0, 1.3, 4.0])
def test_parts_never_lose_more_than_the_share(factor, units, fixed, known):
    """What a call costs whatever its size makes the part's time an upper bound."""
    times = {"default": 1.0, "a": factor}
    program = Program([lever("a", risk=4.0)], times, part=Part(2, 16), units=units if known else None)
    program.fixed = fixed
    program.run(units)
    # A part that takes longer than declared is what goes beyond, and that it is called twice.
    beyond = max(0.0, 2 * (fixed + factor / 8) - (0.0 if not known and units < 60 else 0.5))
    assert program.seconds <= 1.03 * units + beyond
    if factor < 1 and units == 400 and fixed < 1:
        assert program.search.best.name == "a"


def test_a_lever_whose_part_took_long_waits_until_a_whole_unit_is_affordable():
    program = Program([lever("a")], {"default": 1.0, "a": 0.5}, part=Part(2, 16), share=0.05)
    program.fixed = 0.15
    program.run(100)
    assert program.search.best.name == "a"
    assert program.kinds.count("probe") == 1
    assert len(program.record.of("deferred")) == 1
    assert program.used.index("a") < 15 < [unit for unit, name in enumerate(program.used) if name == "a"][1]


def test_a_result_that_does_not_fit_on_a_part_is_compared_on_the_whole():
    program = Program([lever("a"), lever("b")], {"default": 1.0, "a": 0.5, "a + b": 0.4}, part=Part(2, 16), units=200)
    program.unfit = {"a", "a + b"}
    program.run(200)
    assert program.search.best.name == "a + b"
    assert program.kinds.count("probe") == 1, "its rows depend on one another: no second part"


def test_a_neighbours_load_is_not_booked_as_a_loss():
    """The machine becomes five times as slow just as a lever of no effect is measured."""

    def times(name, unit):
        return 5.0 if 5 <= unit < 15 else 1.0

    program = Program([lever("a"), lever("b")], times, units=120).run(120)
    assert {entry["variant"] for entry in program.record.of("trial")} == {"a", "b"}
    assert program.search.ledger.lost <= 0.03 * 120
    assert max(entry["lost"] for entry in program.record.of("trial")) < 2.2


def test_a_neighbours_load_on_the_winner_is_not_booked_either():
    def times(name, unit):
        return (0.5 if name == "a" else 1.0) * (6.0 if 40 <= unit < 60 else 1.0)

    program = Program([lever("a")], times, units=200).run(200)
    assert program.search.best.name == "a"
    assert program.search.ledger.lost < -60


def test_what_was_not_tried_is_told_at_the_end():
    levers = [lever("a"), lever("b"), lever("c", expensive=True)]
    program = Program(levers, {"default": 1.0, "a": 0.5, "a + b": 0.9}, units=200)
    program.run(7)
    program.search.end()
    left = {entry["lever"]: entry["reason"] for entry in program.record.of("not_tried")}
    assert left == {
        "a": "the program ended while it was tried",
        "b": "the program ended before",
        "c": "the program ended before",
    }
    assert program.record.of("settled")[0]["reason"] == "the program ended before the trials did"
    program = Program(levers, {"default": 1.0, "a": 0.5, "a + b": 0.9}, units=60).run(60)
    program.search.end()
    (left,) = program.record.of("not_tried")
    assert left["lever"] == "c" and "making it ready takes about 20 s" in left["reason"]


def test_without_levers_there_is_nothing_to_try():
    (settled,) = Program([], {"default": 1.0}, units=60).run(60).record.of("settled")
    assert settled["reason"] == "there was nothing to try"


@pytest.mark.parametrize(("units", "left"), [(100, 1.0), (None, 0.0)])
def test_the_trials_of_several_objects_lose_from_one_share_where_the_units_are_the_programs(session_of, units, left):
    session = session_of(units=units, share=0.03)
    searches = [Search(name, [], session.config.trials, session.record) for name in "ab"]
    for search in searches:
        search.ledger.default = 1.0
        session.follow(search)
    searches[0].ledger.charge(2.0)
    assert session.searches == searches
    assert searches[1].ledger.left == pytest.approx(left)
    searches[1].ledger.lost = -5.0
    assert searches[0].ledger.left == pytest.approx(1.0 if units else 0.06 - 2.0), "gains are an object's own"


def test_the_pace_is_that_of_the_best_so_far_until_the_programs_own_units_tell():
    times = {"default": 1.0, "a": 0.5, "a + b": 0.9}
    program = Program([lever("a"), lever("b")], times, units=200)
    assert program.search.pace is None
    program.run(50)
    assert program.search.pace == pytest.approx(0.5)
    program.run(150)
    assert program.search.settled and program.search.pace is None
    stays = Program([lever("a")], {"default": 1.0, "a": 1.2}, units=300).run(300)
    assert stays.search.settled
    assert stays.search.pace is None


def test_what_slows_the_default_down_while_it_is_tried_is_not_foretold():
    def times(name, unit):
        return 2.0 if name == "a" or 3 < unit < 40 else 1.0

    program = Program([lever("a")], times, units=400, share=0.2)
    while not program.search.settled:
        program.run(1)
    assert program.search.pace == 1.0
    program.run(100)
    assert program.search.pace is None


def test_units_beside_spinning_threads_of_another_variant_do_not_count():
    """Each unit after a switch takes twice as long, as those of ONNX Runtime and OpenVINO do."""
    before = [""]

    def times(name, unit):
        switched = before[0] != name
        before[0] = name
        return {"default": 1.0, "a": 0.5}[name] * (2.0 if switched else 1.0)

    program = Program([lever("a", own_threads=True)], {"default": 1.0, "a": 0.5}, units=200, share=0.2)
    for _ in range(200):
        action = program.search.next()
        if action.kind == "check":
            program.search.checked(1.0, 1.0, 0.0, None)
        else:
            program.search.report(action.variant, times(action.variant.name, 0))
    (trial,) = program.record.of("trial")
    assert set(trial["times"]) == {0.5} and set(trial["rival_times"]) == {1.0}
    assert program.search.best.name == "a"
