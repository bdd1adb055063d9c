"""The pipeline that Keras makes of arrays does not tune itself."""

import functools
import importlib
from typing import Any, Mapping

from ...frames import cleaned
from ...frameworks.keras.kinds import plain_options
from ...lever import Lever

ADAPTERS = "keras.src.trainers.data_adapters.array_data_adapter"


class PlainInput(Lever):
    """TensorFlow's tuning of a pipeline is a thread that looks after 10 ms, and each time after twice as long again.

    At the end of a call of ``predict`` or ``evaluate`` it is told to stop and wakes up, but often before TensorFlow
    (2.21) has noted that it is to stop, and then sleeps on: the call ends at 10, 30, 70, 150, 310, 630, 1270 ms and so
    on. Keras's pipeline, one slice of the arrays after the other, has nothing to tune.
    """

    name = "keras-plain-input"
    framework = "keras"
    versions = ">=3"
    summary = "TensorFlow does not tune the pipeline that Keras makes of arrays, and does not wait for that at its end"
    changes = "input"
    same_results = True
    live = True
    between_epochs = True  # ``frameworks/keras/pipelines.py`` tries it
    order = 4

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        if module.config.backend() != "tensorflow":
            raise ValueError("the backend is {}".format(module.config.backend()))
        adapter = importlib.import_module(ADAPTERS).ArrayDataAdapter
        original = adapter.get_tf_dataset

        @cleaned
        @functools.wraps(original)
        def get_tf_dataset(self: Any) -> Any:
            return original(self).with_options(plain_options())

        adapter.get_tf_dataset = get_tf_dataset


LEVER = PlainInput()
