"""Batches of Keras are counted right with steps_per_execution, as its EpochIterator reports them."""

from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.launch.frameworks import keras as adapter


class CallbackList:
    """What the adapter wraps: hooks of the three kinds."""

    def __init__(self, steps: Any) -> None:
        self.params = {"steps": steps}

    def begin(self, batch: int, logs: Any = None) -> None:
        """Nothing."""

    on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = begin
    on_train_batch_end = on_test_batch_end = on_predict_batch_end = begin


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
