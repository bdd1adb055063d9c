"""Batches of Keras are counted right with steps_per_execution, as its EpochIterator reports them, and others told."""

from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.launch.frameworks import keras as adapter
from modak_deploy.launch.frameworks.keras.batches import Listener, hook
from modak_deploy.launch.frameworks.keras.functions import BatchFunction
from modak_deploy.launch.frameworks.keras.kinds import PREDICT, Subject, unfollowed
from modak_deploy.launch.progress import Counters


class CallbackList:
    """What the adapter wraps: hooks of the three kinds."""

    def __init__(self, steps: Any) -> None:
        self.params = {"steps": steps}

    def begin(self, batch: int, logs: Any = None) -> None:
        """Nothing."""

    on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = begin
    on_train_batch_end = on_test_batch_end = on_predict_batch_end = begin

    def end(self, logs: Any = None) -> None:
        """Nothing."""

    on_train_end = on_test_end = on_predict_end = end


@pytest.mark.parametrize(
    ("steps", "per_execution", "epochs", "counted"),
    [(10, 4, 4, 40), (40, 16, 1, 40), (8, 4, 2, 16), (3, 1, 2, 6), (None, 4, 1, 12)],
)
def test_the_last_execution_of_an_epoch_counts_its_own_batches(session_of, steps, per_execution, epochs, counted):
    session = session_of(mode="none")
    callbacks = type("Own", (CallbackList,), {})
    adapter.install(session, SimpleNamespace(callbacks=SimpleNamespace(CallbackList=callbacks)), "3.15.1")
    one = callbacks(steps)
    for _ in range(epochs):
        for first in range(0, steps or 10, per_execution):
            one.on_train_batch_begin(first)
            one.on_train_batch_end(first + per_execution - 1, {"loss": 1.0})
    session.counters.write()
    assert session.record.states["keras: train"]["units"] == counted


def test_a_call_within_a_batch_of_another_one_counts_its_own_batches(session_of):
    session = session_of(mode="none")
    callbacks = type("Own", (CallbackList,), {})
    adapter.install(session, SimpleNamespace(callbacks=SimpleNamespace(CallbackList=callbacks)), "3.15.1")
    outer, inner = callbacks(10), callbacks(2)
    for number in range(10):
        outer.on_predict_batch_begin(number)
        for one in range(2):
            inner.on_predict_batch_begin(one)
            inner.on_predict_batch_end(one)
        outer.on_predict_batch_end(number)
    session.counters.write()
    assert session.record.states["keras: predict"]["units"] == 30


@pytest.mark.parametrize("batch", [None, ("images", "labels"), "first"])
def test_a_loop_of_the_programs_own_may_tell_callbacks_anything(session_of, batch):
    told: list[Any] = []

    class Program(CallbackList):
        def on_train_batch_begin(self, batch, logs=None):
            told.append(batch)

    session = session_of(mode="none")
    adapter.install(session, SimpleNamespace(callbacks=SimpleNamespace(CallbackList=Program)), "3.15.1")
    one = Program(None)
    for number in range(3):
        one.on_train_batch_begin(batch)
        one.on_train_batch_end(number)
    session.counters.write()
    assert told == [batch] * 3
    assert session.record.states["keras: train"]["units"] == 3


class Noting(Listener):
    """Notes what it is told."""

    def __init__(self, notes: Any) -> None:
        self.notes = notes

    def begins(self, kind, callbacks):
        self.notes.append("begins")

    def begun(self, kind, callbacks, batch):
        self.notes.append(f"begun {batch}")

    def ended(self, kind, callbacks, batches, logs):
        self.notes.append(f"ended {batches}")

    def finished(self, kind):
        self.notes.append("finished")


def test_listeners_are_told_before_or_after_the_programs_callbacks():
    notes: list[str] = []

    class Program(CallbackList):
        def on_train_batch_begin(self, batch, logs=None):
            notes.append("program begins")

        def on_train_batch_end(self, batch, logs=None):
            notes.append("program ends")

        def on_train_end(self, logs=None):
            notes.append("program finishes")
            return "kept"

    listeners: list[Listener] = []
    hook(Program, "train", listeners)
    listeners.append(Noting(notes))  # as the trial of pipelines comes later
    one = Program(None)
    one.on_train_batch_begin(4)
    one.on_train_batch_end(7)
    assert one.on_train_end() == "kept"
    assert notes == [
        *("begins", "program begins", "begun 4"),
        *("ended 4", "program ends"),
        *("program finishes", "finished"),
    ]


def test_what_trials_know_of_the_batches_ahead_is_counted_with(session_of):
    session = session_of(mode="none")
    session.counters = Counters(session.record, expected=100)
    callbacks = type("Own", (CallbackList,), {})
    adapter.install(session, SimpleNamespace(callbacks=SimpleNamespace(CallbackList=callbacks)), "3.15.1")
    subject = Subject(SimpleNamespace(), SimpleNamespace(), SimpleNamespace(), PREDICT)
    function: Any = BatchFunction(session, subject, lambda data: data, lambda: None)
    one: Any = callbacks(10)
    for ahead, model in ((0.5, SimpleNamespace(predict_function=function)), (None, SimpleNamespace())):
        function._search = SimpleNamespace(pace=ahead)
        one._model = model
        for number in range(10):
            one.on_predict_batch_begin(number)
            one.on_predict_batch_end(number)
        session.counters.write()
        state = session.record.states["keras: predict"]
        assert (state["left"] > 40) is (ahead == 0.5), "90 batches of half a second, or a moment"


@pytest.mark.parametrize(
    ("units", "calls", "waits"), [(None, 20, True), (1000, 5, True), (1000, 20, False), (100, 5, False)]
)
def test_what_was_chosen_waits_for_a_part_of_the_jobs_batches(session_of, units, calls, waits):
    """A batch takes 25 ms: twenty of a thousand take half a second, and two of a hundred 50 ms."""
    session = session_of(mode="none", units=units, levers=["keras-openvino"])
    subject = Subject(SimpleNamespace(), SimpleNamespace(), SimpleNamespace(), PREDICT)
    function: Any = BatchFunction(session, subject, lambda data: data, lambda: None)
    function._calls, function._first = calls + 1, 0.1
    function._spent = 0.1 + 0.025 * (calls - 1)
    assert function._waits() is waits


@pytest.mark.parametrize(("mode", "followed"), [("none", 20), ("live", adapter.FUNCTIONS)])
def test_what_was_chosen_is_used_for_all_models_and_trials_are_made_on_the_first(session_of, mode, followed):
    class Model:
        def make_predict_function(self, force: bool = False) -> Any:
            self.predict_function: Any = lambda data: data

    keras = SimpleNamespace(Model=Model)
    adapter._replace(session_of(mode=mode, levers=["keras-tensorflow-bf16"]), keras, PREDICT)
    models = [Model() for _ in range(20)]
    for model in models:
        model.make_predict_function()
    assert sum(isinstance(model.predict_function, BatchFunction) for model in models) == followed


def test_functions_of_a_keras_without_a_configuration_are_not_followed():
    keras = SimpleNamespace(__version__="2.15.0", backend=SimpleNamespace(backend=lambda: "tensorflow"))
    assert unfollowed(keras) == "Keras 2.15.0 on tensorflow is not supported; it needs >=3.4 on tensorflow"
