"""Which modules' calls go through the launcher: nothing of it is an attribute of a module of the program's.

PyTorch asks each module for ``_compiled_call_impl`` and calls that in place of the module's own code; it is what
``Module.compile`` sets (2.2 and later). Set on the module, it is among what ``torch.jit.script`` compiles, what modules
with a ``__getstate__`` of their own and ``fx.GraphModule`` copy, and what a clone made of the module's ``__dict__``
calls. So the class has a descriptor in the place of its ``None``; what the program sets on a module comes before that.
"""

import weakref
from typing import Any, Callable, Dict, Optional

_NAME = "_compiled_call_impl"
_TABLE: Dict[int, Callable[..., Any]] = {}
"""What calls a module, by the module's identity; an entry goes when its module does."""


class _Interception:
    """The attribute of all modules; each call of each module asks for it, which takes some 50 ns."""

    def __get__(self, module: Any, owner: Any = None) -> Optional[Callable[..., Any]]:
        # PyTorch's compiler follows this code, as part of a module's call, where the module has hooks (2.13).
        return _TABLE.get(id(module))


def intercept(torch: Any, module: Any, call: Callable[..., Any]) -> "weakref.ref[Any]":
    """Have ``call`` called in place of a module; return a reference to the module."""
    module_class = torch.nn.Module
    if not isinstance(vars(module_class).get(_NAME), _Interception):
        setattr(module_class, _NAME, _Interception())
    key = id(module)
    reference = weakref.ref(module, lambda _: _TABLE.pop(key, None))
    _TABLE[key] = call
    return reference


def release(module: Any, call: Callable[..., Any]) -> None:
    """Leave a module to itself, where ``call`` is what is called in its place."""
    if _TABLE.get(id(module)) is call:
        del _TABLE[id(module)]
