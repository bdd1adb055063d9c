"""scikit-learn's estimators by Intel's extension."""

import importlib
from typing import Any, Mapping

from ...lever import Lever


class Sklearnex(Lever):
    name = "sklearn-sklearnex"
    framework = "sklearn"
    versions = ">=1.0"
    summary = "estimators of Intel's extension for scikit-learn in place of its own"
    changes = "kernels"
    numerics = "relaxed"  # other algorithms for some estimators
    modules = ("sklearnex",)

    def start(self, module: Any, settings: Mapping[str, Any]) -> None:
        importlib.import_module("sklearnex").patch_sklearn()


LEVER = Sklearnex()
