"""PyTorch: modules in evaluation mode and optimizers are counted, and levers tried on them."""

import functools
import importlib
import os
from typing import Any, Callable, List, Optional, Union

from ...handlers import suppressed
from ...session import Session
from ...versions import satisfies
from . import compiler
from .calls import Calls
from .objects import Table
from .others import Others
from .passes import Passes
from .training import Training

TRIALS = ">=2.2"
"""Versions with Module._compiled_call_impl and all else that is used here."""
MODULES = 16
"""Outermost modules that are followed; programs that make more have no outermost module to speak of."""
OPTIMIZERS = 16
"""Optimizers that are followed; of programs that make more, the steps of the others are counted together."""


def install(session: Session, torch: Any, version: str) -> None:
    """Follow the modules and optimizers that the program makes."""
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        folder = session.compiled("pytorch", version)
        if folder is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    if not satisfies(version, TRIALS):
        session.record.add("no_trials", of="pytorch", reason="PyTorch {} is older than 2.2".format(version))
        return
    adapter = Adapter(session, torch)
    adapter.notice_compilation()
    adapter.follow_optimizers()
    adapter.follow_passes()
    adapter.follow_modules()
    if session.config.trials.wanted or session.config.levers:
        session.guarded("the start without PyTorch's compiler", compiler.postpone)(torch)


class Adapter:
    """What is put into PyTorch."""

    def __init__(self, session: Session, torch: Any) -> None:
        self._session = session
        self._torch = torch
        self._calls: Table[Calls] = Table()
        self._trainings: Table[Union[Training, Others]] = Table()
        self._training: Optional[Training] = None
        """That of the first of the optimizers that there are."""
        self._others = Others(session)
        self._passes = Passes(session, torch)
        self._followed = 0
        """Optimizers that were followed so far."""
        self._several = False
        self._hooks: List[compiler.Hook] = []
        """What follows optimizers, until the program compiles anything."""
        self._depth = 0

    def calls(self, module: Any) -> Calls:
        """Return what intercepts a module's outermost calls."""
        calls = self._calls.get(module)
        if calls is None:
            calls = self._calls[module] = Calls(self._session, self._torch, module)
        return calls

    # modules

    def follow_modules(self) -> None:
        """Intercept the calls of each module that is put into evaluation mode as a whole."""
        torch = self._torch
        module_class = torch.nn.Module
        train = module_class.train
        evaluated = self._session.guarded("the observation of a module", self._evaluated)

        @functools.wraps(train)
        def switched(module: Any, mode: bool = True) -> Any:
            if torch.compiler.is_compiling():  # what follows would break the graph, which the program may refuse
                return train(module, mode)
            self._depth += 1  # train() calls itself for the modules below
            try:
                result = train(module, mode)
            finally:
                self._depth -= 1
            if not self._depth:
                with suppressed():
                    for training in self._trainings.values():
                        training.left(module)
                if not mode:
                    evaluated(module)
            return result

        module_class.train = switched

    def _evaluated(self, module: Any) -> None:
        if not self._session.active or module in self._calls or len(self._calls) >= MODULES:
            return
        if module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule":
            self._session.hands_off = "the program compiles modules itself"
            return
        self.calls(module)

    def notice_compilation(self) -> None:
        """Leave a program alone that calls torch.compile itself."""
        compile_function = self._torch.compile

        @functools.wraps(compile_function)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            self._session.hands_off = "the program uses torch.compile itself"
            for calls in self._calls.values():
                calls.remove(self._session.hands_off)
            self._stop(self._session.hands_off)
            self._passes.compiled = False
            result = compile_function(*args, **kwargs)
            with suppressed():
                self._disable_hooks()
            return result

        self._torch.compile = compiled

    # optimizers

    def follow_optimizers(self) -> None:
        """Count the steps of optimizers, and see what the program calls ``backward`` on."""
        optimizer = importlib.import_module("torch.optim.optimizer")  # torch.optim hides its name
        self._hooks = [
            compiler.Hook(self._torch, self._guarded(does)) for does in (self._before_step, self._after_step)
        ]
        optimizer.register_optimizer_step_pre_hook(self._hooks[0].function)
        optimizer.register_optimizer_step_post_hook(self._hooks[1].function)
        backward = self._torch.Tensor.backward

        @functools.wraps(backward)
        def backward_of(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            with suppressed():
                self._take_loss(tensor)
            return backward(tensor, *args, **kwargs)

        self._torch.Tensor.backward = backward_of

    def _disable_hooks(self) -> None:
        """Have PyTorch's compiler leave alone what follows optimizers, in the midst of a step that it compiles.

        It would compile the launcher's functions, and warn of what these call (2.13).
        """
        disable = importlib.import_module(compiler.COMPILER).disable
        for hook in self._hooks:
            hook.disable(disable)
        self._hooks = []

    def _take_loss(self, tensor: Any) -> None:
        if self._training is not None and self._training.over:
            self._training, self._passes.operations = None, frozenset()
            self._look()
        if self._training is not None:
            self._training.loss(tensor)

    def follow_passes(self) -> None:
        """See what the gradients of first steps go through, and whether gradients are differentiated."""
        if self._session.config.trials.wanted or self._session.config.levers:
            self._session.guarded("the observation of gradients", self._passes.follow)()
            self._look()

    def _look(self) -> None:
        """Look at what gradients go through as long as the next step may be the first of an optimizer to follow."""
        self._passes.looks = self._training is None and not self._several and self._followed < OPTIMIZERS

    def _guarded(self, function: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
        guarded = self._session.guarded("the observation of an optimizer", function)

        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if self._session.active:
                guarded(optimizer, args, kwargs)

        return hook

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # PyTorch gives the arguments of step() with the optimizer before them (torch/optim/optimizer.py, 2.0 to 2.13).
        given = [value for value in (*args, *kwargs.values()) if value is not None and value is not optimizer]
        if given:
            self._only_count("the optimizer calls a closure")
            return
        training = self._trainings.get(optimizer)
        if training is not None:
            training.before_step(optimizer)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._session.trained = True
        training = self._trainings.get(optimizer)
        if training is None:
            others = bool(self._trainings)
            self._trainings[optimizer] = self._others  # for good, where it cannot be followed
            training = self._trainings[optimizer] = self._follow(optimizer, others)
        training.after_step()

    def _follow(self, optimizer: Any, others: bool) -> Union[Training, Others]:
        """Return what follows an optimizer that has made its first step; ``others`` tells whether there are more."""
        if self._training is not None and self._training.over:
            self._training = None
        if others and not self._several:
            self._only_count("the program has several optimizers")
        if self._followed == OPTIMIZERS:
            return self._others
        self._followed += 1
        training = Training(self._session, self._torch, optimizer, self.calls, self._passes)
        if self._several:
            training.stop("the program has several optimizers")
        self._training = self._training or training
        self._look()
        return training

    def _only_count(self, reason: str) -> None:
        self._stop(reason)
        self._several = True

    def _stop(self, reason: str) -> None:
        for training in self._trainings.values():
            training.stop(reason)
