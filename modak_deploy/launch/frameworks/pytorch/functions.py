"""A function of ``torch.nn.functional`` that is another one from the outermost call to the optimizer's step."""

import functools
from typing import Any, Callable, Optional


class Replacement:
    """Puts a function in the place of one of PyTorch's, and takes it away again.

    It stays for the backward pass: checkpointing calls the module again there, and must meet the same function. It goes
    before the next step: a program that ends its training by scripting the module, as TorchScript does, must find
    PyTorch's own code.
    """

    def __init__(self, name: str, make: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> None:
        """``make`` gets PyTorch and its own function, and returns the other one with the same arguments."""
        self._name = name
        self._make = make
        self._own: Optional[Callable[..., Any]] = None
        self._other: Optional[Callable[..., Any]] = None

    def put(self, torch: Any, on: bool) -> None:
        """Have calls of the function reach the other one, or PyTorch's own."""
        functional = torch.nn.functional
        if on and self._other is None:
            own = getattr(functional, self._name)
            self._own, self._other = own, self._callable(own, self._make(torch, own))
            setattr(functional, self._name, self._other)
        elif not on and self._other is not None:
            if getattr(functional, self._name) is self._other:  # else the program has put something around it
                setattr(functional, self._name, self._own)
            self._own = self._other = None

    def _callable(self, own: Callable[..., Any], changed: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def either(*args: Any, **kwargs: Any) -> Any:
            return (changed if self._other is either else own)(*args, **kwargs)

        return either
