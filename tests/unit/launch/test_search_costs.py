"""What trials compare and pay for: levers that cannot change results, and expensive ones by their own costs."""

import pytest

from launch_parts import Program, lever
from modak_deploy.launch import hardware
from modak_deploy.launch.config import Expected
from modak_deploy.launch.making import LOOK
from modak_deploy.launch.prospects import Prospects
from modak_deploy.launch.variants import CHECK


def test_what_cannot_change_a_result_is_measured_without_comparison():
    times = {"default": 1.0, "keep": 0.6, "keep + a": 0.4}
    program = Program([lever("keep", same_results=True), lever("a")], times, units=300).run(300)
    assert program.search.best.name == "keep + a"
    compared = [name for name, kind in zip(program.used, program.kinds, strict=True) if kind == CHECK]
    assert compared and "keep" not in compared


def test_what_alone_cannot_change_a_result_is_not_compared_again():
    program = Program([lever("keep", same_results=True)], {"default": 1.0, "keep": 0.6}, units=1000).run(1000)
    assert program.search.best.name == "keep"
    assert CHECK not in program.kinds


def test_what_is_expensive_is_tried_by_its_own_cost():
    def used(cost):
        costs = {"compile": cost}
        program = Program([lever("compile", expensive=True)], {"default": 1.0, "compile": 0.3}, units=100, costs=costs)
        return set(program.run(100).used)

    assert "compile" in used(1.0)
    assert "compile" not in used(90.0)


def test_what_took_longer_to_make_ready_than_foreseen_is_measured_where_it_is_faster():
    times = {"default": 1.0, "compile": 0.3}
    program = Program([lever("compile", expensive=True)], times, units=300, share=0.03, costs={"compile": 5.0})
    checked = program.search.checked

    def compiled(*arguments):
        program.search.prepared(30.0)
        checked(*arguments)

    program.search.checked = compiled
    program.run(300)
    assert program.search.ledger.lost < 0
    assert program.search.best.name == "compile"


def test_what_does_not_pay_is_told_by_the_units_that_were_left_when_it_was_first_asked():
    program = Program([lever("a"), lever("compile", expensive=True)], {"default": 1.0, "a": 0.5}, units=100,
                      costs={"compile": 90.0}).run(100)  # fmt: skip
    program.search.end()
    (left,) = (entry for entry in program.record.of("not_tried") if entry["lever"] == "compile")
    assert left["reason"] == "making it ready takes about 90 s, and the units left would save 15 s"


@pytest.mark.parametrize(
    ("first", "units", "tried"),
    [(0.5, 60, False), (0.5, 600, True), (0.95, 60, True)],
    ids=["a short job", "a long job", "one that brings little"],
)
def test_what_is_expected_is_over_the_default_and_not_over_another_conversion(first, units, tried):
    levers = [lever(name, expensive=True, group="compilation") for name in ("first", "second")]
    expected = {"first": Expected(gain=1.6), "second": Expected(gain=1.3)}
    times = {"default": 1.0, "first": first, "second": first - 0.05}
    program = Program(levers, times, units=units, costs={"first": 2.0, "second": 6.0}, expected=expected).run(units)
    assert "first" in program.used
    assert ("second" in program.used) is tried


@pytest.mark.parametrize("gain", [2.0, None])
def test_units_left_are_foretold_with_what_is_expected(gain, monkeypatch):
    monkeypatch.setattr(hardware, "load", lambda: 1.0)
    expected = {} if gain is None else {"compile": Expected(gain=gain)}
    levers, times = [lever("a"), lever("compile", expensive=True)], {"default": 1.0, "a": 1.1, "compile": 0.4}
    program = Program(levers, times, units=200, costs={"compile": 10.0}, expected=expected)
    while program.search.pace is None:
        program.run(1)
    left = program.search.ledger.remaining
    assert program.search.pace == pytest.approx(1.0 if gain is None else 1 / gain + 10.0 / left, rel=0.2)
    program.run(left)
    assert ("compile" in program.used) is (gain is not None)
    assert program.search.settled


@pytest.mark.parametrize(("units", "tried"), [(900, True), (200, False)])
def test_units_left_are_foretold_with_what_levers_usually_bring(units, tried, monkeypatch):
    """Where 3 % of the time pay for it; what is foretold does not make the job lose more."""
    monkeypatch.setattr(hardware, "load", lambda: 1.0)
    levers, times = [lever("compile", expensive=True)], {"default": 1.0, "compile": 0.4}
    options = {"units": units, "share": 0.03, "costs": {"compile": 10.0}, "foreseen": {"compile": 2.0}}
    program = Program(levers, times, **options)
    while program.search.pace is None:
        program.run(1)
    left = program.search.ledger.remaining
    assert program.search.pace == pytest.approx(0.5 + 10.0 / left if tried else 1.0, rel=0.05)
    program.run(left)
    assert ("compile" in program.used) is tried


@pytest.mark.parametrize("excluded", [True, False])
def test_what_a_lever_usually_brings_is_over_the_default_where_it_takes_the_place_of_another(excluded, monkeypatch):
    """A conversion after the memory layout, which it excludes: twice as fast as the default, not as the layout."""
    monkeypatch.setattr(hardware, "load", lambda: 1.0)
    levers = [lever("layout"), lever("compile", expensive=True, conflicts=("layout",) if excluded else ())]
    options = {"units": 2000, "share": 0.03, "costs": {"compile": 10.0}, "foreseen": {"compile": 2.0}}
    program = Program(levers, {"default": 1.0, "layout": 0.6, "compile": 0.5, "layout + compile": 0.3}, **options)
    while program.search.best.name != "layout":
        program.run(1)
    left = program.search.ledger.remaining
    assert program.search.pace == pytest.approx((0.5 if excluded else 0.3) + 10.0 / left, rel=0.05)


def test_the_pace_is_a_mean_since_times_of_units_have_a_long_tail():
    def times(name, unit):
        return (0.5 if name == "a" else 1.0) * (1.6 if unit % 3 == 0 else 1.0)

    program = Program([lever("a")], times, units=400, share=0.2)
    while not program.search.settled:
        program.run(1)
    assert program.search.usual == 0.5
    assert program.search.pace == pytest.approx(0.6, rel=0.1)


@pytest.mark.parametrize("gain", [1.0, 1.2, 1.6, 1.7, 2.4])
def test_of_two_conversions_the_second_is_not_tried_sooner_for_less(gain):
    """The first has brought 1.6, so that the second, if it brings ``gain``, brings more or less than that."""
    levers = [lever(name, expensive=True, group="compilation") for name in ("first", "second")]
    expected = {"first": Expected(gain=1.6), "second": Expected(gain=gain, seconds=8.0)}
    times = {"default": 1.0, "first": 0.625, "second": 1 / gain}
    program = Program(levers, times, units=60, costs={"first": 2.0, "second": 0.1}, expected=expected).run(60)
    assert ("second" in program.used) is (gain > 2)


def test_units_left_are_foretold_while_a_lever_is_made_ready_in_the_background():
    expected = {"compile": Expected(gain=2.0)}
    program = Program(
        [lever("compile", expensive=True)], {"default": 1.0, "compile": 0.5}, units=400, expected=expected
    )
    program.background({"compile": 20.0}, 1.0)
    while not program.search.waits:
        program.run(1)
    left = program.search.ledger.remaining
    assert program.search.pace < 0.7
    program.run(left)
    assert program.search.best.name == "compile"


def test_where_units_are_short_something_to_try_is_looked_for_now_and_then(monkeypatch):
    asked = []
    refusal = Prospects.refusal
    monkeypatch.setattr(Prospects, "refusal", lambda *values: asked.append(values) or refusal(*values))
    program = Program([lever("a"), lever("b")], {"default": 1e-4, "a": 0.9e-4}, share=0.0001).run(4000)
    assert 0 < len(asked) <= 2 * 2 * 4000 * 1e-4 / LOOK + 4
    assert "a" not in program.used
    asked.clear()
    Program([lever("a"), lever("b")], {"default": 0.1}, share=0.0001).run(40)
    assert len(asked) >= 2 * 30, "long ones are all an occasion"
