"""The engine ``refengine``: the evaluator in Python that the package onnx has for checking other implementations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modak_deploy.engines.base import Engine, Run


class ReferenceEngine(Engine):
    """``onnx.reference``: every operator by NumPy, which is slow, and whose results others are compared with."""

    name = "refengine"
    package = "onnx"
    runs_onnx = True

    def load(self, path: Path, example: Mapping[str, Any], *, trials: int) -> Run:
        """See ``Engine.load``."""
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(str(path))

        def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
            return dict(zip(evaluator.output_names, evaluator.run(None, dict(inputs)), strict=True))

        return run
