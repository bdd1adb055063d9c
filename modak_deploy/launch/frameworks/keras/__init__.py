"""Keras: batches are counted, and levers tried between them; others are set when it is imported or a model compiled."""

import functools
import importlib
import time
from typing import Any, Dict, Optional, Tuple

from ...progress import Progress
from ...session import Session
from ...versions import satisfies
from .functions import BatchFunction
from .kinds import PREDICT, TRAIN, Subject
from .pipelines import Pipelines, follow
from .work import features

KINDS = ("train", "test", "predict")
TRIALS = ">=3.4"
PLAIN_INPUT = "keras-plain-input"
"""The lever that is tried between epochs and calls."""
HARMLESS = ("History", "ProgbarLogger")
"""Callbacks of Keras that leave the model as it is."""
FUNCTIONS = 16
"""Functions that are followed; programs that compile a model again and again have none to speak of."""


def install(session: Session, keras: Any, version: str) -> None:
    """Count the batches of fit, evaluate and predict through the list of callbacks."""
    callbacks = keras.callbacks.CallbackList
    counters: Dict[str, Progress] = {}
    for kind in KINDS:
        _follow(session, callbacks, kind, counters)
    if session.tries and not session.config.trials.surveys:
        session.guarded("the pipelines of keras", _try_pipelines)(session, keras, version)
    if session.tries or session.chosen("keras", version, lambda lever: lever.at_calls):
        session.guarded("the adapter of keras", _try)(session, keras, version)


def _try(session: Session, keras: Any, version: str) -> None:
    """Put trials in the place of the functions that Keras makes for the batches of a model."""
    backend = keras.config.backend()
    if backend != "tensorflow" or not satisfies(version, TRIALS):
        reason = "Keras {} on {} is not supported; it needs {} on tensorflow".format(version, backend, TRIALS)
        session.record.add("no_trials", of="keras", reason=reason)
        return
    for kind in (TRAIN, PREDICT):
        _replace(session, keras, kind)


def _try_pipelines(session: Session, keras: Any, version: str) -> None:
    """Try, between epochs and calls, how the pipelines of arrays end."""
    if keras.config.backend() != "tensorflow" or PLAIN_INPUT in session.config.levers:
        return
    for lever in session.candidates("keras", version, lambda item: item.name == PLAIN_INPUT):
        trial = follow(session, keras, lever)
        callbacks = keras.callbacks.CallbackList
        for kind in KINDS:
            _tell(trial, callbacks, kind)


def _tell(trial: Pipelines, callbacks: Any, kind: str) -> None:
    """Tell the trial of pipelines when batches begin and end."""
    begin = getattr(callbacks, "on_{}_batch_begin".format(kind))
    end = getattr(callbacks, "on_{}_batch_end".format(kind))
    over = getattr(callbacks, "on_{}_end".format(kind))
    first = [0]

    @functools.wraps(begin)
    def begun(self: Any, batch: Any, logs: Any = None) -> Any:
        trial.hear(trial.begun, kind, getattr(self, "_model", None))
        first[0] = int(batch)
        return begin(self, batch, logs)

    @functools.wraps(end)
    def ended(self: Any, batch: Any, logs: Any = None) -> Any:
        trial.hear(trial.ended, kind, _batches(self, first[0], int(batch)))
        return end(self, batch, logs)

    @functools.wraps(over)
    def finished(self: Any, logs: Any = None) -> Any:
        result = over(self, logs)
        trial.hear(trial.finished, kind)
        return result

    setattr(callbacks, "on_{}_batch_begin".format(kind), begun)
    setattr(callbacks, "on_{}_batch_end".format(kind), ended)
    setattr(callbacks, "on_{}_end".format(kind), finished)


def _replace(session: Session, keras: Any, kind: str) -> None:
    name, attribute = "make_{}_function".format(kind), "{}_function".format(kind)
    make = getattr(keras.Model, name)
    followed = [0]

    @functools.wraps(make)
    def made(self: Any, force: bool = False) -> Any:
        before = self.__dict__.get(attribute)
        if isinstance(before, BatchFunction):
            before.permit(False)
        result = make(self, force=force)
        function = self.__dict__.get(attribute)
        new = callable(function) and function is not before  # what the program has put there is its own
        if new and session.active and followed[0] < FUNCTIONS:
            followed[0] += 1
            subject = Subject(keras, importlib.import_module("tensorflow"), self, kind)
            self.__dict__[attribute] = BatchFunction(session, subject, function, make)
        return result

    setattr(keras.Model, name, made)


def _follow(session: Session, callbacks: Any, kind: str, counters: Dict[str, Progress]) -> None:
    described = session.guarded("the description of a model", features)
    begin = getattr(callbacks, "on_{}_batch_begin".format(kind))
    end = getattr(callbacks, "on_{}_batch_end".format(kind))
    note = session.guarded("the callbacks of predict", _note_callbacks)
    started = [0.0, 0]

    @functools.wraps(begin)
    def begun(self: Any, batch: Any, logs: Any = None) -> Any:
        result = begin(self, batch, logs)
        if kind == PREDICT:
            note(self, batch)
        started[:] = [time.perf_counter(), int(batch)]
        return result

    @functools.wraps(end)
    def ended(self: Any, batch: Any, logs: Any = None) -> Any:
        if session.active and started[0]:
            now = time.perf_counter()
            counter = counters.get(kind)
            if counter is None:
                counter = counters[kind] = session.counters.counter("keras: " + kind, "batch")
                model = getattr(self, "_model", None)  # its public name is a property that may have been replaced
                counter.features = (described(model, kind == TRAIN) if model is not None else None) or {}
            counter.add(now, now - started[0], _batches(self, int(started[1]), int(batch)))
            loss = _loss(logs)
            counter.loss = counter.loss if loss is None else loss
            session.counters.tick(now)
        return end(self, batch, logs)

    setattr(callbacks, "on_{}_batch_begin".format(kind), begun)
    setattr(callbacks, "on_{}_batch_end".format(kind), ended)


def _note_callbacks(callbacks: Any, batch: Any) -> None:
    """Tell a model's function whether the next batch has the weights of the last one: nothing else ran between them.

    Callbacks of the program's own may change weights, and so may functions that it has put into those of Keras.
    """
    function = getattr(getattr(callbacks, "_model", None), "predict_function", None)
    if isinstance(function, BatchFunction):
        kerass = all(_is_kerass(callback, HARMLESS) for callback in callbacks.callbacks)
        function.permit(int(batch) > 0 and kerass and _is_kerass(callbacks, ("CallbackList",)))


def _is_kerass(value: Any, names: Tuple[str, ...]) -> bool:
    """Tell whether something is of one of Keras's own classes, and no method was put in place of the class's."""
    kind = type(value)
    own = kind.__module__.startswith("keras.src.") and kind.__name__ in names
    return own and not any(name.startswith("on_") for name in vars(value))


def _batches(callbacks: Any, first: int, last: int) -> int:
    """Return the batches between a begin and its end: several with steps_per_execution.

    Keras 3 names ``first + steps_per_execution - 1`` as the last one, also where the epoch ends before it
    (EpochIterator._enumerate_iterator in keras/src/trainers/epoch_iterator.py).
    """
    parameters = getattr(callbacks, "params", None)
    steps = parameters.get("steps") if isinstance(parameters, dict) else None
    if isinstance(steps, int) and steps > first:
        last = min(last, steps - 1)
    return max(1, last - first + 1)


def _loss(logs: Any) -> Optional[float]:
    """Return the loss where it is a number already; reading a tensor would wait for the device."""
    value = logs.get("loss") if isinstance(logs, dict) else None
    return float(value) if isinstance(value, (int, float)) else None
