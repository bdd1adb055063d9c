"""XGBoost and LightGBM: their own text formats, which hold no code; onnxmltools."""

import inspect
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import Arrays
from modak_deploy.onnx.frameworks.base import ConversionError, Exported, Framework, Original, check_trust
from modak_deploy.onnx.task import Task

PICKLES = (".pkl", ".pickle", ".joblib")


class XGBoost(Framework):
    """Boosters of XGBoost, and its scikit-learn classes."""

    name = "xgboost"
    packages = {"xgboost": "xgboost", "onnxmltools": "onnxmltools"}
    extra = "convert-trees"
    distributions = ("xgboost", "onnxmltools", "onnx")
    pickles = PICKLES

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the trees of a ``.json`` or ``.ubj`` file."""
        import xgboost

        path = _file(task, (".json", ".ubj"))
        if path.suffix in PICKLES:
            return XGBoostTrees(task, _unpickled(path), example)
        booster = xgboost.Booster()
        try:
            booster.load_model(path)
        except (xgboost.core.XGBoostError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {str(error).splitlines()[-1][:200]}") from None
        objective = str(booster.save_config()).partition('"objective":')[2]
        kind = xgboost.XGBClassifier if _classifies(objective) else xgboost.XGBRegressor
        model = kind()
        model.load_model(path)
        return XGBoostTrees(task, model, example)


class LightGBM(Framework):
    """Boosters of LightGBM, and its scikit-learn classes."""

    name = "lightgbm"
    packages = {"lightgbm": "lightgbm", "onnxmltools": "onnxmltools"}
    extra = "convert-trees"
    distributions = ("lightgbm", "onnxmltools", "onnx")
    pickles = PICKLES

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the trees of a ``.txt`` file."""
        import lightgbm

        path = _file(task, (".txt",))
        if path.suffix in PICKLES:
            return LightGBMTrees(task, _unpickled(path), example)
        try:
            return LightGBMTrees(task, lightgbm.Booster(model_file=str(path)), example)
        except lightgbm.basic.LightGBMError as error:
            raise InputError(f"{path}: cannot be read: {error}") from None


def _file(task: Task, suffixes: tuple[str, ...]) -> Path:
    check_trust(task, PICKLES, f"the framework's own save_model ({' or '.join(suffixes)})")
    path = Path(task.file or "")
    if not path.is_file():
        raise InputError("file: is required" if task.file is None else f"{path}: file not found")
    if path.suffix not in (*suffixes, *PICKLES):
        raise InputError(f"{path}: the suffix {path.suffix or 'none'} is not supported; use {' or '.join(suffixes)}")
    return path


def _unpickled(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:
        raise InputError(f"{path}: cannot be read: {type(error).__name__}: {error}") from None


def _classifies(objective: str) -> bool:
    name = objective.partition('"name":"')[2].partition('"')[0]
    return name.startswith(("binary:", "multi:"))


class _Trees(Original):
    """Trees, which take one matrix of float32."""

    converter: ClassVar[str]

    def __init__(self, task: Task, model: Any, example: Arrays) -> None:
        if len(example) != 1 or next(iter(example.values())).ndim != 2:
            raise InputError("example: trees take one input, a matrix with a row for each sample")
        self.task = task
        self.model = model
        self.example = example

    def _matrix(self, inputs: Arrays) -> Any:
        return next(iter(inputs.values()))

    def convert(self, path: Path, opset: int) -> Exported:
        """Convert by onnxmltools."""
        import onnxmltools
        from onnx.defs import onnx_opset_version
        from onnxmltools.convert.common.data_types import FloatTensorType
        from onnxmltools.convert.common.onnx_ex import get_maximum_opset_supported

        (name, matrix), *_ = self.example.items()
        function = getattr(onnxmltools, self.converter)
        options: dict[str, Any] = {"zipmap": False} if "zipmap" in inspect.signature(function).parameters else {}
        try:
            model = function(
                self.model,
                name=self.task.name,
                initial_types=[(name, FloatTensorType([None if self.task.batch else len(matrix), matrix.shape[1]]))],
                target_opset=min(opset, get_maximum_opset_supported(), onnx_opset_version()),
                **options,
            )
        except Exception as error:  # onnxmltools raises what it comes across
            reason = " ".join(str(error).split())[:400]
            raise ConversionError(f"onnxmltools cannot convert the model: {type(error).__name__}: {reason}") from None
        path.write_bytes(model.SerializeToString(deterministic=True))
        return Exported("onnxmltools")

    def _named(self, arrays: list[Any], default: list[str]) -> Arrays:
        names = self.task.outputs or default
        if len(names) != len(arrays):
            raise InputError(f"outputs: {len(names)} names are given, and the model has {len(arrays)} outputs")
        return {name: np.asarray(array) for name, array in zip(names, arrays, strict=True)}


class XGBoostTrees(_Trees):
    """A model of XGBoost's scikit-learn interface."""

    converter = "convert_xgboost"

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``."""
        matrix = self._matrix(inputs)
        if hasattr(self.model, "predict_proba"):
            predictions = [self.model.predict(matrix), self.model.predict_proba(matrix)]
            return self._named(predictions, ["label", "probabilities"])
        return self._named([self.model.predict(matrix)], ["output"])


class LightGBMTrees(_Trees):
    """A booster, or a model of LightGBM's scikit-learn interface."""

    converter = "convert_lightgbm"

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``: as the converter does, a classifier gives labels and probabilities."""
        matrix = self._matrix(inputs)
        if hasattr(self.model, "predict_proba"):
            predictions = [self.model.predict(matrix), self.model.predict_proba(matrix)]
            return self._named(predictions, ["label", "probabilities"])
        scores = np.asarray(self.model.predict(matrix), dtype=np.float32)
        objective = str(getattr(self.model, "params", {}).get("objective", "")) or str(
            self.model.dump_model().get("objective", "")
        )
        if objective.startswith("binary"):
            scores = np.stack([1 - scores, scores], axis=1)
        if scores.ndim == 2:
            return self._named([scores.argmax(axis=1), scores], ["label", "probabilities"])
        return self._named([scores], ["output"])
