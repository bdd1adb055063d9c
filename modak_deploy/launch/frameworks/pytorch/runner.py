"""A variant made ready: a function that does what the module does, with the variant's levers on."""

import contextlib
import functools
import weakref
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple, cast

from ... import structures
from ...variants import Variant
from . import outputs, replica
from .conversions import Conversions
from .exported import Content, Exported
from .kinds import TorchLever


def torch_levers(variant: Variant) -> List[TorchLever]:
    """Return the variant's levers as what they are."""
    return [cast(TorchLever, lever) for lever in variant.levers]


def _call(reference: "weakref.ref[Any]", *args: Any, **kwargs: Any) -> Any:
    """Do what a module does, which is not kept alive between the program's calls."""
    return cast(Any, reference())._call_impl(*args, **kwargs)


class Runner:
    """Calls a module's copy, or the module itself, in the variant's way."""

    def __init__(self, torch: Any, root: Any, variant: Variant, copy: bool = False) -> None:
        """``copy`` is whether the module itself may not be called; a copy shares the weights that no lever changes."""
        self._torch = torch
        self._levers = torch_levers(variant)
        self._device = next((parameter.device.type for parameter in root.parameters()), "cpu")
        self._function = self._make(root, copy)
        self._converts = any(type(lever).argument is not TorchLever.argument for lever in self._levers)
        self._contexts = [lever for lever in self._levers if type(lever).context is not TorchLever.context]

    def shelve(self, conversions: Conversions) -> None:
        """Look for what is made in what earlier runs have kept, and keep it for later ones."""
        if isinstance(self._function, Exported):
            (lever,) = (lever for lever in self._levers if lever.expensive)
            self._function.shelf = conversions.shelf(lever, self._function.module)

    def judged(self, sound: bool) -> bool:
        """Take whether results agree; return whether they come from what an earlier run kept, which is removed then."""
        return isinstance(self._function, Exported) and self._function.judged(sound)

    def _make(self, root: Any, copy: bool) -> Callable[..., Any]:
        compiling = [lever for lever in self._levers if lever.expensive]
        if not compiling and not copy and not any(lever.copies for lever in self._levers):
            return functools.partial(_call, weakref.ref(root))
        module = replica.make(self._torch, root, self._weight)
        return compiling[0].compiled(self._torch, module) if compiling else cast(Callable[..., Any], module)

    def take(self, content: Content) -> None:
        """Have what another process made ready do calls of its form."""
        cast(Exported, self._function).take(content)

    def _weight(self, tensor: Any) -> Any:
        for lever in self._levers:
            if lever.copies:
                tensor = lever.weight(self._torch, tensor)
        return tensor

    def _argument(self, tensor: Any) -> Any:
        for lever in self._levers:
            tensor = lever.argument(self._torch, tensor)
        return tensor

    def __call__(self, args: Any, kwargs: Any) -> Any:
        if not self._converts:
            return self._called(args, kwargs)
        is_leaf = outputs.is_tensor(self._torch)
        given: Dict[int, Tuple[Any, Any]] = {}

        def convert(tensor: Any) -> Any:
            new = self._argument(tensor)
            given[id(new)] = new, tensor
            return new

        result = self._called(*structures.replace((args, kwargs), convert, is_leaf))
        # An argument that is returned is the program's, and not what was made of it.
        return structures.replace(result, lambda leaf: given.get(id(leaf), (None, leaf))[1], is_leaf)

    def _called(self, args: Any, kwargs: Any) -> Any:
        if not self._contexts:
            return self._function(*args, **kwargs)
        with contextlib.ExitStack() as stack:
            for lever in self._contexts:
                context: Optional[ContextManager[Any]] = lever.context(self._torch, self._device)
                if context is not None:
                    stack.enter_context(context)
            return self._function(*args, **kwargs)

    def same_form(self, form: Optional[outputs.Form], call: Any) -> Any:
        """Return the result of a call in the form that the default's result has, where that is known."""
        result = self(*call)
        return result if form is None else outputs.restore(self._torch, result, form, call)
