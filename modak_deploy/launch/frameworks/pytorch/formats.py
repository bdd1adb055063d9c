"""Where a training's program meets the number format of its forward call, beside the call's result.

Autocast is refused there: outside of the call, nothing can be repeated that fails with tensors of another format, as
``numpy()`` does with those in bf16.
"""

import functools
import sys
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Set

from ... import structures
from . import outputs, watch
from .contents import Contents
from .gradients import OWN, is_bound
from .identity import program_files
from .kinds import TorchLever
from .outside import Outside
from .passes import is_going_on


class Formats:
    """Keeps the number formats that a lever brings into the calls of a training's module within these."""

    def __init__(self, torch: Any, module: Callable[[], Any]) -> None:
        self._torch = torch
        self._module = module
        self._odd: Optional[str] = None
        """Why results of the module cannot be given back in single precision; empty where they can."""
        self._looked: Set[str] = set()
        """Variants after a call of which the module was looked at."""

    def seen(self, result: Any) -> Any:
        """Return the result of a call as the program does it, once it is known whether it can be one of single
        precision."""
        if self._odd is None:
            try:
                leaves = structures.leaves(result, outputs.is_tensor(self._torch))
                lower = any(is_lower(self._torch, leaf) for leaf in leaves)
                self._odd = "the result has tensors in a lower precision as it is" if lower else ""
            except structures.Unsupported as error:
                self._odd = "the result cannot be looked into: {}".format(error)
        return result

    def check(self, levers: List[TorchLever], operations: Iterable[str]) -> None:
        """Raise Unsupported where levers bring in a format that the program would meet outside of the calls."""
        if any(type(lever).context is not TorchLever.context for lever in levers):
            reason = self._odd or refusal(self._torch, self._module(), operations)
            if reason:
                raise structures.Unsupported(reason)

    def before(self, variant: str) -> Optional[Callable[[], None]]:
        """Raise Unsupported as ``check`` does, for hooks that are new; return what looks at the module after a call."""
        if is_going_on(self._torch):
            return None
        reason = watch.hooked(self._torch, self._module())
        if reason is not None:
            raise structures.Unsupported(reason)
        if variant in self._looked:
            return None
        self._looked.add(variant)
        return Kept(self._torch, self._module()).check

    def single(self, result: Any) -> Any:
        """Return a result in single precision: as Accelerate does, what follows, the loss above all, is computed in
        that."""

        def change(tensor: Any) -> Any:
            return tensor.float() if is_lower(self._torch, tensor) else tensor

        return structures.replace(result, change, outputs.is_tensor(self._torch))


def refusal(torch: Any, module: Any, operations: Iterable[str]) -> Optional[str]:
    """Return why a training's forward call must keep its number format; None where nothing speaks against another.

    ``operations`` are the names of what the gradients of its steps have gone through.
    """
    reason = watch.hooked(torch, module)
    if reason is not None:
        return reason
    names = [name[len(OWN) :] for name in operations if name.startswith(OWN)]
    names += [function.__name__ for function in _functions(torch.autograd.Function)]
    return "{} may need gradients in single precision".format(min(names)) if names else None


def _functions(base: Any) -> Iterator[Any]:
    """Yield the functions of the program's own files whose ``backward`` may not take other number formats."""
    own = _own(len(sys.modules))
    waiting = [base]
    while waiting:
        for kind in type.__subclasses__(waiting.pop()):
            waiting.append(kind)
            if kind.__module__ in own and is_bound(kind):
                yield kind


@functools.lru_cache(maxsize=1)
def _own(imported: int) -> FrozenSet[str]:
    """Return the names of the modules with the program's code; ``imported`` modules are there now."""
    return frozenset(("__main__", *(name for name, _ in program_files())))


class Kept:
    """The tensors in a lower precision that a module holds beside its weights, or its code names, before a call."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._before = self._lower()

    def check(self) -> None:
        """Raise Unsupported where the call has left any, for the program to read."""
        if any(key not in self._before for key in self._lower()):
            raise structures.Unsupported("the module keeps tensors of its call")

    def _lower(self) -> Dict[int, Any]:
        modules = list(self._module.modules())
        held = [{name: value for name, value in module.__dict__.items() if name not in watch.OWN} for module in modules]
        contents = Contents(self._torch, [*held, Outside(modules).values()], watch.ALL)
        return {id(tensor): tensor for tensor in contents.tensors if is_lower(self._torch, tensor)}


def is_lower(torch: Any, tensor: Any) -> bool:
    """Tell whether a tensor has a number format that autocast brings in."""
    return tensor.dtype in (torch.bfloat16, torch.float16)
