"""Keras computes in bf16 and keeps its weights in single precision."""

import contextlib
from typing import Any, ContextManager, Iterator, List, Mapping, Optional

from ...frameworks.keras.kinds import StepLever, Subject
from ...frameworks.tensorflow import bf16

POLICY = "mixed_bfloat16"


class MixedBfloat16(StepLever):
    name = "keras-mixed-bfloat16"
    summary = "the dtype policy mixed_bfloat16, or the one that the setting 'policy' names"
    changes = "number format"
    numerics = "relaxed"
    expensive = True  # the step is traced again
    order = 20
    group = "precision"
    format = "bf16"

    def applies(self, subject: Subject) -> Optional[str]:
        if not _layers(subject):
            return "no layer has the default dtype policy in single precision"
        return bf16.refusal(subject.tensorflow)

    def tracing(self, subject: Subject) -> Optional[ContextManager[Any]]:
        return _policies(_layers(subject), subject.keras.dtype_policies.DTypePolicy(POLICY))

    def set(self, module: Any, settings: Mapping[str, Any]) -> None:
        module.config.set_dtype_policy(str(settings.get("policy", POLICY)))


def _layers(subject: Subject) -> List[Any]:
    """Return the layers whose policy would be another one, had the program set it before it made them.

    A layer without a dtype of its own holds the process's policy itself (keras/src/dtype_policies/__init__.py); those
    of a model that was loaded or cloned have each their own copy, and of these all in single precision are returned.
    """
    default = subject.keras.config.dtype_policy()
    if default.name != "float32":
        return []
    layers = subject.layers
    own = [layer for layer in layers if getattr(layer, "_dtype_policy", None) is default]
    if any(layer.weights and not getattr(layer, "layers", None) for layer in own):
        return own
    return [layer for layer in layers if getattr(getattr(layer, "_dtype_policy", None), "name", "") == "float32"]


@contextlib.contextmanager
def _policies(layers: List[Any], policy: Any) -> Iterator[None]:
    """Have layers compute by another policy.

    Only the arithmetic follows: the weights are there already, and both policies keep them in single precision.
    """
    before = [(layer, layer.dtype_policy) for layer in layers]
    try:
        for layer in layers:
            layer.dtype_policy = policy
        yield
    finally:
        for layer, own in before:
            layer.dtype_policy = own


LEVER = MixedBfloat16()
