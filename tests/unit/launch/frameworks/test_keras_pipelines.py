"""Whether the ends of Keras's pipelines are a loss is seen between epochs and calls, by when what happens."""

import pytest

from launch_parts import lever
from modak_deploy.launch.config import Trials
from modak_deploy.launch.frameworks.keras import pipelines as module
from modak_deploy.launch.frameworks.keras.pipelines import Pipelines
from modak_deploy.launch.levers.keras.plain_input import LEVER
from modak_deploy.launch.survey import search_for
from modak_deploy.launch.variants import Variant

BATCH = 0.05


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Program:
    """Does epochs and calls of 10 batches, at whose ends it waits as long as ``waits`` says of both ways."""

    def __init__(self, session, monkeypatch, **waits):
        self.clock = Clock()
        monkeypatch.setattr(module.clock, "now", self.clock)
        self.trial = Pipelines(session, LEVER)
        self.waits = waits

    def _pipeline(self, kind, source, before=0.0):
        self.trial.asked(source)
        plain = self.trial.on  # as the pipeline is made now
        for number in range(10):
            self.clock.now += before if number == 0 else 0.0
            self.trial.begun(kind, Net())
            self.clock.now += BATCH
            self.trial.ended(kind, 1)
        wait = self.waits["plain" if plain else "default"]
        return wait.pop(0) if isinstance(wait, list) else wait

    def fit(self, epochs, validation=0):
        source, before = Epochs(), 0.0
        for _ in range(epochs):
            before = self._pipeline("train", source, before)
            self.clock.now += 0.3  # callbacks of the epoch's end
            for _ in range(validation):
                self.call("test")
        self._return("train", before)

    def call(self, kind):
        self._return(kind, self._pipeline(kind, Epochs()))

    def _return(self, kind, wait):
        self.clock.now += 0.3  # callbacks of the call's end
        self.trial.finished(kind)
        self.clock.now += wait
        self.trial.returned(kind)


class Net:
    pass


class Epochs:
    pass


@pytest.fixture
def program(session_of, monkeypatch):
    def make(**waits):
        session = session_of()
        return Program(session, monkeypatch, **waits), session.record

    return make


def of(record, name):
    return [entry for entry in record.entries if entry["event"] == name]


def test_epochs_that_wait_at_their_end_get_the_lever(program):
    one, record = program(default=0.2, plain=0.0)
    one.fit(8)
    (trial,) = of(record, "trial")
    assert (trial["of"], trial["variant"], trial["kept"]) == ("keras: train of Net", "keras-plain-input", True)
    assert trial["rival_times"] == pytest.approx([BATCH + 0.02] * 3)
    assert trial["times"] == pytest.approx([BATCH] * 3)
    assert trial["gain"] == pytest.approx(1.4)
    assert one.trial.on and one.trial.over
    (settled,) = of(record, "settled")
    assert (settled["of"], settled["variant"]) == ("the pipelines of Keras", "keras-plain-input")
    assert [entry["lever"] for entry in of(record, "trying")] == ["keras-plain-input"]


def test_the_record_leaves_no_pipeline_out_of_its_pairs(program):
    one, record = program(default=[9.0, 0.01, 0.01, 0.01, 0.01, 0.45, 0.01], plain=0.01)
    one.fit(12)
    (trial,) = of(record, "trial")
    assert trial["rival_times"] == pytest.approx([BATCH + end for end in (0.001, 0.001, 0.023)])
    assert trial["times"] == pytest.approx([BATCH + 0.001] * 3)
    assert trial["gain"] == pytest.approx((BATCH + 0.05 / 6) / (BATCH + 0.001))


def test_the_record_names_what_else_was_on(program):
    one, record = program(default=0.2, plain=0.0)
    search = search_for("keras: train of Net", [lever("bf16")], Trials(mode="live", share=1.0), record)
    search.best = Variant((lever("bf16"),))
    one.trial._session.follow(search)
    one.fit(8)
    (trial,) = of(record, "trial")
    assert (trial["variant"], trial["rival"]) == ("bf16 + keras-plain-input", "bf16")


def test_calls_that_wait_at_their_end_get_it_too(program):
    one, record = program(default=0.3, plain=0.001)
    for _ in range(8):
        one.call("predict")
    (trial,) = of(record, "trial")
    assert (trial["of"], trial["kept"]) == ("keras: predict of Net", True)
    assert "0.001 s, and 0.3 s by default" in trial["result"]


def test_what_does_not_wait_is_left_alone(program):
    one, record = program(default=0.005, plain=0.0)
    one.fit(8)
    for _ in range(6):
        one.call("predict")
    assert record.entries == [] and not one.trial.on


def test_a_lever_that_does_not_help_one_kind_is_tried_on_the_other(program):
    one, record = program(default=0.2, plain=0.19)
    for _ in range(8):
        one.call("test")
    assert not one.trial.on and not one.trial.over
    one.waits["plain"] = 0.0
    one.fit(8)
    assert [trial["kept"] for trial in of(record, "trial")] == [False, True]


def test_validation_between_epochs_is_no_end_of_theirs(program):
    one, record = program(default=0.0, plain=0.0)
    one.fit(6, validation=2)
    assert record.entries == []


def test_models_of_several_threads_are_left_alone(program, monkeypatch):
    one, record = program(default=0.2, plain=0.0)
    one.fit(4)
    monkeypatch.setattr(module.threading, "get_ident", lambda: -1)
    one.fit(4)
    assert one.trial.over and of(record, "trial") == []
    assert [entry["lever"] for entry in of(record, "not_tried")] == ["keras-plain-input"]


def test_a_failure_ends_the_trial_and_not_the_program(program):
    one, record = program(default=0.2, plain=0.0)
    one.trial.on = True
    one.trial.hear(one.trial.asked, object())  # to which nothing can refer weakly
    assert one.trial.over and not one.trial.on
    assert [entry["what"] for entry in of(record, "fallback")] == ["the pipelines of keras"]
