"""The outermost module of inference compiled by torch.compile, its kernels recorded as a CUDA graph."""

from typing import Any, Callable, Optional

from ...frameworks.pytorch import compiler
from ...frameworks.pytorch.graphs import Graphed
from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever
from .compile import compiler_missing, original


class CompileCudaGraph(TorchLever):
    name = "pytorch-compile-cuda-graph"
    summary = "the outermost module of inference compiled by torch.compile and recorded as a CUDA graph"
    changes = "compilation"
    expensive = True
    order = 65
    group = "compilation"
    use = INFERENCE
    copies = True

    def applies(self, subject: Subject) -> Optional[str]:
        return "the module is not on a GPU" if subject.device != "cuda" else compiler_missing(subject)

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        return Graphed(torch, module, compiler.quiet(original(torch)(module, dynamic=False)))


LEVER = CompileCudaGraph()
