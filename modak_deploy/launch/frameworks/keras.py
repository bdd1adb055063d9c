"""Keras: batches are counted; its levers are set when it is imported or when a model is compiled."""

import functools
import time
from typing import Any, Dict, Optional

from ..progress import Progress
from ..session import Session

KINDS = ("train", "test", "predict")


def install(session: Session, keras: Any, version: str) -> None:
    """Count the batches of fit, evaluate and predict through the list of callbacks."""
    callbacks = keras.callbacks.CallbackList
    counters: Dict[str, Progress] = {}
    for kind in KINDS:
        _follow(session, callbacks, kind, counters)


def _follow(session: Session, callbacks: Any, kind: str, counters: Dict[str, Progress]) -> None:
    begin = getattr(callbacks, "on_{}_batch_begin".format(kind))
    end = getattr(callbacks, "on_{}_batch_end".format(kind))
    started = [0.0, 0]

    @functools.wraps(begin)
    def begun(self: Any, batch: Any, logs: Any = None) -> Any:
        result = begin(self, batch, logs)
        started[:] = [time.perf_counter(), int(batch)]
        return result

    @functools.wraps(end)
    def ended(self: Any, batch: Any, logs: Any = None) -> Any:
        if session.active and started[0]:
            now = time.perf_counter()
            counter = counters.get(kind)
            if counter is None:
                counter = counters[kind] = session.counters.counter("keras: " + kind, "batch")
            counter.add(now, now - started[0], _batches(self, int(started[1]), int(batch)))
            loss = _loss(logs)
            counter.loss = counter.loss if loss is None else loss
            session.counters.tick(now)
        return end(self, batch, logs)

    setattr(callbacks, "on_{}_batch_begin".format(kind), begun)
    setattr(callbacks, "on_{}_batch_end".format(kind), ended)


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
