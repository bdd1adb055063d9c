"""JAX: calls of the program's own jitted functions are counted, and compiled code is kept from run to run."""

import contextlib
import functools
import importlib
import operator
import os
import types
from typing import Any, Callable, Dict, Set

from ... import frames
from ...frames import take_out, unseen
from ...session import Session
from ..counting import CallCounter, Pause
from ..pacing import Pace
from .work import features


def install(session: Session, jax: Any, version: str) -> None:
    """Keep compiled code where the configuration names a folder for it, and count calls of what ``jax.jit`` returns."""
    folder = None if os.environ.get("JAX_COMPILATION_CACHE_DIR") else session.compiled("jax", version)
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", folder)
    if not session.config.counts:
        return
    _leave_out_frames()
    pace = Pace(jax.tree_util.tree_leaves, jax.local_device_count)
    counter = CallCounter(session, "jax", wait=pace)
    clean = _clean(jax)
    jit = jax.jit
    kind = type(jit(_nothing))

    def described(function: Any, args: Any, kwargs: Any) -> Dict[str, Any]:
        # Where nothing is compiled, a trace would run the program's Python once more.
        return {} if jax.config.jax_disable_jit else features(function, args, kwargs)

    class Jitted:
        """What jax.jit returns, whose calls are counted; within a trace it is left alone.

        A call does not wait for its result, so the time of a unit is that between two calls, of which the later one
        waits for an earlier one's result.
        """

        def __init__(self, function: Any) -> None:
            self.__dict__.update(getattr(function, "__dict__", {}))
            self.__dict__["_modak_function"] = function
            self.__dict__["_modak_pause"] = Pause()

        @unseen
        def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
            function, pause = self.__dict__["_modak_function"], self.__dict__["_modak_pause"]
            try:
                if not clean():
                    return function(*args, **kwargs)
                if pause.left > 0:
                    result = function(*args, **kwargs)
                    pause.left -= 1
                    return result
                name = str(getattr(function, "__name__", "function"))
                describe = functools.partial(described, function, args, kwargs)
                return counter.call(name, function, args, kwargs, describe, function, pause)
            except BaseException as error:
                take_out(error)
                raise

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return self if instance is None else types.MethodType(self, instance)

        def __reduce_ex__(self, protocol: Any) -> Any:
            # What is copied or pickled is JAX's own function: whoever reads it may have no launcher.
            return operator.getitem, ([self.__dict__["_modak_function"]], 0)

        def __repr__(self) -> str:
            return repr(self.__dict__["_modak_function"])

    # jax.stages.Wrapped, by which JAX knows a jitted function, is a protocol: Python 3.12 looks for its methods in the
    # class and not through __getattr__.
    _delegate(Jitted, {name for name in dir(kind) if not name.startswith("__")})

    @functools.wraps(jit)
    @unseen
    def counted_jit(*args: Any, **kwargs: Any) -> Any:
        result = jit(*args, **kwargs)
        if isinstance(result, kind):
            return Jitted(result)
        if not args and callable(result):  # jax.jit(static_argnums=0) returns a decorator since JAX 0.7
            return lambda function: _wrapped(result(function))
        return result

    def _wrapped(result: Any) -> Any:
        return Jitted(result) if isinstance(result, kind) else result

    jax.jit = counted_jit


def _leave_out_frames() -> None:
    """Have JAX take the launcher for a part of its own, in tracebacks and where it names a line of the program.

    Flax and others do so by the same functions, which are not documented (0.4 to 0.10).
    """
    own = os.path.dirname(os.path.abspath(frames.__file__))
    for name in ("traceback_util", "source_info_util"):
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module("jax._src." + name).register_exclusion(own)


def _nothing() -> None:
    """A function that is never called."""


def _clean(jax: Any) -> Callable[[], bool]:
    """Return the test whether nothing is being traced; it has moved: jax.core until 0.4.35, jax._src.core since."""
    test = getattr(jax.core, "trace_state_clean", None)
    if test is None:
        test = importlib.import_module("jax._src.core").trace_state_clean
    checked: Callable[[], bool] = test
    return checked


def _delegate(owner: Any, names: Set[str]) -> None:
    def attribute(name: str) -> Callable[[Any], Any]:
        return lambda self: getattr(self.__dict__["_modak_function"], name)

    for name in names:
        setattr(owner, name, property(attribute(name)))
