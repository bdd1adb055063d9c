"""scikit-learn: pipelines and estimators, from skops, or from joblib and pickle where they are trusted."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import Array, Arrays
from modak_deploy.onnx.frameworks.base import (
    ConversionError,
    Exported,
    Framework,
    Original,
    Value,
    build,
    check_trust,
    user_code,
)
from modak_deploy.onnx.packages import require
from modak_deploy.onnx.task import Task

PICKLES = (".joblib", ".pkl", ".pickle")


class ScikitLearn(Framework):
    """Estimators of scikit-learn."""

    name = "sklearn"
    packages = {"sklearn": "scikit-learn", "skl2onnx": "skl2onnx"}
    extra = "convert"
    distributions = ("scikit-learn", "skl2onnx", "onnx")
    pickles = PICKLES

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the fitted estimator."""
        check_trust(task, PICKLES, "skops.io.dump")
        with user_code(task):
            estimator = build(task) if task.reference else _read(task)
        if not hasattr(estimator, "predict") and not hasattr(estimator, "transform"):
            raise InputError(
                f"{task.file or task.reference}: {type(estimator).__name__} is not a scikit-learn estimator"
            )
        return Estimator(task, estimator, example)


def _read(task: Task) -> Any:
    path = Path(task.file or "")
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    if path.suffix == ".skops":
        skops = require("skops.io", "skops", purpose=f"{path}: a .skops file", extra="convert")
        unknown = skops.get_untrusted_types(file=path)
        if unknown and not task.trust:
            raise InputError(
                f"{path}: the file makes objects of {', '.join(map(str, unknown))[:300]}; "
                "set 'trust: true' if it is your own"
            )
        return skops.load(path, trusted=unknown)
    if path.suffix in PICKLES:
        import joblib

        try:
            return joblib.load(path)
        except Exception as error:
            raise InputError(f"{path}: cannot be read: {type(error).__name__}: {error}") from None
    raise InputError(f"{path}: the suffix {path.suffix or 'none'} is not supported; use .skops or .joblib")


class Estimator(Original):
    """A fitted estimator."""

    def __init__(self, task: Task, estimator: Any, example: Arrays) -> None:
        self.task = task
        self.estimator = estimator
        self.example = example
        self.method = task.method or ("predict" if hasattr(estimator, "predict") else "transform")
        if not hasattr(estimator, self.method):
            raise InputError(f"method: {type(estimator).__name__} has no {self.method}")

    @property
    def _classifies(self) -> bool:
        from sklearn.base import is_classifier

        return bool(is_classifier(self.estimator))

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``: a classifier gives labels and, where it can, probabilities."""
        table = self._table(inputs)
        if self.method != "predict":
            return {self._names(1)[0]: _flat(getattr(self.estimator, self.method)(table))}
        first = _flat(self.estimator.predict(table))
        if not self._classifies or not hasattr(self.estimator, "predict_proba"):
            return {self._names(1)[0]: first}
        label, probabilities = self._names(2)
        return {label: first, probabilities: _flat(self.estimator.predict_proba(table))}

    def _names(self, count: int) -> list[str]:
        default = ["label", "probabilities"] if count == 2 else ["label" if self._classifies_alone else "output"]
        return list(self.task.outputs) or default

    @property
    def _classifies_alone(self) -> bool:
        return self._classifies and self.method == "predict"

    def _table(self, inputs: Arrays) -> Any:
        if len(inputs) == 1:
            return next(iter(inputs.values()))
        pandas = require("pandas", "pandas", purpose="a pipeline with an input for each column", extra="convert")
        return pandas.DataFrame({name: array.reshape(len(array)) for name, array in inputs.items()})

    def convert(self, path: Path, opset: int) -> Exported:
        """Convert by skl2onnx; only what ``run`` gives is an output."""
        from skl2onnx import __max_supported_opset__, to_onnx
        from skl2onnx.common.data_types import guess_data_type
        from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

        kinds = []
        for name, array in self.example.items():
            kind = guess_data_type(_typed(array))[0][1]
            kind.shape = [None if self.task.batch else array.shape[0], *array.shape[1:]]
            kinds.append((name, kind))
        options: dict[str, Any] = {"zipmap": False} if self._classifies else {}
        if self.method == "decision_function":
            options["raw_scores"] = True
        target = {id(self.estimator): options} if options else None
        takes_name = "name" in inspect.signature(to_onnx).parameters
        try:
            model = to_onnx(
                self.estimator,
                initial_types=kinds,
                options=target,
                target_opset={"": min(opset, __max_supported_opset__), "ai.onnx.ml": 3},
                **({"name": self.task.name} if takes_name else {}),
            )
        except (MissingConverter, MissingShapeCalculator) as error:
            raise ConversionError(f"skl2onnx has no converter: {' '.join(str(error).split())[:300]}") from None
        except Exception as error:
            raise ConversionError(f"skl2onnx cannot convert: {type(error).__name__}: {str(error)[:300]}") from None
        self._keep(model)
        path.write_bytes(model.SerializeToString(deterministic=True))
        return Exported("skl2onnx")

    def _keep(self, model: Any) -> None:
        """Leave out the outputs that the method does not give, and name the others."""
        from modak_deploy.onnx.modelfile import rename_outputs

        wanted = list(self.run(self.example))
        if self.method in ("predict_proba", "decision_function") and len(model.graph.output) > 1:
            del model.graph.output[0]
        while len(model.graph.output) > len(wanted):
            del model.graph.output[-1]
        rename_outputs(model, wanted)

    def trace(self, inputs: Arrays) -> Iterator[Value]:
        """Yield what each step of a pipeline gives."""
        steps = getattr(self.estimator, "steps", None)
        current = self._table(inputs)
        for name, step in (steps or [])[:-1]:
            if step in (None, "passthrough"):
                continue
            current = step.transform(current)
            yield Value(name, type(step).__name__, _flat(current))
        for name, array in self.run(inputs).items():
            last = type(steps[-1][1] if steps else self.estimator).__name__
            yield Value(name, last, array)


def _typed(array: Array) -> Array:
    return array.astype(str) if array.dtype == object else array


def _flat(values: Any) -> Array:
    dense = values.toarray() if hasattr(values, "toarray") else values
    return np.asarray(dense)
