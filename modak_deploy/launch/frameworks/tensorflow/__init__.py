"""TensorFlow: calls of the program's own tf.functions are counted, and levers tried on them; Keras has its own."""

import functools
import weakref
from typing import Any, Callable

from ...session import Session
from ...versions import satisfies
from ..counting import CallCounter
from .calls import Function

TRIALS = ">=2.16"
FUNCTIONS = 4
"""Functions of a program that levers are tried on: the first that are called."""
KERAS = ("keras", "tf_keras")


def install(session: Session, tensorflow: Any, version: str) -> None:
    """Count the outermost calls of what tf.function returns, where they are not done to build another graph."""
    kind = type(tensorflow.function(_nothing))
    call = kind.__call__
    counter = CallCounter(session, "tensorflow")
    functions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
    supported = satisfies(version, TRIALS)

    def tried(self: Any) -> Callable[..., Any]:
        """Return what does the function's call."""
        found = functions.get(self)
        if found is None:
            found = functools.partial(call, self)
            if supported and session.tries_or_chosen and len(functions) < FUNCTIONS:
                found = functions[self] = Function(session, tensorflow, self, call)
        return found

    @functools.wraps(call)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(self, "python_function", None)
        name = str(getattr(function, "__name__", "function"))
        if (
            str(getattr(function, "__module__", "")).partition(".")[0] in KERAS
            or not session.active
            or counter.inside
            or _in_graph(tensorflow)
        ):
            return call(self, *args, **kwargs)
        return counter.call(name, tried(self), args, kwargs)

    kind.__call__ = counted


def _nothing() -> None:
    """A function that is never called."""


def _in_graph(tensorflow: Any) -> bool:
    return not tensorflow.executing_eagerly()
