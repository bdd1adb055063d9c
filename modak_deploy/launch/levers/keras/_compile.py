"""Change the arguments of Model.compile that the program leaves at their defaults."""

import functools
from typing import Any

from ...frames import cleaned


def set_default(keras: Any, name: str, value: Any) -> None:
    """Give Model.compile another default for a keyword."""
    model = keras.Model
    original = model.compile

    @cleaned
    @functools.wraps(original)
    def compile_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The first arguments by position are optimizer, loss, loss_weights, metrics and weighted_metrics.
        if len(args) <= 5:
            kwargs.setdefault(name, value)
        return original(self, *args, **kwargs)

    model.compile = compile_model
