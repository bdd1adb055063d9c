"""Modes of PyTorch's dispatcher: code that sees every operation of a call."""

import importlib
import sys
from typing import Any


def base() -> Any:
    """Return the class from which modes are derived."""
    return importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode


def without_compiler(mode: Any) -> Any:
    """Return a class of modes that does not import PyTorch's compiler at its first operation.

    PyTorch has torch._dynamo leave a mode alone, and imports it for that (torch/_compile.py, 2.13): 1.7 s at the start
    of a job that compiles nothing. Where it is imported already, it has to know.
    """
    dispatch = mode.__torch_dispatch__
    if "torch._dynamo" not in sys.modules:
        mode.__torch_dispatch__ = getattr(dispatch, "__wrapped__", dispatch)
    return mode
