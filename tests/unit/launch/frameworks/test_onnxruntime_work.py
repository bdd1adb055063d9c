"""What a run of a session consists of, against sums made by hand."""

import numpy as np
import pytest

from modak_deploy.launch.frameworks.onnxruntime.sessions import Sessions
from modak_deploy.launch.frameworks.onnxruntime.sessions import described as source_of
from modak_deploy.launch.frameworks.onnxruntime.work import described, features

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
FLOAT = onnx.TensorProto.FLOAT


def model(*nodes, inputs, output, **weights):
    """Return a model's bytes; its inputs have a free first axis."""
    made = [onnx.helper.make_node(kind, given.split(), result.split(), **more) for kind, given, result, more in nodes]
    given = [onnx.helper.make_tensor_value_info(name, FLOAT, ["n", *shape]) for name, shape in inputs.items()]
    results = [onnx.helper.make_tensor_value_info(output, FLOAT, None)]
    arrays = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()]
    graph = onnx.helper.make_graph(made, "test", given, results, arrays)
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def seen(made, **feed):
    options = onnxruntime.SessionOptions()
    return features(Sessions(onnxruntime), source_of(made, {}, 0.0), options, None, feed)


def test_convolutions_weights_and_a_product_of_results(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    made = model(
        ("Conv", "x k", "h", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Flatten", "h", "f", {}),
        ("Gemm", "f w b", "g", {"transB": 1}),
        ("Transpose", "g", "t", {"perm": [1, 0]}),
        ("MatMul", "g t", "y", {}),
        inputs={"x": (3, 8, 8)},
        output="y",
        k=(6, 3, 3, 3),
        w=(10, 96),
        b=(10,),
    )
    found = seen(made, x=np.ones((5, 3, 8, 8), np.float32))
    convolution, dense, attention = 2 * 5 * 6 * 16 * 27, 2 * 5 * 96 * 10, 2 * 5 * 5 * 10
    total = convolution + dense + attention
    assert (found["batch"], found["layers"], found["flops"]) == (5, 3, total)
    assert found["parameters"] == 6 * 27 + 960 + 10
    assert found["flops_per_sample"] == total / 5
    shares = [found["mix_" + kind] for kind in ("convolution", "dense", "attention")]
    assert shares == pytest.approx([convolution / total, dense / total, attention / total])
    assert list(tmp_path.iterdir()) == [], "the profile is gone"


def test_a_recurrent_layer():
    made = model(
        ("LSTM", "x w r", "y", {"hidden_size": 4}), inputs={"x": (2, 3)}, output="y", w=(1, 16, 3), r=(1, 16, 4)
    )
    found = seen(made, x=np.ones((7, 2, 3), np.float32))
    assert found["flops"] == 2 * 7 * 2 * (16 * 3 + 16 * 4)
    assert found["mix_recurrent"] == 1


def test_products_without_a_formula_are_not_told():
    made = model(("Einsum", "x w", "y", {"equation": "ij,jk->ik"}), inputs={"x": (3,)}, output="y", w=(3, 2))
    assert seen(made, x=np.ones((5, 3), np.float32)) == {"batch": 5, "parameters": 6}
    assert described([], {}) == {}


def test_a_model_that_draws_is_left_alone(tmp_path):
    made = model(("MatMul", "x w", "h", {}), ("Bernoulli", "h", "y", {}), inputs={"x": (3,)}, output="y", w=(3, 2))
    file = tmp_path / "model.onnx"
    file.write_bytes(made)
    for given in (made, str(file)):
        assert seen(given, x=np.zeros((5, 3), np.float32)) == {}


def test_weights_behind_a_node_make_no_attention_and_indices_no_weights():
    nodes = [
        {
            "op_name": "Gather",
            "parameter_size": "400",
            "input_type_shape": [{"float": [10, 10]}, {"int64": [2]}],
            "output_type_shape": [{"float": [2, 10]}],
        },
        {
            "op_name": "Transpose",
            "parameter_size": "400",
            "input_type_shape": [{"float": [10, 10]}],
            "output_type_shape": [{"float": [10, 10]}],
        },
        {
            "op_name": "MatMul",
            "parameter_size": "0",
            "input_type_shape": [{"float": [2, 10]}, {"float": [10, 10]}],
            "output_type_shape": [{"float": [2, 10]}],
            "activation_size": "480",
            "output_size": "80",
        },
    ]
    found = described(nodes[:1], {})
    assert found == {"parameters": 100}
    assert described(nodes, {})["mix_dense"] == 1
