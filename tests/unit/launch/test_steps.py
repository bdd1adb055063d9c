"""Steps of a training are done once, by whatever variant, and set back where a variant spoils them."""

import math

import pytest

from launch_parts import lever
from modak_deploy.launch.config import Trials
from modak_deploy.launch.frameworks import steps as module
from modak_deploy.launch.frameworks.steps import NotDone, Step, Steps
from modak_deploy.launch.search import Search


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    one = Clock()
    monkeypatch.setattr(module.clock, "now", one)
    return one


class Training:
    """A training whose weight is the number of steps that were done."""

    def __init__(self, session, clock, times, losses=None, fails=(), **trials):
        self.clock, self.times, self.losses, self.fails = clock, times, losses or {}, fails
        self.weight, self.did, self.built = 0, [], set()
        self.leaves, self.prepared = (), []
        self.size = 32
        levers = [lever(name) for name in times if name != "default"]
        self.search = search = Search("training", levers, Trials(**{"share": 1.0, **trials}), session.record,
                                      checks=False)  # fmt: skip
        self.steps = Steps(session, "training", search)

    def run(self, count):
        for _ in range(count):
            self.steps.step(One(self))
        return self


class One(Step):
    def __init__(self, training):
        self.training = training

    def _do(self, name, extra=0.0):
        training = self.training
        training.clock.now += training.times[name] + extra
        training.weight += 1
        training.did.append(name)
        return training.losses.get(name, 1.0)

    def default(self):
        return self._do("default")

    def prepare(self, variant):
        self.training.prepared.append(variant.name)

    def built(self, variant):
        return (variant.name, self.training.size) in self.training.built

    def keep(self):
        weight = self.training.weight

        def undo():
            self.training.weight = weight

        return undo

    def do(self, variant):
        name = variant.levers[-1].name
        result = self._do(name, 0.0 if self.built(variant) else 5.0)
        if name in self.training.leaves:
            self.training.weight -= 1
            raise NotDone("it has no such row")
        if name in self.training.fails:
            raise RuntimeError("it cannot be compiled")
        self.training.built.add((variant.name, self.training.size))
        return result

    def loss(self, result):
        return result


def events(session, name):
    return [entry for entry in session.record.entries if entry["event"] == name]


def test_a_faster_variant_stays_and_building_it_is_a_one_time_cost(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "fast": 0.5}).run(60)
    assert training.weight == 60
    assert training.did[-1] == "fast"
    (trial,) = events(session, "trial")
    assert trial["kept"] and trial["one_time"] == pytest.approx(4.5) and trial["seconds"] == 0.5


@pytest.mark.parametrize("losses", [{"bad": math.nan}, {"bad": math.inf}])
def test_a_step_with_a_loss_that_is_not_finite_is_done_again(session_of, clock, losses):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "bad": 0.1}, losses).run(40)
    assert training.weight == 40 and training.did.count("bad") == 1
    assert "done again without it: the loss is not finite" in events(session, "fallback")[0]["reason"]


def test_a_variant_that_fails_is_done_again_and_given_up(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "bad": 0.1, "fast": 0.5}, fails={"bad"}).run(60)
    assert training.weight == 60 and training.did.count("bad") == 1 and training.did[-1] == "fast"
    assert "it cannot be compiled" in events(session, "fallback")[0]["reason"]


def test_a_rising_loss_gives_a_variant_up(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "bad": 0.5}, {"bad": 9.0}).run(60)
    assert training.weight == 60 and training.did[-1] == "default"
    assert "the loss rises" in events(session, "fallback")[0]["reason"]


def test_without_a_loss_nothing_is_tried(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "fast": 0.5}, {"default": None}).run(20)
    assert training.steps.over and set(training.did) == {"default"}
    assert events(session, "no_trials")[0]["reason"] == "the step gives no loss to compare"


def test_the_programs_own_error_reaches_it(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "fast": 0.5}).run(60)
    training.fails = {"fast"}
    with pytest.raises(RuntimeError):
        training.run(1)


def test_a_step_that_a_winner_leaves_to_the_program_is_the_programs(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "fast": 0.5}).run(60)
    training.leaves = {"fast"}
    training.run(5)
    assert training.weight == 65 and training.did[-1] == "default"
    assert "it has no such row" in events(session, "fallback")[0]["reason"]


def test_a_step_is_prepared_for_the_variant_that_does_it(session_of, clock):
    training = Training(session_of(), clock, {"default": 1.0, "fast": 0.5}).run(60)
    assert training.prepared == [name for name in training.did if name == "fast"]


def test_steps_of_ever_new_sizes_are_built_for_while_that_is_affordable(session_of, clock):
    training = Training(session_of(), clock, {"default": 1.0, "fast": 0.5}, share=0.03, units=300).run(60)
    assert training.did[-1] == "fast"
    for size in range(200):
        training.size = size
        training.run(1)
    assert training.weight == 260
    assert training.did[60:].count("fast") < 20, "each new size takes 5 s more with it"
    assert clock.now < 290
    training.size = 32
    assert training.run(1).did[-1] == "fast", "what it was built for is done by it"


def test_what_is_copied_before_each_step_must_be_affordable(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "fast": 0.5}, share=0.03, units=100)
    training.search.takes(10.0)
    training.run(50)
    assert set(training.did) == {"default"}
    assert "may lose 10.5 s" in events(session, "not_tried")[0]["reason"]


def test_trials_that_end_for_a_reason_told_elsewhere_leave_the_default(session_of, clock):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "fast": 0.5}).run(60)
    training.steps.end("the function is called by several threads at once")
    assert training.steps.over and training.search.best.name == "default"
    assert events(session, "settled")[-1]["variant"] == "default" and not events(session, "no_trials")


@pytest.mark.parametrize("method", ["next", "report"])
def test_a_fault_of_the_launchers_own_does_no_step_twice(session_of, clock, method):
    session = session_of()
    training = Training(session, clock, {"default": 1.0, "one": 0.5})
    while "one" not in training.did:
        training.run(1)
    before = training.weight

    def broken(*_):
        raise ZeroDivisionError

    setattr(training.search, method, broken)
    training.run(3)
    assert training.weight == len(training.did) == before + 3 and training.steps.over
    assert training.did[-2:] == ["default"] * 2
    (entry,) = session.record.of("fallback")
    assert (entry["what"], entry["reason"]) == (
        "the observation of training",
        "the launcher failed: ZeroDivisionError:",
    )
