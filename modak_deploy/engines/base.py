"""What an engine is to modak: its package, what the launcher can do inside it, how it converts and runs models."""

from abc import ABC
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from modak_deploy.errors import InputError

Run = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A loaded model: arrays by the name of the input, for one batch; returns arrays by the name of the output."""


class Engine(ABC):
    """An engine: one class, registered by its name in the entry point group ``modak.engines``.

    Planning reads the attributes, so that the class's module must not import the engine, nor NumPy, at its top.
    """

    name: ClassVar[str]
    """What ``application.framework.name``, ``application.engines`` and the passes of ``modak convert`` call it."""
    package: ClassVar[str | None] = None
    """The Python package that it is in facts and images; its name when absent."""
    module: ClassVar[str | None] = None
    """The Python module that has it; its package when absent."""
    distribution: ClassVar[str | None] = None
    """What pip calls it; its package when absent."""
    launcher_module: ClassVar[str | None] = None
    """The module whose import brings the launcher's adapter in; None where the launcher has none for it."""
    counts_units: ClassVar[bool] = False
    """Whether the launcher counts units of work, such as training steps, inside it."""
    counted_versions: ClassVar[str] = ">=0"
    """Versions of the package inside which it counts, as pip writes them."""
    tries_live: ClassVar[bool] = False
    """Whether the launcher can try levers inside it while the program runs."""
    tries_with_ranks: ClassVar[bool] = False
    """Whether the ranks of a training inside it can try levers together."""
    keeps_compiled: ClassVar[bool] = False
    """Whether it compiles what a program does whatever levers are on, and the launcher can keep that for later jobs."""
    stands_in: ClassVar[bool] = False
    """Whether it runs where somebody chose it in place of the framework that a program is written for."""
    converter: ClassVar[str | None] = None
    """``module:class`` of what writes its models as ONNX, a ``modak_deploy.onnx.frameworks.base.Framework``."""
    runs_onnx: ClassVar[bool] = False
    """Whether ``load`` opens ONNX files."""
    provider: ClassVar[str | None] = None
    """The execution provider of ONNX Runtime that ``load`` uses, where it is one."""

    def load(self, path: Path, example: Mapping[str, Any], *, trials: int) -> Run:
        """Return the ONNX file at ``path``, ready for batches of the shapes of ``example``, on this processor.

        ``trials`` is how many programs an engine may measure that tunes itself. InputError where it is not installed;
        what else is raised is told the user as the reason why the engine was not used.
        """
        raise InputError(f"the engine {self.name} does not run ONNX files")
