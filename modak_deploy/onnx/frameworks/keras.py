"""Keras 3 on any backend: a .keras file, or a class with weights; Keras's own export, on TensorFlow by tf2onnx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import Arrays
from modak_deploy.onnx.frameworks.base import (
    ConversionError,
    Exported,
    Framework,
    Original,
    Value,
    build,
    named_outputs,
    user_code,
)
from modak_deploy.onnx.packages import require
from modak_deploy.onnx.task import Task

FILES = (".keras", ".h5", ".hdf5")


class Keras(Framework):
    """Models of Keras."""

    name = "keras"
    packages = {"keras": "keras"}
    extra = "convert-tensorflow"
    distributions = ("keras", "tensorflow", "tensorflow-cpu", "torch", "jax", "tf2onnx", "onnx")

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the model; a Lambda layer, which holds code, needs trust."""
        import keras

        keras.utils.set_random_seed(0)
        with user_code(task):
            if task.reference is not None:
                model = build(task)
                if task.file is not None:
                    model.load_weights(task.file)
            else:
                model = _read(task)
        if not isinstance(model, keras.Model):
            raise InputError(f"{task.file or task.reference}: {type(model).__name__} is not a keras.Model")
        return KerasModel(task, model, example)


def _read(task: Task) -> Any:
    import keras

    path = Path(task.file or "")
    if path.suffix not in FILES:
        raise InputError(f"{path}: the suffix {path.suffix or 'none'} is not supported; use .keras")
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    if path.suffix != ".keras" and not task.trust:
        # Keras 3 reads Lambda layers of HDF5 files by marshal, and safe_mode did not cover them before 3.11.3
        # (CVE-2025-9905).
        raise InputError(f"{path}: an HDF5 model may run code when it is read; save it as .keras, or set 'trust: true'")
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=not task.trust)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        hint = "; set 'trust: true' if it is your own" if "unsafe" in reason or "safe_mode" in reason else ""
        raise InputError(f"{path}: cannot be read: {reason}{hint}") from None


class KerasModel(Original):
    """A model of Keras, on the backend that KERAS_BACKEND names."""

    def __init__(self, task: Task, model: Any, example: Arrays) -> None:
        self.task = task
        self.model = model
        self.example = example

    def _given(self, inputs: Arrays) -> Any:
        names = [tensor.name for tensor in getattr(self.model, "inputs", None) or []]
        arrays = [inputs[name] for name in self.example]
        if len(arrays) == 1:
            return arrays[0]
        return {name: inputs[name] for name in names} if set(names) == set(inputs) else arrays

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``."""
        import keras

        outputs = self.model(self._given(inputs), training=True if self.task.stochastic else None)
        arrays = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
        return named_outputs(arrays, self.task.outputs, by_key=keras.backend.backend() == "tensorflow")

    def convert(self, path: Path, opset: int) -> Exported:
        """Convert by torch.onnx where Keras runs on PyTorch, else by tf2onnx."""
        import keras

        if keras.backend.backend() == "torch":
            from modak_deploy.onnx.frameworks.pytorch import TorchModule

            require("onnxscript", "onnxscript", purpose="Keras on PyTorch", extra="convert")
            return TorchModule(self.task, self.model.eval(), self.example).convert(path, opset)
        require("tensorflow", "tensorflow", purpose="a model of Keras", extra="convert-tensorflow")
        require("tf2onnx", "tf2onnx", purpose="a model of Keras", extra="convert-tensorflow")
        from modak_deploy.onnx.frameworks.tensorflow import Function

        if keras.backend.backend() != "tensorflow":
            raise ConversionError(
                f"Keras runs on {keras.backend.backend()}; a model is converted on TensorFlow or PyTorch: "
                "set KERAS_BACKEND=tensorflow"
            )

        def call(*tensors: Any) -> Any:
            return self.model(self._given(dict(zip(self.example, tensors, strict=True))), training=False)

        exported = Function(self.task, call, self.example).convert(path, opset)
        return Exported(f"{exported.exporter}, Keras on TensorFlow", exported.notes)

    def trace(self, inputs: Arrays) -> Iterator[Value]:
        """Yield what each layer of a functional or sequential model gives."""
        import keras

        layers = [layer for layer in self.model.layers if not isinstance(layer, keras.layers.InputLayer)]
        outputs = {layer.name: layer.output for layer in layers}
        values = keras.Model(self.model.inputs, outputs)(self._given(inputs), training=False)
        for layer in layers:
            yield Value(layer.name, type(layer).__name__, np.asarray(keras.ops.convert_to_numpy(values[layer.name])))
