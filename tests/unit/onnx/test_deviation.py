"""The first operator that deviates is named, whatever the converter renamed or split."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from modak_deploy.onnx.deviation import describe_deviation, deviation_of_files
from modak_deploy.onnx.frameworks.base import Value

WEIGHTS = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
INPUT = np.random.default_rng(1).standard_normal((2, 4)).astype("float32")


def graph(path: Path, *, middle: str = "Relu", split: bool = False) -> Path:
    """Write x @ w, ``middle``, scaled, softmax."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["dense"], "dense")]
    if split:  # relu as max(x, 0)
        nodes.append(helper.make_node("Max", ["dense", "zero"], ["other"], "as_max"))
    else:
        nodes.append(helper.make_node(middle, ["dense"], ["other"], "activation"))
    nodes += [
        helper.make_node("Mul", ["other", "two"], ["scaled"], "scale"),
        helper.make_node("Softmax", ["scaled"], ["y"], "out"),
    ]
    constants = {"w": WEIGHTS, "zero": np.zeros(1, "float32"), "two": np.full(1, 2, "float32")}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )
    onnx.save(model, path)
    return path


def test_names_the_first_operator(tmp_path: Path) -> None:
    good, bad = graph(tmp_path / "good.onnx"), graph(tmp_path / "bad.onnx", middle="LeakyRelu")
    found = deviation_of_files(good, bad, {"x": INPUT})
    assert found == "LeakyRelu 'activation', converted from Relu 'other'"


def test_another_operator_with_the_same_result_is_no_deviation(tmp_path: Path) -> None:
    good, other = graph(tmp_path / "good.onnx"), graph(tmp_path / "other.onnx", split=True)
    assert deviation_of_files(good, other, {"x": INPUT}) is None


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_values_are_matched_by_what_they_hold(tmp_path: Path, factor: float) -> None:
    dense = INPUT @ WEIGHTS
    scaled = np.maximum(dense, 0) * np.float32(factor)
    soft = np.exp(scaled) / np.exp(scaled).sum(axis=-1, keepdims=True)
    reference = [Value("a", "addmm", dense.T.copy()), Value("b", "mul", scaled), Value("c", "softmax", soft)]
    found = describe_deviation(reference, graph(tmp_path / "m.onnx"), {"x": INPUT})
    # Relu has no counterpart of its own, and neither has what follows it when the factor is another.
    assert found == (None if factor == 2.0 else "Relu 'activation', converted from mul 'b'")
