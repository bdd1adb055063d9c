"""TensorFlow: calls of the program's own tf.functions are counted, and levers tried on them; Keras has its own."""

import functools
from typing import Any, Callable, Dict

from ...frames import take_out
from ...progress import weakly
from ...session import Session
from ...versions import satisfies
from ..counting import CallCounter
from .calls import Function
from .stacks import leave_out_frames
from .work import features

TRIALS = ">=2.16"
FUNCTIONS = 4
"""Functions of a program that levers are tried on: the first that are called."""
OTHERS = ("keras", "tf_keras", __name__.partition(".")[0])
"""Packages whose functions are not the program's: Keras has its own adapter, and the launcher compiles for it."""
TRIED = "_modak_trials"
"""Attribute of a function that holds its trials: they hold the function, and a table of them would keep it for ever."""


def install(session: Session, tensorflow: Any, version: str) -> None:
    """Count the outermost calls of what tf.function returns, where they are not done to build another graph."""
    leave_out_frames()
    kind = type(tensorflow.function(_nothing))
    call = kind.__call__
    counter = CallCounter(session, "tensorflow")
    followed = [0]
    supported = satisfies(version, TRIALS)

    def tried(self: Any) -> Callable[..., Any]:
        """Return what does the function's call."""
        trials = self.__dict__.get(TRIED)
        if isinstance(trials, Function) and trials.of(self):
            return trials
        if supported and followed[0] < FUNCTIONS and session.tries_or_chosen:
            followed[0] += 1
            trials = self.__dict__[TRIED] = Function(session, tensorflow, self, call)
            counter.paced(trials.name, weakly(trials.pace))
            return trials
        return functools.partial(call, self)

    @functools.wraps(call)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return done(self, args, kwargs)
        except BaseException as error:
            take_out(error)
            raise

    def done(self: Any, args: Any, kwargs: Any) -> Any:
        function = getattr(self, "python_function", None)
        name = str(getattr(function, "__name__", "function"))
        if (
            str(getattr(function, "__module__", "")).partition(".")[0] in OTHERS
            or not session.active
            or counter.inside
            or _in_graph(tensorflow)
        ):
            return call(self, *args, **kwargs)

        def describe() -> Dict[str, Any]:
            if tensorflow.config.functions_run_eagerly():  # a trace would run the program's Python once more
                return {}
            return features(self.get_concrete_function(*args, **kwargs))

        return counter.call(name, tried(self), args, kwargs, describe, self)

    kind.__call__ = counted


def _nothing() -> None:
    """A function that is never called."""


def _in_graph(tensorflow: Any) -> bool:
    return not tensorflow.executing_eagerly()
