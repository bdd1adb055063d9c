"""A function of ``torch.nn.functional`` that is another one from the outermost call to the optimizer's step."""

import functools
import types
from typing import Any, Callable, Optional


class Replacement:
    """Puts a function in the place of one of PyTorch's, and takes it away again.

    It stays for the backward pass: checkpointing calls the module again there, and must meet the same function. It goes
    before the next step: a program that ends its training by scripting the module, as TorchScript does, must find
    PyTorch's own code. What the program has put there itself is left alone.
    """

    def __init__(self, name: str, make: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> None:
        """``make`` gets PyTorch and its own function, and returns the other one with the same arguments."""
        self._name = name
        self._make = make
        self._own: Optional[Callable[..., Any]] = None
        self._other: Optional[Callable[..., Any]] = None
        """Made once: a compiler that has seen it must meet the same object in the next step."""
        self._on = False

    def put(self, torch: Any, on: bool) -> None:
        """Have calls of the function reach the other one, or PyTorch's own."""
        functional = torch.nn.functional
        current = getattr(functional, self._name)
        if on and self._other is None and _is_pytorchs(functional, current):
            self._own, self._other = current, self._either(current, self._make(torch, current))
        if on and current is self._own:
            setattr(functional, self._name, self._other)
        elif not on and self._own is not None and current is self._other:
            setattr(functional, self._name, self._own)
        self._on = on  # where the program has put something around it, that calls PyTorch's own from now on

    def _either(self, own: Callable[..., Any], changed: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def either(*args: Any, **kwargs: Any) -> Any:
            return (changed if self._on else own)(*args, **kwargs)

        return either


def is_ordinary(torch: Any, tensor: Any) -> bool:
    """Tell whether a tensor is one of PyTorch's own on the processor, dense, and not traced or transformed."""
    return bool(
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_nested
        and torch._C._get_tracing_state() is None
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def _is_pytorchs(functional: Any, function: Callable[..., Any]) -> bool:
    """Tell whether a function is PyTorch's own and not one that the program has put in its place."""
    return isinstance(function, types.BuiltinFunctionType) or (
        getattr(function, "__globals__", None) is vars(functional) and not hasattr(function, "__wrapped__")
    )
