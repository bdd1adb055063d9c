"""The frameworks that models come from, one module each; nothing of a framework is imported before it is asked for."""

from importlib import import_module

from modak.errors import InputError
from modak.onnx.frameworks.base import Framework
from modak.onnx.packages import require

FRAMEWORKS = {
    "pytorch": "modak.onnx.frameworks.pytorch:PyTorch",
    "tensorflow": "modak.onnx.frameworks.tensorflow:TensorFlow",
    "keras": "modak.onnx.frameworks.keras:Keras",
    "jax": "modak.onnx.frameworks.jax:Jax",
    "sklearn": "modak.onnx.frameworks.sklearn:ScikitLearn",
    "xgboost": "modak.onnx.frameworks.trees:XGBoost",
    "lightgbm": "modak.onnx.frameworks.trees:LightGBM",
}


def framework(name: str) -> Framework:
    """Return the framework of that name, its packages imported; InputError has pip's command for a missing one."""
    if name not in FRAMEWORKS:
        raise InputError(f"the framework '{name}' is not supported; use {', '.join(FRAMEWORKS)}")
    module, _, attribute = FRAMEWORKS[name].partition(":")
    found: Framework = getattr(import_module(module), attribute)()
    for package, requirement in found.packages.items():
        require(package, requirement, purpose=f"a model of {name}", extra=found.extra)
    return found
