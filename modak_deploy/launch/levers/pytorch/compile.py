"""The outermost module compiled by torch.compile."""

import shutil
from typing import Any, Callable, Optional, cast

from ...frameworks.pytorch import compiler
from ...frameworks.pytorch.kinds import Subject, TorchLever


class Compile(TorchLever):
    name = "pytorch-compile"
    versions = ">=2.2"
    summary = "the outermost module compiled by torch.compile"
    changes = "compilation"
    expensive = True
    order = 80
    group = "compilation"

    def applies(self, subject: Subject) -> Optional[str]:
        if subject.module is None:
            return "no single module holds the weights"
        if subject.differentiated:
            return "the program differentiates gradients, or may do so later"
        return compiler_missing(subject)

    def compiled(self, torch: Any, module: Any) -> Callable[..., Any]:
        # With the compiler's own generator, dropout in a training would have other masks.
        return compiler.quiet(original(torch)(module, options={"fallback_random": True}))


def compiler_missing(subject: Subject) -> Optional[str]:
    """Return why nothing can be compiled here: on processors, Inductor calls a C++ compiler."""
    if subject.device == "cpu" and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        return "no C++ compiler found"
    return None


def original(torch: Any) -> Callable[..., Any]:
    """Return torch.compile without what notices the program's own use of it."""
    return cast(Callable[..., Any], getattr(torch.compile, "__wrapped__", torch.compile))


LEVER = Compile()
