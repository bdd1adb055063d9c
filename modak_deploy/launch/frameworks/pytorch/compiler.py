"""PyTorch's compiler is not imported before something is compiled.

PyTorch has torch._dynamo leave methods of optimizers and modes of the dispatcher alone, and imports it for that at the
first step or operation (torch/_compile.py and torch/optim/optimizer.py, 2.2 to 2.13): 900 modules, for which a process
that compiles nothing starts 1.7 s later and ends 1 s later. What is not there does not have to be told to leave
anything alone; once it is imported, whoever did that, all is as PyTorch made it.
"""

import functools
import importlib
import logging
import sys
import threading
from typing import Any, Callable, Iterator, List

COMPILER = "torch._dynamo"
IMPORT = 1.7
"""Seconds that its import takes (PyTorch 2.13, processor time of an AMD EPYC)."""


RECOMPILED = "torch._dynamo.convert_frame"
"""The logger that warns of functions which are compiled again and again, as of a hook that fills a list (2.13)."""


class _Unlogged(logging.Filter):
    """Leaves out what a logger is told by some threads."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: List[int] = []

    def filter(self, record: logging.LogRecord) -> bool:
        return threading.get_ident() not in self.threads


_unlogged = _Unlogged()


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a lever has compiled, as one that tells nothing of that in the program's output."""
    logging.getLogger(RECOMPILED).addFilter(_unlogged)  # once, however often it is added

    def call(*args: Any, **kwargs: Any) -> Any:
        _unlogged.threads.append(threading.get_ident())
        try:
            return function(*args, **kwargs)
        finally:
            _unlogged.threads.remove(threading.get_ident())

    return call


def loading() -> float:
    """Return the seconds of the import that compiling or exporting a module begins with; none where it was made."""
    return 0.0 if COMPILER in sys.modules else IMPORT


def mode() -> Any:
    """Return the class from which modes of the dispatcher are derived."""
    return importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode


def without(kind: Any) -> Any:
    """Return a class of modes that does not import the compiler at its first operation."""
    dispatch = kind.__torch_dispatch__
    if COMPILER not in sys.modules:
        kind.__torch_dispatch__ = getattr(dispatch, "__wrapped__", dispatch)
    return kind


def postpone(torch: Any) -> None:
    """Have the optimizers of PyTorch do without the compiler until it is imported."""
    for kind in _classes(importlib.import_module("torch.optim.optimizer").Optimizer):
        for name, method in list(vars(kind).items()):
            plain, code = getattr(method, "__wrapped__", None), getattr(method, "__code__", None)
            if plain is None or code is None:
                continue
            if code.co_name == "_use_grad":
                setattr(kind, name, _step(torch, method, plain))
            elif method.__globals__.get("__name__") == "torch._compile":
                setattr(kind, name, _direct(method, plain))


def _classes(base: Any) -> Iterator[Any]:
    yield base
    for derived in base.__subclasses__():
        yield from _classes(derived)


def _direct(method: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (method if COMPILER in sys.modules else plain)(*args, **kwargs)

    return call


def _step(torch: Any, method: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that sets whether gradients are recorded, as PyTorch's does (_use_grad_for_differentiable)."""

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if COMPILER in sys.modules:
            return method(self, *args, **kwargs)
        before = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(self.defaults["differentiable"])
            return plain(self, *args, **kwargs)
        finally:
            torch.set_grad_enabled(before)

    return call


class Hook:
    """A hook of optimizers that PyTorch's compiler neither compiles nor fails at.

    A step of PyTorch's own is never compiled as a whole (``_use_grad``, 2.2 to 2.13), so the hook may interrupt it. One
    of the program's may have to be, with ``fullgraph=True``: then it is not followed.
    """

    def __init__(self, torch: Any, function: Callable[[Any, Any, Any], None]) -> None:
        self._function = function

        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not torch.compiler.is_compiling() or type(optimizer).__module__.startswith("torch."):
                self._function(optimizer, args, kwargs)

        self.function = hook

    def disable(self, disable: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Have the compiler leave it alone; ``disable`` is the compiler's function for that."""
        self._function = disable(self._function)
