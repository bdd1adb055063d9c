"""TVM tunes every operator of a graph, also with few trials, and what it measured is used again."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from modak_deploy.onnx.engines import Tvm
from modak_deploy.onnx.sessions import Session

for package in ("tvm", "cloudpickle", "xgboost"):
    pytest.importorskip(package)

WIDTHS = (64, 128, 32, 16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three layers of different widths: three operators after fusion."""
    generator = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for at, shape in enumerate(pairwise(WIDTHS)):
        weights.append(numpy_helper.from_array(generator.normal(size=shape).astype("float32") / 8, f"w{at}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{at}"], [f"m{at}"]))
        last = "y" if at == len(WIDTHS) - 2 else f"r{at}"
        nodes.append(helper.make_node("Relu", [f"m{at}"], [last]))
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDTHS[-1]])],
        weights,
    )
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)
    return file


def test_all_operators_have_their_turn(path: Path, tmp_path: Path) -> None:
    database = tmp_path / "measured"
    database.mkdir()
    inputs = {"x": np.random.default_rng(1).normal(size=(4, WIDTHS[0])).astype("float32")}
    expected = Session(path).run(inputs)
    run = Tvm().load_tuned(path, inputs, trials=6, database=database)
    np.testing.assert_allclose(run(inputs)["y"], expected["y"], rtol=1e-4, atol=1e-5)
    operators = (database / "database_workload.json").read_text().splitlines()
    records = [json.loads(line) for line in (database / "database_tuning_record.json").open()]
    assert {record[0] for record in records} == set(range(len(operators)))
    assert len(operators) >= len(WIDTHS) - 1

    again = Tvm().load_tuned(path, inputs, trials=0, database=database)
    np.testing.assert_allclose(again(inputs)["y"], expected["y"], rtol=1e-4, atol=1e-5)
    assert len((database / "database_tuning_record.json").read_text().splitlines()) == len(records)
