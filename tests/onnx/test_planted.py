"""A conversion that is wrong on purpose is seen, and its operator named, on real models."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from modak_deploy.onnx.frameworks import framework
from modak_deploy.onnx.modelfile import normalise
from modak_deploy.onnx.task import Data, Task
from modak_deploy.onnx.validate import validate

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
SUPPORT = Path(__file__).parents[1] / "support" / "onnx_networks.py"


@pytest.mark.parametrize(
    ("operator", "change", "original"),
    [("Concat", "swap", "cat"), ("Relu", "LeakyRelu", "relu"), ("Conv", "negate", "conv2d")],
)
def test_planted_fault(tmp_path: Path, operator: str, change: str, original: str) -> None:
    task = Task(
        name="squeezenet",
        framework="pytorch",
        example=Data(),
        test=Data(),
        folder=str(tmp_path),
        reference="onnx_networks:SqueezeNet",
        code=str(SUPPORT),
    )
    example = {"image": np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype("float32")}
    model = framework("pytorch").load(task, example)
    path = tmp_path / "model.onnx"
    model.convert(path, 18)
    normalise(path, "squeezenet", batch=True, inputs=["image"], outputs=["output"], limit=2**31 - 1)
    assert validate(model, path, task, example, example)["status"] == "passed"
    graph = onnx.load(path)
    nodes = [node for node in graph.graph.node if node.op_type == operator]
    node = nodes[len(nodes) // 2]
    if change == "swap":
        node.input[0], node.input[1] = node.input[1], node.input[0]
    elif change == "negate":
        weights = next(t for t in graph.graph.initializer if t.name == node.input[1])
        weights.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(weights), weights.name))
    else:
        node.op_type = change
    onnx.save(graph, path)
    found = validate(model, path, task, example, example)
    assert found["status"] == "failed"
    print(found["reason"], found["first_deviation"], file=sys.stderr)
    if change == "swap":
        return  # a permutation is seen by the outputs alone
    assert node.name in found["first_deviation"]
    assert original in found["first_deviation"]
