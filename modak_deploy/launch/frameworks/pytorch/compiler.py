"""PyTorch's compiler is not imported before something is compiled.

PyTorch has torch._dynamo leave methods of optimizers and modes of the dispatcher alone, and imports it for that at the
first step or operation (torch/_compile.py and torch/optim/optimizer.py, 2.2 to 2.13): 900 modules, for which a process
that compiles nothing starts 1.7 s later and ends 1 s later. What is not there does not have to be told to leave
anything alone; once it is imported, whoever did that, all is as PyTorch made it.
"""

import functools
import importlib
import sys
from typing import Any, Callable, Iterator

COMPILER = "torch._dynamo"
IMPORT = 1.7
"""Seconds that its import takes (PyTorch 2.13, processor time of an AMD EPYC)."""


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
