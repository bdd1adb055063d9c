"""Who is told of the batches of fit, evaluate and predict: listeners, by one hook in Keras's list of callbacks."""

import functools
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from ... import clock
from ...frames import cleaned
from ...progress import Progress, weakly
from ...session import Session
from .functions import BatchFunction
from .kinds import PREDICT, TRAIN
from .work import features

KINDS = ("train", "test", "predict")
HARMLESS = ("History", "ProgbarLogger")
"""Callbacks of Keras that leave the model as it is."""
FIRST, STARTED = "_modak_first_", "_modak_started_"
"""Attributes of a call's list of callbacks for its batch of a kind: other calls may run within, or beside it."""


class Listener:
    """What is told of the batches of all models; ``callbacks`` is the list of one call's callbacks."""

    def begins(self, kind: str, callbacks: Any) -> None:
        """Take note that a batch begins, before the program's callbacks do."""

    def begun(self, kind: str, callbacks: Any, batch: int) -> None:
        """Take note that the program's callbacks know that a batch begins: what follows is the batch."""

    def ended(self, kind: str, callbacks: Any, batches: int, logs: Any) -> None:
        """Take note that so many batches have ended, before the program's callbacks do."""

    def finished(self, kind: str) -> None:
        """Take note that the callbacks of a call have been told of its end."""


def hook(callbacks: Any, kind: str, listeners: Sequence[Listener]) -> None:
    """Have Keras's class for lists of callbacks tell the listeners, those that come later included, of a kind."""
    begin = getattr(callbacks, "on_{}_batch_begin".format(kind))
    end = getattr(callbacks, "on_{}_batch_end".format(kind))
    over = getattr(callbacks, "on_{}_end".format(kind))

    @cleaned
    @functools.wraps(begin)
    def begun(self: Any, batch: Any, logs: Any = None) -> Any:
        for listener in listeners:
            listener.begins(kind, self)
        result = begin(self, batch, logs)
        number = _number(batch)
        vars(self)[FIRST + kind] = number
        for listener in listeners:
            listener.begun(kind, self, number or 0)
        return result

    @cleaned
    @functools.wraps(end)
    def ended(self: Any, batch: Any, logs: Any = None) -> Any:
        batches = _batches(self, vars(self).get(FIRST + kind), _number(batch))
        for listener in listeners:
            listener.ended(kind, self, batches, logs)
        return end(self, batch, logs)

    @cleaned
    @functools.wraps(over)
    def finished(self: Any, logs: Any = None) -> Any:
        result = over(self, logs)
        for listener in listeners:
            listener.finished(kind)
        return result

    setattr(callbacks, "on_{}_batch_begin".format(kind), begun)
    setattr(callbacks, "on_{}_batch_end".format(kind), ended)
    setattr(callbacks, "on_{}_end".format(kind), finished)


class Counting(Listener):
    """Counts batches, and tells a model's function for predict what ran between two of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counters: Dict[str, Progress] = {}
        self._described = session.guarded("the description of a model", features)
        self._note = session.guarded("the callbacks of predict", _note_callbacks)
        self._paced = session.guarded("the pace of batches", self._take_pace)
        self._paces: Dict[str, Optional[Callable[[], Optional[float]]]] = {}
        """What tells the seconds of a batch from now on, of the model whose batches of a kind began last."""

    def begun(self, kind: str, callbacks: Any, batch: int) -> None:
        if kind == PREDICT:
            self._note(callbacks, batch)
        if not batch:
            self._paced(kind, callbacks)
        vars(callbacks)[STARTED + kind] = clock.now()

    def ended(self, kind: str, callbacks: Any, batches: int, logs: Any) -> None:
        if self._session.active and STARTED + kind in vars(callbacks):
            try:
                self._count(kind, callbacks, batches, logs)
            except Exception as error:  # the batch is done, and what follows is the program's
                self._session.give_up("keras", error)

    def _take_pace(self, kind: str, callbacks: Any) -> None:
        function = getattr(model_of(callbacks), "{}_function".format(kind), None)
        self._paces[kind] = weakly(function.pace) if isinstance(function, BatchFunction) else None
        if kind in self._counters:
            self._counters[kind].pace = self._paces[kind]

    def _count(self, kind: str, callbacks: Any, batches: int, logs: Any) -> None:
        now = clock.now()
        counter = self._counters.get(kind)
        if counter is None:
            counter = self._counters[kind] = self._session.counters.counter("keras: " + kind, "batch")
            counter.pace = self._paces.get(kind)
            model = model_of(callbacks)
            counter.features = (self._described(model, kind == TRAIN) if model is not None else None) or {}
        counter.add(now, now - vars(callbacks)[STARTED + kind], batches)
        loss = _loss(logs)
        counter.loss = counter.loss if loss is None else loss
        self._session.counters.tick(now)


def model_of(callbacks: Any) -> Any:
    """Return the model of a list of callbacks; its public name is a property that may have been replaced."""
    return getattr(callbacks, "_model", None)


def _note_callbacks(callbacks: Any, batch: int) -> None:
    """Tell a model's function whether the next batch has the weights of the last one: nothing else ran between them.

    Callbacks of the program's own may change weights, and so may functions that it has put into those of Keras.
    """
    function = getattr(model_of(callbacks), "predict_function", None)
    if isinstance(function, BatchFunction):
        kerass = all(_is_kerass(callback, HARMLESS) for callback in callbacks.callbacks)
        function.permit(batch > 0 and kerass and _is_kerass(callbacks, ("CallbackList",)))


def _is_kerass(value: Any, names: Tuple[str, ...]) -> bool:
    """Tell whether something is of one of Keras's own classes, and no method was put in place of the class's."""
    kind = type(value)
    own = kind.__module__.startswith("keras.src.") and kind.__name__ in names
    return own and not any(name.startswith("on_") for name in vars(value))


def _number(batch: Any) -> Optional[int]:
    """Return a batch's number; a program's own loop may tell callbacks anything, such as the batch itself."""
    try:
        return int(batch)
    except Exception:  # whatever it is; Keras does not look at it either
        return None


def _batches(callbacks: Any, first: Optional[int], last: Optional[int]) -> int:
    """Return the batches between a begin and its end: several with steps_per_execution.

    Keras 3 names ``first + steps_per_execution - 1`` as the last one, also where the epoch ends before it
    (EpochIterator._enumerate_iterator in keras/src/trainers/epoch_iterator.py).
    """
    if first is None or last is None:
        return 1
    parameters = getattr(callbacks, "params", None)
    steps = parameters.get("steps") if isinstance(parameters, dict) else None
    if isinstance(steps, int) and steps > first:
        last = min(last, steps - 1)
    return max(1, last - first + 1)


def _loss(logs: Any) -> Optional[float]:
    """Return the loss where it is a number already; reading a tensor would wait for the device."""
    value = logs.get("loss") if isinstance(logs, dict) else None
    return float(value) if isinstance(value, (int, float)) else None
