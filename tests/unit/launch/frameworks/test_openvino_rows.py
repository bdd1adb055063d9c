"""Models whose whole numbers OpenVINO computes in another way are not its own."""

import pytest

from modak_deploy.launch.frameworks import openvino_rows

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
numpy = pytest.importorskip("numpy")


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


def read(kind, given, inputs, made="INT64", options=None, **constants):
    """Return OpenVINO's model of a node."""
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node(kind, given.split(" "), ["y"], **(options or {}))],
        "test",
        [helper.make_tensor_value_info(name, types.DataType.Value(kind), shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info("y", types.DataType.Value(made), None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return openvino.Core().read_model(model.SerializeToString())


@pytest.mark.parametrize(
    ("kind", "value", "differs"),
    [
        ("Equal", 2**24 + 1, True),
        ("Less", -(2**24) - 1, True),
        ("Equal", 2**24, False),
        ("Add", 2**24 + 1, False),
        ("Add", 2**31, True),
        ("Max", 2**40, True),
    ],
)
def test_constants_that_openvino_takes_for_others(kind, value, differs):
    model = read(
        kind,
        "x c",
        [("x", "INT64", [1])],
        "BOOL" if kind in ("Equal", "Less") else "INT64",
        c=numpy.array([value], numpy.int64),
    )
    if differs:
        with pytest.raises(ValueError, match="constants of whole numbers"):
            openvino_rows.limits(model)
    else:
        assert openvino_rows.limits(model) == {}


@pytest.mark.parametrize("value", [2**31 - 1, 2**31])
def test_a_table_of_whole_numbers_that_openvino_makes_others_of(value):
    model = read("Gather", "c x", [("x", "INT64", [1])], c=numpy.array([1, value], numpy.int64))
    if value >= 2**31:
        with pytest.raises(ValueError, match="constants of whole numbers"):
            openvino_rows.limits(model)
    else:
        assert openvino_rows.limits(model) == {"x": (-2, 2)}


def test_ends_of_slices_may_be_beyond_all():
    ends = {name: numpy.array([value], numpy.int64) for name, value in (("a", 1), ("b", 2**63 - 1))}
    assert openvino_rows.limits(read("Slice", "x a b", [("x", "INT64", [4])], **ends)) == {}


@pytest.mark.parametrize(
    ("kind", "given", "options", "lengths"),
    [
        ("GRU", "x w r  l", {"hidden_size": 2}, "INT32"),
        ("ReverseSequence", "x l", {"time_axis": 0, "batch_axis": 1}, "INT64"),
    ],
)
def test_lengths_of_sequences_have_limits(kind, given, options, lengths):
    inputs = [("x", "FLOAT", [3, 2, 2]), ("l", lengths, [2])]
    weights = {name: numpy.ones((1, 6, 2), numpy.float32) for name in "wr"} if kind == "GRU" else {}
    assert openvino_rows.limits(read(kind, given, inputs, "FLOAT", options, **weights)) == {"l": (0, 4)}
