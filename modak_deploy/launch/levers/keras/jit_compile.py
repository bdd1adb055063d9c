"""Keras's steps compiled by XLA."""

import contextlib
from typing import Any, Callable, ContextManager, Iterator, Mapping, Optional

from ...frameworks.keras.kinds import PREDICT, TRAIN, StepLever, Subject
from ...frameworks.tensorflow import xla
from ._compile import set_default


class JitCompile(StepLever):
    name = "keras-jit-compile"
    summary = "jit_compile of Model.compile, on unless the setting 'value' is false"
    changes = "compilation"
    expensive = True
    order = 80
    group = "keras-jit"

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.model.jit_compile:
            return "it is so already"
        layers = subject.layers
        if not all(layer.supports_jit for layer in layers):
            return "a layer does not support it"
        if subject.kind == TRAIN and any(_draws(subject.keras, layer) for layer in layers):
            return "a layer draws random numbers, and XLA draws others"
        if subject.random:
            return "the step draws random numbers, and XLA draws others"
        if subject.step is None:
            return "what the function does with a batch cannot be seen"
        unchecked = xla.unchecked(subject.tensorflow, subject.step._list_all_concrete_functions())
        return xla.refusal(subject.graphs, subject.kind == TRAIN) or unchecked

    def compiled(self, subject: Subject) -> Optional[Callable[[Any], Any]]:
        call = xla.compiled(subject.tensorflow, subject.step)
        return call if subject.kind == PREDICT else lambda batches: call(next(batches))

    def making(self, subject: Subject) -> ContextManager[Any]:
        return _jitted(subject.model)

    def set(self, module: Any, settings: Mapping[str, Any]) -> None:
        set_default(module, "jit_compile", bool(settings.get("value", True)))


def _draws(keras: Any, layer: Any) -> bool:
    generator = keras.random.SeedGenerator
    return any(isinstance(value, generator) for value in vars(layer).values())


@contextlib.contextmanager
def _jitted(model: Any) -> Iterator[None]:
    before = model.jit_compile
    model.jit_compile = True
    try:
        yield
    finally:
        model.jit_compile = before


LEVER = JitCompile()
