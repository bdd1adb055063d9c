"""What the program's backward passes go through, and what they ask for beside gradients.

What is compiled has a gradient, and that one has none: where it is differentiated, PyTorch raises
(torch/_functorch/_aot_autograd/runtime_wrappers.py, 2.2 to 2.13).
"""

import contextlib
import functools
import importlib
import re
import sys
from typing import Any, Callable, ContextManager, FrozenSet

from ...files import open_file
from ...frames import cleaned
from ...handlers import suppressed
from ...session import Session
from .gradients import operations
from .identity import program_files

REFUSED = "does not currently support double backward"
"""What PyTorch says of a gradient that is compiled and differentiated (2.2 to 2.13)."""
LEFT_OUT = "the program differentiates its gradients; this step was left out"
ENTRANCES = {"_engine_run_backward": 2, "backward": 2, "grad": 3}
"""Functions of torch.autograd that begin a pass, and where they take ``retain_graph``; ``create_graph`` comes after it.

All passes go through the first one, which 2.2 lacks.
"""
SIGNS = re.compile(rb"create_graph|is_grads_batched|jacobian|hessian|\b(?:hvp|vhp)\b")
"""In a program's files, these show that it differentiates gradients, now or later."""
CONFIG = "torch._functorch.config"


class Passes:
    """Follows the backward passes of the program."""

    def __init__(self, session: Session, torch: Any) -> None:
        self._session = session
        self._torch = torch
        self.twice = False
        """Whether the program has made gradients that can be differentiated."""
        self.compiled = False
        """Whether a lever has compiled the module that gradients go through."""
        self.left_out = False
        """Whether a pass was ended since the last step, as what was compiled cannot be differentiated twice."""
        self.operations: FrozenSet[str] = frozenset()
        """Names of what the gradients have gone through while ``looks`` was on."""
        self.looks = False

    def follow(self) -> None:
        """Have each pass looked at from now on."""
        autograd = self._torch.autograd
        names = list(ENTRANCES)[:1] if hasattr(autograd, "_engine_run_backward") else list(ENTRANCES)[1:]
        for name in names:
            function = self._followed(getattr(autograd, name), ENTRANCES[name])
            for module in (autograd, getattr(autograd, "graph", autograd)):
                if hasattr(module, name):
                    setattr(module, name, function)

    def _followed(self, function: Callable[..., Any], position: int) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            keep, create = ((*args, *[None] * 5)[at] for at in (position, position + 1))
            create = create or kwargs.get("create_graph")
            self._begin(args[0] if args else (), bool(create))
            with undonated() if self.compiled and (keep or create) else contextlib.nullcontext():
                try:
                    return function(*args, **kwargs)
                except RuntimeError as error:
                    if not self.compiled or not kwargs.get("accumulate_grad") or REFUSED not in str(error):
                        raise
                    self.twice = self.left_out = True
            return ()

        return cleaned(functools.wraps(function)(call))

    def _begin(self, outputs: Any, create: bool) -> None:
        self.twice = self.twice or create
        if self.looks and self._session.active:
            with suppressed():  # what is not seen is not offered
                self.operations |= operations(outputs if isinstance(outputs, (tuple, list)) else [outputs])

    def differentiated(self) -> bool:
        """Tell whether gradients are differentiated, or may be later."""
        return self.twice or mentioned(len(sys.modules))


@functools.lru_cache(maxsize=1)
def mentioned(imported: int) -> bool:
    """Tell whether a file of the program's names what differentiates gradients; ``imported`` modules are there now."""
    for _, file in program_files():
        with contextlib.suppress(OSError), open_file(file, "rb") as source:
            if SIGNS.search(source.read()):
                return True
    return False


def undonated() -> ContextManager[Any]:
    """Return what a module is compiled and called in whose graph may be gone through again.

    Otherwise its backward pass takes the memory of what was saved for it, and refuses to be repeated (2.6 to 2.13).
    """
    config: Any = sys.modules.get(CONFIG)
    if config is None:
        with contextlib.suppress(ImportError):
            config = importlib.import_module(CONFIG)
    if not hasattr(config, "donated_buffer"):
        return contextlib.nullcontext()
    context: ContextManager[Any] = config.patch(donated_buffer=False)
    return context


def is_going_on(torch: Any) -> bool:
    """Tell whether a backward pass is going on, in which checkpointing calls modules again."""
    return bool(getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1)
