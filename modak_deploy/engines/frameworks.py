"""The frameworks that applications are written for. What converts their models is loaded where one is converted."""

from modak_deploy.engines.base import Engine


class PyTorch(Engine):
    """PyTorch: steps of optimisers and calls of modules are counted, and levers tried between them."""

    name = "pytorch"
    package = "torch"
    launcher_module = "torch"
    counts_units = True
    counted_versions = ">=2.2"
    tries_live = True
    tries_with_ranks = True
    converter = "modak_deploy.onnx.frameworks.pytorch:PyTorch"


class TensorFlow(Engine):
    """TensorFlow: calls of the program's functions are counted, and levers tried on them."""

    name = "tensorflow"
    launcher_module = "tensorflow"
    counts_units = True
    tries_live = True
    converter = "modak_deploy.onnx.frameworks.tensorflow:TensorFlow"


class Keras(Engine):
    """Keras: batches are counted by a callback, and levers tried between them on TensorFlow."""

    name = "keras"
    launcher_module = "keras"
    counts_units = True
    tries_live = True
    converter = "modak_deploy.onnx.frameworks.keras:Keras"


class Jax(Engine):
    """JAX: calls of its compiled functions are counted, and what it compiles is kept from job to job; its levers are
    settings of the process."""

    name = "jax"
    launcher_module = "jax"
    counts_units = True
    keeps_compiled = True
    stands_in = True
    converter = "modak_deploy.onnx.frameworks.jax:Jax"


class ScikitLearn(Engine):
    """scikit-learn: calls of its estimators are counted."""

    name = "sklearn"
    package = "scikit-learn"
    distribution = "scikit-learn"
    module = "sklearn"
    launcher_module = "sklearn"
    counts_units = True
    converter = "modak_deploy.onnx.frameworks.sklearn:ScikitLearn"


class XGBoost(Engine):
    """XGBoost."""

    name = "xgboost"
    converter = "modak_deploy.onnx.frameworks.trees:XGBoost"


class LightGBM(Engine):
    """LightGBM."""

    name = "lightgbm"
    converter = "modak_deploy.onnx.frameworks.trees:LightGBM"


class MXNet(Engine):
    """Apache MXNet, retired in 2023: images of it are in the catalogue."""

    name = "mxnet"


class Cntk(Engine):
    """Microsoft's Cognitive Toolkit, whose last release is 2.7 of 2019: images of it are in the catalogue."""

    name = "cntk"


class NumExpr(Engine):
    """numexpr: expressions on arrays, compiled by a virtual machine of its own."""

    name = "numexpr"


class TensorRT(Engine):
    """NVIDIA TensorRT as an application uses it itself; as an execution provider it is part of ONNX Runtime."""

    name = "tensorrt"
