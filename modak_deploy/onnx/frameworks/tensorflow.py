"""TensorFlow: SavedModels and functions of the user's own; tf2onnx."""

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
from modak_deploy.onnx.task import Task

REACHING_OUT = frozenset(
    {
        "EagerPyFunc",
        "LoadAndRemapMatrix",
        "MatchingFiles",
        "MergeV2Checkpoints",
        "PyFunc",
        "PyFuncStateless",
        "ReadFile",
        "RestoreSlice",
        "Save",
        "SaveSlices",
        "WriteFile",
    }
)
"""Operators that read or write files of the model's choice, or run code; its own weights come by RestoreV2."""


class TensorFlow(Framework):
    """SavedModels and tf.functions."""

    name = "tensorflow"
    packages = {"tensorflow": "tensorflow", "tf2onnx": "tf2onnx"}
    extra = "convert-tensorflow"
    distributions = ("tensorflow", "tensorflow-cpu", "tf2onnx", "onnx")

    def load(self, task: Task, example: Arrays) -> Original:
        """Return the serving signature of a SavedModel, or what ``class`` makes."""
        with user_code(task):
            if task.reference is not None:
                return Function(task, build(task), example)
            return Function(task, _signature(task), example)


def _signature(task: Task) -> Any:
    import tensorflow

    path = Path(task.file or "")
    if not (path / "saved_model.pb").is_file():
        raise InputError(f"{path}: not a SavedModel: it has no saved_model.pb")
    if not task.trust and (reaching := _reaching_out(path)):
        raise InputError(
            f"{path}: the SavedModel has the operators {', '.join(reaching)}, by which it may read and write files "
            "or run code; set 'trust: true' if it is your own"
        )
    loaded = tensorflow.saved_model.load(str(path))
    signatures = loaded.signatures
    if not signatures:
        raise InputError(f"{path}: the SavedModel has no signature; save it with signatures={{'serving_default': ...}}")
    function = signatures["serving_default"] if "serving_default" in signatures else next(iter(signatures.values()))
    function._modak_keeps = loaded  # what the function's variables belong to
    return function


def _reaching_out(path: Path) -> list[str]:
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    names: set[str] = set()
    for meta in model.meta_graphs:
        names |= {node.op for node in meta.graph_def.node}
        for function in meta.graph_def.library.function:
            # Saving is a function of every SavedModel that nothing calls on its own.
            if "save" not in function.signature.name:
                names |= {node.op for node in function.node_def}
    return sorted(names & REACHING_OUT)


class Function(Original):
    """A function of tensors."""

    def __init__(self, task: Task, function: Any, example: Arrays) -> None:
        import tensorflow

        self.task = task
        self.example = example
        self.call = _wrapped(function, example)
        self.specifications = [
            tensorflow.TensorSpec([None if task.batch else array.shape[0], *array.shape[1:]], array.dtype, name=name)
            for name, array in example.items()
        ]
        self.concrete = self.call.get_concrete_function(*self.specifications)

    def run(self, inputs: Arrays) -> Arrays:
        """See ``Original.run``."""
        import tensorflow

        outputs = self.concrete(*[tensorflow.constant(inputs[name]) for name in self.example])
        arrays = tensorflow.nest.map_structure(lambda t: t.numpy(), outputs)
        return named_outputs(arrays, self.task.outputs, by_key=True)  # as tensorflow.nest.flatten and tf2onnx do

    def convert(self, path: Path, opset: int) -> Exported:
        """Convert the frozen graph by tf2onnx."""
        import tf2onnx

        highest = max(tf2onnx.constants.OPSET_TO_IR_VERSION)
        try:
            model, _ = tf2onnx.convert.from_function(
                self.call, input_signature=self.specifications, opset=min(opset, highest)
            )
        except Exception as error:  # tf2onnx raises what it comes across
            reason = " ".join(str(error).split())[:400]
            raise ConversionError(f"tf2onnx cannot convert the model: {type(error).__name__}: {reason}") from None
        _replace_erfc(model)
        path.write_bytes(model.SerializeToString(deterministic=True))
        return Exported("tf2onnx")

    def trace(self, inputs: Arrays) -> Iterator[Value]:
        """Yield what each operator of the graph gives."""
        import tensorflow
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

        frozen = convert_variables_to_constants_v2(self.concrete)
        shown = [
            operation
            for operation in frozen.graph.get_operations()
            if operation.type not in ("Const", "Placeholder", "NoOp", "Identity") and operation.outputs
        ]
        tensors = [operation.outputs[0] for operation in shown]
        values = frozen.prune(frozen.inputs, tensors)(*[tensorflow.constant(inputs[name]) for name in self.example])
        for operation, value in zip(shown, values, strict=True):
            yield Value(operation.name, operation.type, value.numpy())


def _replace_erfc(model: Any) -> None:
    """Write erfc(x) as 1 - erf(x): tf2onnx 1.17 leaves it as it is, and tf.nn.gelu has it since TensorFlow 2.16."""
    from onnx import helper, numpy_helper

    for index in reversed([p for p, node in enumerate(model.graph.node) if node.op_type == "Erfc"]):
        node = model.graph.node[index]
        source, result = node.input[0], node.output[0]
        constant = f"{result}/one"
        model.graph.initializer.append(numpy_helper.from_array(np.array(1.0, np.float32), constant))
        node.op_type = "Erf"
        node.output[0] = f"{result}/erf"
        model.graph.node.insert(
            index + 1, helper.make_node("Sub", [constant, f"{result}/erf"], [result], f"{result}/sub")
        )
        node.input[0] = source


def _wrapped(function: Any, example: Arrays) -> Any:
    """Return a tf.function of the example's tensors by position; a SavedModel's signature takes them by name."""
    import tensorflow

    signature = getattr(function, "structured_input_signature", None)
    if signature is None or not signature[1]:
        return tensorflow.function(function)
    names = list(signature[1])
    if set(names) == set(example):
        names = list(example)
    elif len(names) != len(example):
        raise InputError(f"example: the SavedModel has the inputs {', '.join(names)}, the example {', '.join(example)}")
    return tensorflow.function(lambda *tensors: function(**dict(zip(names, tensors, strict=True))))
