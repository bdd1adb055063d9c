"""TensorFlow: calls of the program's own tf.functions are counted; Keras's batches are counted by Keras's adapter."""

import functools
from typing import Any

from ..session import Session
from .counting import CallCounter


def install(session: Session, tensorflow: Any, version: str) -> None:
    """Count the outermost calls of what tf.function returns, where they are not done to build another graph."""
    kind = type(tensorflow.function(_nothing))
    call = kind.__call__
    counter = CallCounter(session, "tensorflow")

    @functools.wraps(call)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(self, "python_function", None)
        if str(getattr(function, "__module__", "")).partition(".")[0] in ("keras", "tf_keras") or _in_graph(tensorflow):
            return call(self, *args, **kwargs)
        return counter.call(str(getattr(function, "__name__", "function")), call, (self, *args), kwargs)

    kind.__call__ = counted


def _nothing() -> None:
    """A function that is never called."""


def _in_graph(tensorflow: Any) -> bool:
    return not tensorflow.executing_eagerly()
