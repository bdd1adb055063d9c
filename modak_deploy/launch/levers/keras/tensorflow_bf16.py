"""TensorFlow's graph optimiser turns the matrix products and convolutions of Keras's step to bf16."""

import importlib
from typing import Any, ContextManager, Mapping, Optional

from ...frameworks.keras.kinds import StepLever, Subject
from ...frameworks.tensorflow import bf16


class TensorFlowBf16(StepLever):
    name = "keras-tensorflow-bf16"
    summary = "matrix products and convolutions in bf16, by TensorFlow's graph optimiser"
    changes = "number format"
    numerics = "relaxed"
    order = 10
    group = "precision"
    format = "bf16"

    def applies(self, subject: Subject) -> Optional[str]:
        return bf16.refusal(subject.tensorflow)

    def calling(self) -> ContextManager[Any]:
        return bf16.calls()

    def set(self, module: Any, settings: Mapping[str, Any]) -> None:
        if module.config.backend() != "tensorflow":
            raise ValueError("the backend is {}".format(module.config.backend()))
        bf16.on_for_all(importlib.import_module("tensorflow"))


LEVER = TensorFlowBf16()
