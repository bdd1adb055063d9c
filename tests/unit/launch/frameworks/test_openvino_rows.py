"""Models whose whole numbers OpenVINO computes in another way are not its own."""

import pytest

from modak_deploy.launch.frameworks import openvino_rows

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")


@pytest.mark.parametrize(("given", "made", "differs"), [
    ("FLOAT", "INT64", True), ("FLOAT", "INT32", False), ("INT32", "INT64", False), ("INT64", "FLOAT", False),
])  # fmt: skip
def test_wide_whole_numbers_that_were_others_may_not_fit(given, made, differs):
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.DataType.Value(kind), [3])
            for name, kind in (("x", given), ("y", made))]  # fmt: skip
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.DataType.Value(made))
    graph = helper.make_graph([node], "cast", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    read = openvino.Core().read_model(model.SerializeToString())
    if differs:
        with pytest.raises(ValueError, match="may not fit their type"):
            openvino_rows.limits(read)
    else:
        assert openvino_rows.limits(read) == {}
