"""scikit-learn: fits, predictions and transformations of estimators are counted; levers are set at its import.

Estimators of the program's own modules are counted too, as they derive from BaseEstimator; those of its script are left
alone. What an estimator calls itself, the parts of a pipeline or the trees of a forest in their threads, belongs to its
own call.
"""

import functools
import types
from typing import Any, Callable

from ..frames import take_out, unseen
from ..session import Session
from .counting import CallCounter

METHODS = ("fit", "partial_fit", "fit_transform", "fit_predict", "predict", "predict_proba", "transform", "score")
_MARK = "_modak_counted"


def install(session: Session, sklearn: Any, version: str) -> None:
    """Count the calls of each class of estimators that is defined from now on: none is yet but the base classes."""
    base = sklearn.base.BaseEstimator
    counter = CallCounter(session, "sklearn", whole_process=True)
    defined = base.__dict__.get("__init_subclass__")

    def init_subclass(cls: Any, **kwargs: Any) -> None:
        if defined is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            defined.__func__(cls, **kwargs)
        # cloudpickle, by which joblib sends work to other processes, pickles such classes with all that their methods
        # hold (cloudpickle 3.1: _should_pickle_by_reference), and these are left as they are.
        if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
            return
        for name in METHODS:
            method = cls.__dict__.get(name)
            # Others are descriptors that decide whether an estimator has the method at all.
            if isinstance(method, types.FunctionType) and not hasattr(method, _MARK):
                setattr(cls, name, _counted(counter, name, method))

    hook: Any = init_subclass
    base.__init_subclass__ = classmethod(hook)


class _Counted:
    """Counts the calls of a method; where its class is pickled by value, as modules are that cloudpickle is told to
    pickle so, the method goes alone: processes elsewhere have no launcher."""

    def __init__(self, counter: CallCounter, name: str, method: Callable[..., Any]) -> None:
        self._counter = counter
        self._name = name
        self._method = method

    @unseen
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not args:  # the method says what is missing
            return self._method(**kwargs)
        name = type(args[0]).__name__ + "." + self._name
        return self._counter.call(name, self._method, args, kwargs)

    clean = staticmethod(take_out)

    def __reduce__(self) -> Any:
        return functools.partial, (self._method,)


def _counted(counter: CallCounter, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    counted = _Counted(counter, name, method)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return counted(*args, **kwargs)
        except BaseException as error:
            clean = getattr(counted, "clean", None)
            if clean is not None:  # a method that was pickled alone has none
                clean(error)
            raise

    setattr(call, _MARK, True)
    return unseen(call)
