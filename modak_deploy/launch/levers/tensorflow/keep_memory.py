"""Freed memory of the processor kept for TensorFlow's next tensors."""

from typing import Any, Optional

from ... import memory
from ...frameworks.settings import KeepsMemory
from ...frameworks.tensorflow.kinds import Graph, TensorFlowLever


class KeepMemory(KeepsMemory, TensorFlowLever):
    name = "tensorflow-keep-memory"

    def applies(self, tensorflow: Any, function: Any, graph: Graph) -> Optional[str]:
        return memory.refusal()


LEVER = KeepMemory()
