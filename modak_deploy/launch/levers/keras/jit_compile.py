"""Keras's steps compiled by XLA."""

from typing import Any, Mapping

from ...lever import Lever
from ._compile import set_default


class JitCompile(Lever):
    name = "keras-jit-compile"
    framework = "keras"
    versions = ">=3"
    summary = "jit_compile of Model.compile, on unless the setting 'value' is false"
    changes = "compilation"
    group = "keras-jit"

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        set_default(module, "jit_compile", bool(settings.get("value", True)))


LEVER = JitCompile()
