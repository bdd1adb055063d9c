"""Trials of what nothing undoes: after units without it, in a process that shares its memory with no other."""

import pytest

from launch_parts import Memory, Program, lever
from modak_deploy.launch.config import Trials
from modak_deploy.launch.parts import Part
from modak_deploy.launch.search import Search
from modak_deploy.launch.trials import TriedCalls
from modak_deploy.launch.variants import CHECK, DEFAULT, PROBE, Action, Variant


def pages(**attributes):
    return lever("pages", irreversible=True, lasting=True, same_results=True, **attributes)


@pytest.mark.parametrize("checks", [True, False])
def test_what_nothing_undoes_is_measured_after_what_has_it_not(checks):
    times = {"default": 1.0, "pages": 0.8, "pages + b": 0.5, "b": 0.6}
    program = Program([pages(), lever("b")], times, checks=checks, units=300).run(300)
    first = program.used.index("pages")
    assert program.search.best.name == "pages + b"
    assert "default" not in program.used[first:]  # which would not be what it was
    trial, _ = program.record.of("trial")
    assert (trial["kept"], trial["rival"], trial["gain"]) == (True, "default", pytest.approx(1.25))
    assert len(trial["rival_times"]) >= 3
    (drift,) = program.record.of("drift")
    assert drift["rival"] == "pages"
    assert program.record.of("settled")[-1]["gain"] == pytest.approx(2.0)


@pytest.mark.parametrize(("taking", "units", "tried"), [(4.0, 300, True), (4.0, 40, False), (14.0, 300, True)])
def test_what_takes_a_while_to_switch_on_is_tried_where_the_units_left_pay(taking, units, tried):
    program = Program(
        [pages(taking=lambda: taking)], {"default": 1.0, "pages": 0.8}, units=units, share=0.06 if tried else 0.5
    ).run(units)
    assert ("pages" in program.used) == tried
    reasons = [entry["reason"] for entry in program.record.of("not_tried")]
    assert reasons == ([] if tried else ["making it ready takes about 4 s, and the units left would save 3.27 s"])


def test_units_without_it_come_before_its_results_are_compared():
    """The best variant's results are not the default's: what has the pages as well is compared."""
    times = {"default": 1.0, "b": 0.6, "b + pages": 0.4}

    def seconds(name, unit):
        been = any("pages" in used for used in program.used)
        return {"default": 0.8, "pages": 0.8}.get(name, 0.4) if been else times[name]

    program = Program([lever("b"), pages()], seconds, units=300)
    program.run(300)
    trial = program.record.of("trial")[1]
    assert (trial["variant"], trial["kept"], trial["rival"]) == ("b + pages", True, "b")
    assert set(trial["rival_times"]) == {0.6} and set(trial["times"]) == {0.4}
    assert trial["gain"] == pytest.approx(2.5)
    assert program.search.best.name == "b + pages"


@pytest.mark.parametrize(("units", "first"), [(300, "trial"), (100, "making")])
def test_it_is_tried_before_a_fork_that_shares_the_memory(units, first):
    """Where few units are left, what is made in the fork comes first: its gain is larger, and needs the units."""
    levers = [lever("made", expensive=True), pages()]
    times = {"default": 1.0, "pages": 0.8, "made": 0.3, "pages + made": 0.25, "made + pages": 0.25}
    program = Program(levers, times, units=units, share=0.2, costs={"made": 10.0})
    program.background({"made": 10.0}, loss=0.5).run(units)
    events = [entry["event"] for entry in program.record.entries if entry["event"] in ("trial", "making")]
    assert events[0] == first
    copied = program.used[: program.used.index("made")] if first == "making" else ()
    assert not any("pages" in name for name in copied)
    assert "made" in program.search.best.name


def test_it_waits_for_the_end_of_a_fork_that_shares_the_memory():
    useless = ["little can be moved"]
    levers = [pages(useless=lambda: useless[0] if useless else None), lever("made", expensive=True)]
    times = {"default": 1.0, "pages": 0.8, "made": 1.2}
    program = Program(levers, times, units=300, share=0.2, costs={"made": 30.0}).background({"made": 30.0}, loss=0.5)
    program.run(10)
    assert program.search.waits
    useless.clear()
    while program.search.waits:
        assert "pages" not in program.used
        program.run(1)
    program.run(200)
    assert program.search.best.name == "pages"


def test_a_fork_for_another_object_that_comes_before_it_is_on_puts_it_off():
    program = Program([pages()], {"default": 1.0, "pages": 0.8}, units=300)
    other = Program([lever("made", expensive=True)], {"default": 1.0}, units=300, costs={"made": 30.0})
    other.background({"made": 30.0}, loss=0.5)
    program.search.beside = [program.search, other.search]
    while not program.record.of("trying"):
        program.run(1)
    while not other.search.waits:
        other.run(1)
    program.run(20)
    assert "pages" not in program.used
    assert program.record.of("deferred")
    other.run(60)
    assert not other.search.waits
    program.run(100)
    assert program.search.best.name == "pages"


def test_where_it_would_change_nothing_any_more_it_is_not_tried():
    program = Program([pages(useless=lambda: "all was moved")], {"default": 1.0, "pages": 1.0}, units=300).run(300)
    program.search.end()
    assert "pages" not in program.used
    assert [entry["reason"] for entry in program.record.of("not_tried")] == ["all was moved"]


def test_once_it_has_been_on_no_other_trial_is_made_of_it():
    program = Program([lever("b"), pages()], {"default": 1.0, "b": 0.6, "b + pages": 0.5}, units=300)
    while program.search.next() != Action(CHECK, program.search.current) or program.search.current.name != "b + pages":
        program.run(1)
    program.search.anew(1.0, 0.5)  # what an earlier run had kept of b is wrong
    program.run(100)
    (entry,) = program.record.of("not_tried")
    assert entry["lever"] == "pages" and "can no longer be measured" in entry["reason"]
    assert "b + pages" not in program.used


def test_what_it_takes_counts_beside_what_is_made_anew_for_it():
    one, compiled = pages(taking=lambda: 400.0), lever("compile", expensive=True)
    program = Program([one], {"default": 1.0}, units=300, costs={"compile": 20.0}).run(5)
    refusal = program.search._prospects.refusal(one, Variant((compiled, one)), 1.0, 1.0, True)
    assert refusal.startswith("making it ready takes about 420 s")


class Tried(TriedCalls):
    """Calls of a second each, of a program in which switching to another variant takes five."""

    def __init__(self):
        self.time, self.on = 0.0, DEFAULT

    def now(self, search):
        return self.time

    def follow(self, variant):
        self.time += 5.0 if variant not in (self.on, DEFAULT) else 0.0
        self.on = variant

    def ready(self, search, variant):
        return self.spend

    def spend(self, seconds):
        self.time += seconds

    def cut(self, call, part):
        return call * part.share

    def compare_part(self, variant, default, result, part):
        return 0.0, None


def test_what_switching_takes_is_known_where_results_are_compared_on_a_part_first():
    one = lever("pages", irreversible=True)
    settings = Trials(mode="live", share=0.5, units=300)
    search, calls = Search("program", [one], settings, Memory(), part=Part(1, 8)), Tried()
    action = search.next()
    while action.kind != PROBE:
        calls.do(search, action, calls.spend, 1.0)
        action = search.next()
    calls.do(search, action, calls.spend, 1.0)
    assert search._one_time == 5.0
    assert search.ledger.lost == pytest.approx(5.0 + 2 / 8, abs=0.05)
