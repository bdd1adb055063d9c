"""Keras computes in bf16 and keeps its weights in single precision."""

from typing import Any, Mapping

from ...lever import Lever


class MixedBfloat16(Lever):
    name = "keras-mixed-bfloat16"
    framework = "keras"
    versions = ">=3"
    summary = "the dtype policy mixed_bfloat16, or the one that the setting 'policy' names"
    changes = "number format"
    numerics = "relaxed"

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        module.config.set_dtype_policy(str(settings.get("policy", "mixed_bfloat16")))


LEVER = MixedBfloat16()
