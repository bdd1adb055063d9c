"""Keras's batches of predict done by OpenVINO, in single precision."""

from typing import Any, Callable, Mapping, Optional

from ...frameworks import openvino_cpu
from ...frameworks.keras.kinds import PREDICT, KerasLever, Subject
from ...frameworks.tensorflow.calls import bytes_of
from ...frameworks.tensorflow.openvino import Converted

CHECKING = frozenset(("Assert", "CheckNumerics", "CheckNumericsV2"))
"""Operations that end the program for some values."""


class OpenVino(KerasLever):
    name = "keras-openvino"
    versions = ">=3.4"
    summary = "batches of predict converted for OpenVINO's kernels, in single precision"
    changes = "kernels"
    at_calls = True
    expensive = True
    order = 42
    group = "compilation"
    conflicts = ("keras-tensorflow-bf16", "keras-mixed-bfloat16", "keras-jit-compile")
    modules = ("openvino",)
    faster = "keras-openvino-bf16"
    precision = "f32"

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.kind != PREDICT:
            return "it is for predict only"
        if subject.graph is None:
            return "its function was traced for several forms of batches"
        if subject.random:
            return "the function draws random numbers, and OpenVINO draws others"
        checking = CHECKING & subject.graph.operations
        if checking:
            return "it checks values, which OpenVINO does not ({})".format(min(checking))
        if any(getattr(layer, "compute_dtype", "float32") != "float32" for layer in subject.layers):
            return "a layer does not compute in single precision"
        return openvino_cpu.refusal()

    def seconds(self, subject: Subject) -> Optional[float]:
        graph = subject.graph
        return None if graph is None else 1.2 + 0.001 * graph.size + 5e-9 * bytes_of(graph.variables)

    def function(self, subject: Subject) -> Optional[Callable[[Any], Any]]:
        if subject.graph is None:
            raise ValueError("the function was traced for several forms of batches")
        converted = Converted(subject.tensorflow, subject.graph.concrete, self.precision)

        compared = [-1]

        def call(data: Any) -> Any:
            result = converted(data, check=compared[0] != subject.turns)
            compared[0] = subject.turns
            subject.comparing = converted.comparing
            return result

        return call

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        """Nothing: it is switched on when a batch is done."""


LEVER = OpenVino()
