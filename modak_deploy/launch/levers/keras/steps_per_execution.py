"""Several of Keras's batches in one call of the compiled function."""

from typing import Any, Mapping

from ...lever import Lever
from ._compile import set_default


class StepsPerExecution(Lever):
    name = "keras-steps-per-execution"
    framework = "keras"
    versions = ">=3"
    summary = "steps_per_execution of Model.compile: 8, or the setting 'steps'"
    changes = "calls"
    numerics = "relaxed"  # callbacks of the program see every eighth batch

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        set_default(module, "steps_per_execution", int(settings.get("steps", 8)))


LEVER = StepsPerExecution()
