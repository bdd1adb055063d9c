"""The outermost module of inference recorded as a CUDA graph."""

from typing import Any, Callable, Optional

from ...frameworks.pytorch.graphs import Graphed
from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever


class CudaGraph(TorchLever):
    name = "pytorch-cuda-graph"
    summary = "the kernels of the outermost module of inference recorded once and started together, on NVIDIA's GPUs"
    changes = "compilation"
    expensive = True
    order = 2  # where starting kernels is what takes the time, nothing else gains before it
    group = "compilation"
    use = INFERENCE
    copies = True

    def applies(self, subject: Subject) -> Optional[str]:
        return "the module is not on a GPU" if subject.device != "cuda" else None

    def making(self, subject: Subject) -> float:
        # A recording takes some calls, and PyTorch empties its cache of memory before it: 0.1 s on an H100.
        return 0.15 + 0.0005 * len(subject.modules)

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        return Graphed(torch, module, module)


LEVER = CudaGraph()
