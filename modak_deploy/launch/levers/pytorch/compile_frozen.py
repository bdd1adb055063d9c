"""The outermost module of inference compiled with its weights as constants."""

from typing import Any, Callable, Optional

from ...frameworks.pytorch import compiler
from ...frameworks.pytorch.kinds import INFERENCE, Subject, TorchLever
from .compile import compiler_missing, original


class CompileFrozen(TorchLever):
    name = "pytorch-compile-frozen"
    versions = ">=2.2"
    summary = "the outermost module of inference compiled with its weights as constants, packed for the kernels"
    changes = "compilation"
    expensive = True
    order = 70
    group = "compilation"
    use = INFERENCE
    copies = True

    def applies(self, subject: Subject) -> Optional[str]:
        return compiler_missing(subject)

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        return compiler.quiet(original(torch)(module, dynamic=False, options={"freezing": True}))


LEVER = CompileFrozen()
