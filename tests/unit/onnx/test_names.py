"""The outputs of a model by name, in the order in which its converter writes them."""

import numpy as np
import pytest

from modak_deploy.onnx.frameworks.base import named_outputs
from modak_deploy.onnx.task import Data, Task

OUTPUTS = {"score": np.zeros(2), "mean": {"low": np.ones(2), "high": np.ones(3)}}


def test_a_dictionary_is_in_the_framework_s_order() -> None:
    assert list(named_outputs(OUTPUTS)) == ["score", "mean_low", "mean_high"]
    assert list(named_outputs(OUTPUTS, by_key=True)) == ["mean_high", "mean_low", "score"]
    assert list(named_outputs(OUTPUTS, ["a", "b", "c"], by_key=True)) == ["a", "b", "c"]


def test_tensorflow_s_outputs_are_in_the_order_of_its_graph() -> None:
    tensorflow = pytest.importorskip("tensorflow")
    from modak_deploy.onnx.frameworks.tensorflow import Function

    example = {"x": np.array([[1.0, 2.0]], "float32")}
    task = Task("two", "tensorflow", Data(), Data(), "/nowhere")
    original = Function(task, lambda x: {"sum": tensorflow.reduce_sum(x, 1), "first": x[:, 0]}, example)
    in_graph = tensorflow.nest.flatten(original.concrete(tensorflow.constant(example["x"])))
    assert [float(tensor[0]) for tensor in in_graph] == [1.0, 3.0]
    assert [(name, float(array[0])) for name, array in original.run(example).items()] == [("first", 1.0), ("sum", 3.0)]
