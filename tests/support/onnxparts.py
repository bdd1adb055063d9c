"""Small ONNX models and bundles for the tests, made without a framework."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from modak_deploy.onnx.bundle import describe_graph, write_bundle
from modak_deploy.onnx.manifest import Combination, Manifest, ModelEntry, Origin, Validation

PASSED = Validation(status="passed", method="elementwise", samples=4)


def linear(weights, bias=None, *, names=("x", "y"), opset=18, softmax=False, batch="batch"):
    """Return ``softmax?(x @ weights + bias)`` as a model; all of its inner names are the same for every call."""
    weights = np.asarray(weights, np.float32)
    bias = np.zeros(weights.shape[1], np.float32) if bias is None else np.asarray(bias, np.float32)
    x, y = names
    last = "logits" if softmax else y
    nodes = [
        helper.make_node("MatMul", [x, "w"], ["product"], "matmul"),
        helper.make_node("Add", ["product", "b"], [last]),
    ]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], [y], axis=-1))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [batch, weights.shape[0]])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [batch, weights.shape[1]])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def entry(folder: Path, name: str, model: onnx.ModelProto, *, external=False) -> ModelEntry:
    """Write a model into a bundle that is being made, and return its entry."""
    path = folder / "models" / name / "model.onnx"
    path.parent.mkdir(parents=True)
    if external:
        onnx.save(model, path, save_as_external_data=True, location="weights.data", size_threshold=0)
    else:
        path.write_bytes(model.SerializeToString(deterministic=True))
    return ModelEntry(
        name=name,
        graph=describe_graph(folder, f"models/{name}/model.onnx"),
        origin=Origin(framework="onnx", source="tests", exporter="by hand"),
        validation=PASSED,
    )


def bundle(folder: Path, models=None, *, external=False, **rule):
    """Write a bundle of the models, one ``linear`` when absent, without an ensemble graph."""
    models = models or {"line": linear([[1, 2], [3, 4]])}
    combination = Combination(**(rule or {"rule": "single" if len(models) == 1 else "mean"}))

    def fill(new: Path) -> Manifest:
        entries = [entry(new, name, model, external=external) for name, model in models.items()]
        return Manifest(name="test", models=entries, combination=combination, made_by="tests")

    return write_bundle(folder, fill)
