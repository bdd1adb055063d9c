"""Steps of a training are done once, by whatever variant, and set back where a variant spoils them."""

import math

import pytest

from launch_parts import lever
from modak_deploy.launch.config import Trials
from modak_deploy.launch.frameworks import steps as module
from modak_deploy.launch.frameworks.steps import Step, Steps
from modak_deploy.launch.search import Search


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    one = Clock()
    monkeypatch.setattr(module.time, "perf_counter", one)
    return one


class Training:
    """A training whose weight is the number of steps that were done."""

    def __init__(self, session, clock, times, losses=None, fails=()):
        self.clock, self.times, self.losses, self.fails = clock, times, losses or {}, fails
        self.weight, self.did, self.built = 0, [], set()
        search = Search("training", [lever(name) for name in times if name != "default"], Trials(share=1.0),
                        session.record, checks=False)  # fmt: skip
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

    def known(self, variant):
        return variant.name in self.training.built

    def keep(self):
        weight = self.training.weight

        def undo():
            self.training.weight = weight

        return undo

    def do(self, variant):
        name = variant.levers[-1].name
        result = self._do(name, 0.0 if self.known(variant) else 5.0)
        if name in self.training.fails:
            raise RuntimeError("it cannot be compiled")
        self.training.built.add(variant.name)
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
