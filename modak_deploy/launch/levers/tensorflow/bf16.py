"""TensorFlow's graph optimiser turns matrix products and convolutions to bf16."""

from typing import Any, ContextManager, Optional

from ...frameworks.tensorflow import bf16
from ...frameworks.tensorflow.kinds import Graph, TensorFlowLever

WORK = frozenset(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D", "Conv3D"))


class Bf16(TensorFlowLever):
    name = "tensorflow-bf16"
    summary = "matrix products and convolutions of functions in bf16, by TensorFlow's graph optimiser"
    changes = "number format"
    numerics = "relaxed"
    risk = 6.0  # the first call optimises the graph again: 0.2 s where a call takes 0.04 s
    order = 10
    group = "precision"
    format = "bf16"

    def applies(self, tensorflow: Any, function: Any, graph: Graph) -> Optional[str]:
        if not graph.operations & WORK:
            return "the function has neither matrix products nor convolutions"
        return bf16.refusal(tensorflow)

    def calling(self) -> ContextManager[Any]:
        return bf16.calls()


LEVER = Bf16()
