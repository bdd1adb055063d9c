"""Trials of what is made ready in the background: units go on meanwhile, and only what they lose is charged."""

import pytest

from launch_parts import Program, lever

TIMES = {"default": 1.0, "a": 0.8, "made": 0.3, "a + made": 0.25}


def program(units: int = 200, share: float = 0.03, **options) -> Program:
    levers = options.pop("levers", [lever("made", expensive=True)])
    return Program(levers, TIMES, units=units, share=share, costs={"made": 30.0}, **options)


def beside(units: int = 200, share: float = 0.03, seconds: float = 30.0, **options) -> Program:
    return program(units, share, **options).background({"made": seconds}, loss=0.5)


def test_a_job_that_cannot_wait_for_it_tries_it_once_it_is_ready():
    assert program().run(200).search.best.name == "default"
    job = beside().run(200)
    assert job.search.best.name == "made"
    first = job.used.index("made")
    assert 30 <= first <= 40
    assert set(job.used[:first]) == {"default"}
    (trial,) = job.record.of("trial")
    assert (trial["one_time"], trial["background"], trial["kept"]) == (30.0, 30.0, True)
    assert trial["lost"] < 2.0
    assert [entry["event"] for entry in job.record.entries[:3]] == ["making", "made", "trying"]
    assert job.record.of("drift")


def test_what_is_cheap_is_tried_meanwhile_and_stays_on():
    job = beside(levers=[lever("a"), lever("made", expensive=True)], share=0.05).run(200)
    assert job.used.index("a") < 20
    assert [entry["variant"] for entry in job.record.of("trial")][:2] == ["a", "a + made"]
    assert job.search.best.name == "a + made"


def test_a_lever_of_the_same_group_waits_for_the_first():
    levers = [lever(name, expensive=True, group="compilation") for name in ("made", "other")]
    job = Program(levers, {**TIMES, "other": 0.2}, units=300, costs={"made": 30.0, "other": 30.0})
    job.background({"made": 30.0, "other": 30.0}, loss=0.5).run(300)
    assert [entry["variant"] for entry in job.record.of("making")] == ["made", "other"]
    assert job.search.best.name == "other"


@pytest.mark.parametrize("units", [20, 36])
def test_it_is_not_begun_where_the_units_left_are_too_few(units):
    job = beside(units).run(units)
    assert not job.record.of("making")
    assert set(job.used) == {"default"}


def test_what_is_ready_too_late_is_not_tried():
    job = beside(60, seconds=55.0, share=0.1)
    job.search.takes_background({"made": 2.0})
    job.run(60)
    job.search.end()
    assert "made" not in job.used
    assert [entry["lever"] for entry in job.record.of("not_tried")] == ["made"]


def test_a_program_that_ends_meanwhile_tells_so():
    job = beside(200).run(20)
    job.search.end()
    (entry,) = job.record.of("not_tried")
    assert (entry["lever"], entry["reason"]) == ("made", "the program ended while it was made ready in the background")
    assert job.record.of("settled")[-1]["variant"] == "default"


def test_what_cannot_be_made_is_given_up():
    job = beside()
    job.broken = {"made"}
    job.run(200)
    assert job.record.of("fallback") == [{"event": "fallback", "what": "made", "reason": "it breaks"}]
    (trial,) = job.record.of("trial")
    assert (trial["failed"], trial["kept"], trial["result"]) == (True, False, "it breaks")
    assert job.search.settled
    assert set(job.used) == {"default"}


def test_what_took_too_long_may_be_tried_by_the_next_job():
    job = beside().run(20)
    job.search.not_made("it was not ready after 60 s", 60.0, undecided=True)
    job.run(20)
    (entry,) = job.record.of("not_tried")
    assert entry["lever"] == "made"
    assert not job.record.of("fallback")
    assert job.search.settled


def test_a_wrong_result_is_given_up_as_others_are():
    job = beside()
    job.wrong = {"made"}
    job.run(200)
    assert job.record.of("fallback")[0]["reason"] == "differs"
    assert job.used.count("made") == 1


@pytest.mark.parametrize("units", [20, 33])
def test_after_a_change_of_weights_it_is_made_anew(units):
    job = beside(300).run(units)
    job.search.verify()
    job.run(300 - units)
    assert [entry["variant"] for entry in job.record.of("making")] == ["made", "made"]
    assert job.search.best.name == "made"
    assert job.record.of("trial")[-1]["one_time"] == 30.0


def test_where_it_cannot_begin_all_is_as_before():
    job = program(1000, share=0.05)
    job.search.takes_background({"made": 0.5})
    assert set(job.run(20).used) == {"default"}
    assert job.search.to_make is not None
    job.search.not_begun()
    assert job.search.to_make is None
    assert job.run(900).search.best.name == "made"
    assert not job.record.of("making")
    assert "background" not in job.record.of("trial")[0]


def test_after_a_stop_nothing_is_waited_for():
    job = beside().run(20)
    job.search.stop("the program trains")
    assert job.search.making is None
    assert set(job.run(100).used) == {"default"}
    assert job.record.of("settled")[-1]["reason"] == "the program trains"


@pytest.mark.parametrize(
    "slow, longer, lost, best", [(range(10, 20), 0.02, 0.2, "made"), (range(5, 60), 0.3, 6.0, "default")]
)
def test_units_that_take_longer_meanwhile_are_lost(slow, longer, lost, best):
    """A job that loses too much does not try what is ready."""

    def times(name, unit):
        return TIMES[name] + (longer if unit in slow else 0.0)

    job = Program([lever("made", expensive=True)], times, units=200, share=0.03, costs={"made": 30.0})
    job.background({"made": 30.0}, loss=0.5).run(25)
    assert job.search.waits
    assert job.search.ledger.lost == pytest.approx(lost)
    job.run(175)
    job.search.end()
    assert set(job.used) == {"default", best}
    assert [entry["lever"] for entry in job.record.of("not_tried")] == ([] if best == "made" else ["made"])


@pytest.mark.parametrize("units", [45, 60, 100])
def test_a_winner_that_is_dear_to_make_anew_is_made_in_the_background_again(units):
    job = beside(400).run(units)
    assert job.search.best.name == "made"
    job.search.ledger.lost = 0.0
    job.search.verify()
    assert job.search.best.name == "default"
    assert job.record.of("deferred")[-1]["variant"] == "made"
    job.run(400 - units)
    assert [entry["variant"] for entry in job.record.of("making")] == ["made", "made"]
    again = job.used.index("made", units)
    assert again >= units + 30
    assert set(job.used[units:again]) == {"default"}
    assert job.search.best.name == "made"
    assert job.record.of("settled")[-1]["variant"] == "made"


def test_a_winner_is_left_while_the_default_is_measured_again():
    job = beside(400)
    while job.search._phase != "final" or "default" not in job.used[-1:]:
        job.run(1)
        assert len(job.used) < 100
    job.search.verify()
    job.run(200)
    assert job.search.best.name == "made"
    assert job.record.of("drift")


def test_what_was_best_before_is_gone_back_to():
    job = beside(600, levers=[lever("a"), lever("made", expensive=True)], share=0.05).run(100)
    assert job.search.best.name == "a + made"
    job.search.ledger.lost = 10.0
    job.search.verify()
    assert job.search.best.name == "a"
    assert job.run(1).kinds[-1] == "check"  # of what is used now
    assert job.used[-1] == "a"
    job.run(400)
    assert job.search.best.name == "a + made"


def test_what_is_being_tried_on_top_of_it_waits_as_well():
    levers = [lever("made", expensive=True), lever("late", order=99, expensive=True)]
    job = Program(levers, {**TIMES, "late": 0.9, "made + late": 0.2}, units=600, costs={"made": 30.0, "late": 30.0})
    job.background({"made": 30.0, "late": 30.0}, loss=0.5)
    while job.search.current.name != "made + late":
        job.run(1)
        assert len(job.used) < 200
    job.search.ledger.lost = 0.0
    job.search.verify()
    assert job.search.best.name == "default"
    assert {lever.name for lever in job.search._pending} == {"made", "late"}
    job.run(300)
    assert "made" in job.search.best.name


def test_a_winner_that_the_job_can_make_anew_stays():
    job = beside(2000, share=0.2).run(100)
    job.search.verify()
    assert job.search.best.name == "made"
    assert job.run(1).kinds[-1] == "check"
