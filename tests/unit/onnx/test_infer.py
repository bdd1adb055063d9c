"""Inference: inputs from files, checked, in batches; outputs to files; on the real ONNX Runtime."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from modak_deploy.cli import main
from modak_deploy.errors import InputError
from modak_deploy.onnx.bundle import read_bundle, write_bundle
from modak_deploy.onnx.combine import write_ensemble
from modak_deploy.onnx.manifest import Combination, Manifest
from modak_deploy.onnx.runner import Runner
from onnxparts import bundle, entry, linear

WEIGHTS = np.array([[1, 2], [3, 4]], np.float32)
X = np.arange(14, dtype=np.float32).reshape(7, 2)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    return bundle(tmp_path_factory.mktemp("infer") / "line", {"line": linear(WEIGHTS)}).folder


def infer(capsys, *arguments):
    """Return exit code, standard output and standard error of ``modak infer``."""
    code = 0
    try:
        main(["infer", *map(str, arguments)])
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_from_npz_to_npz_in_batches(line, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=X)
    for batch in (1, 3, 7, 100):
        code, _, err = infer(capsys, line, "-i", tmp_path / "x.npz", "-o", tmp_path / "y.npz", "--batch", batch)
        assert code == 0
        assert "CPUExecutionProvider" in err
        np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], X @ WEIGHTS)


def test_other_files(line, tmp_path, capsys):
    np.save(tmp_path / "x.npy", X)
    rows = "\n".join(",".join(map(str, row)) for row in X)
    (tmp_path / "x.csv").write_text(f"first,second\n{rows}\n")
    for name in ("x.npy", "x.csv"):
        code, out, _ = infer(capsys, line, "-i", tmp_path / name)
        assert code == 0
        np.testing.assert_allclose(json.loads(out)["y"], X @ WEIGHTS)
    assert infer(capsys, line, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npy")[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), X @ WEIGHTS)
    assert infer(capsys, line, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.csv")[0] == 0
    assert (tmp_path / "y.csv").read_text().splitlines()[:2] == ["y.0,y.1", "3.0,4.0"]


FORMATS = (".npz", ".npy", ".csv", ".parquet")


def arrow():
    """Return pyarrow and its module for parquet; skip without them."""
    return pytest.importorskip("pyarrow", reason="pip install pyarrow"), pytest.importorskip("pyarrow.parquet")


def write(path, array):
    """Write the samples as a user's program does."""
    if path.suffix == ".parquet":
        pyarrow, parquet = arrow()
        parquet.write_table(pyarrow.table({f"c{at}": array[:, at] for at in range(array.shape[1])}), path)
    elif path.suffix == ".csv":
        header = ",".join(f"c{at}" for at in range(array.shape[1]))
        np.savetxt(path, array, delimiter=",", header=header, comments="", fmt="%.9g")
    else:
        (np.savez if path.suffix == ".npz" else np.save)(path, array)


def read(path):
    """Read the output as a user's program does."""
    if path.suffix == ".parquet":
        table = arrow()[1].read_table(path)
        assert table.column_names == ["y.0", "y.1"]
        return np.column_stack([table[name].to_numpy() for name in table.column_names])
    if path.suffix == ".csv":
        assert path.read_text().startswith("y.0,y.1\n")
        return np.loadtxt(path, delimiter=",", skiprows=1)
    loaded = np.load(path)
    return loaded["y"] if path.suffix == ".npz" else loaded


@pytest.mark.parametrize("written", FORMATS)
@pytest.mark.parametrize("given", FORMATS)
def test_each_format_in_and_out(line, tmp_path, capsys, given, written):
    if ".parquet" in (given, written):
        arrow()
    samples = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
    write(tmp_path / f"x{given}", samples)
    for _ in range(2):  # an output that is there is replaced
        code, out, err = infer(capsys, line, "-i", tmp_path / f"x{given}", "-o", tmp_path / f"y{written}", "--batch", 3)
        assert (code, out) == (0, ""), err
    np.testing.assert_allclose(read(tmp_path / f"y{written}"), samples @ WEIGHTS, rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in tmp_path.glob("[xy].*")) == sorted([f"x{given}", f"y{written}"])


@pytest.mark.parametrize("given", FORMATS)
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01", b"PK\x03\x04", b"PAR1PAR1", b"a,b\n1,x\n", b"a,b\n1\n"])
def test_a_damaged_file_ends_with_a_message(line, tmp_path, capsys, given, content):
    if given == ".parquet":
        arrow()
    (tmp_path / f"x{given}").write_bytes(content)
    code, out, err = infer(capsys, line, "-i", tmp_path / f"x{given}", "-o", tmp_path / "y.npz")
    assert (code, out) == (2, "") and f"x{given}" in err and "Traceback" not in err
    assert not (tmp_path / "y.npz").exists()


@pytest.mark.parametrize("written", FORMATS)
def test_an_output_that_cannot_be_written_ends_with_a_message(line, tmp_path, capsys, written):
    if written == ".parquet":
        arrow()
    np.save(tmp_path / "x.npy", X)
    code, _, err = infer(capsys, line, "-i", tmp_path / "x.npy", "-o", tmp_path / "nowhere" / f"y{written}")
    assert code == 2 and "cannot be written" in err


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"z": X}, None),
        ({"x": X, "z": X}, "input 'z' not found"),
        ({"x": X.astype(np.float64)}, "has the type float64, the model takes float32; .*--cast"),
        ({"x": X[0]}, r"has the shape \[2\] of 1 dimension, the model takes x: float32\[batch, 2\]"),
        ({"x": np.ones((3, 5), np.float32)}, "axis 1 is 5, not 2"),
        ({"x": np.ones((0, 2), np.float32)}, "holds no sample"),
        ({"x": np.array([["a", "b"]])}, "has the type string, the model takes float32"),
        ({"x": np.array([[1, 2]], object)}, "without unpickling"),
    ],
)
def test_wrong_inputs_end_with_a_message(line, tmp_path, capsys, arrays, problem):
    np.savez(tmp_path / "x.npz", **arrays)
    code, out, err = infer(capsys, line, "-i", tmp_path / "x.npz")
    assert code == (2 if problem else 0)
    if problem:
        assert out == ""
        assert re.search(problem, err), err


def test_cast_converts_what_loses_no_more_than_precision(line, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=X.astype(np.float64))
    assert infer(capsys, line, "-i", tmp_path / "x.npz", "--cast")[0] == 0
    np.savez(tmp_path / "x.npz", x=np.full((1, 2), 1e300))
    code, _, err = infer(capsys, line, "-i", tmp_path / "x.npz", "--cast")
    assert code == 2
    assert "some values of float64 are no float32" in err


def test_a_symbol_has_one_size_in_all_inputs(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "add",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "ab"],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    runner = Runner(bundle(tmp_path / "b", {"add": model}))
    with pytest.raises(InputError, match="'b': has 3 of 'n', and 'a' has 2"):
        runner.run({"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})


def test_nan_and_infinity_are_printed(line, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=np.array([[np.nan, 1], [np.inf, 1]], np.float32))
    code, out, _ = infer(capsys, line, "-i", tmp_path / "x.npz")
    assert code == 0
    assert json.loads(out)["y"] == [["NaN", "NaN"], ["Infinity", "Infinity"]]


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("graph", [False, True])
def test_an_ensemble_with_and_without_a_graph_of_its_own(tmp_path, external, graph):
    models = {"a": linear(WEIGHTS), "b": linear(WEIGHTS * 3)}
    rule = Combination(rule="mean")

    def fill(new):
        entries = [entry(new, name, model, external=external) for name, model in models.items()]
        ensemble = write_ensemble(new, entries, rule) if graph else None
        return Manifest(name="t", models=entries, combination=rule, ensemble=ensemble, made_by="tests")

    made = write_bundle(tmp_path / "b", fill)
    np.testing.assert_allclose(Runner(made).run({"x": X}, batch=2)["y"], X @ WEIGHTS * 2, rtol=1e-5)


def test_a_changed_file_is_not_run(line, tmp_path, capsys):
    made = bundle(tmp_path / "b", {"line": linear(WEIGHTS)}, external=True)
    weights = tmp_path / "b/models/line/weights.data"
    weights.write_bytes(weights.read_bytes()[::-1])
    with pytest.raises(InputError, match="SHA-256"):
        Runner(read_bundle(made.folder))
    code, _, err = infer(capsys, made.folder)
    assert code == 2
    assert "SHA-256" in err


def test_a_custom_operator_is_named(tmp_path):
    model = linear(WEIGHTS)
    model.graph.node[1].op_type = "Secret"
    model.graph.node[1].domain = "com.example"
    model.opset_import.add(domain="com.example", version=1)
    with pytest.raises(InputError, match=r"cannot be loaded by onnxruntime .*Secret"):
        Runner(bundle(tmp_path / "b", {"custom": model}))


def test_a_bundle_is_described_without_input(line, capsys):
    code, out, _ = infer(capsys, line)
    assert code == 0
    assert out.splitlines() == [
        "test: single of 1",
        "model line: onnx, passed",
        "input  x: float32[batch, 2]",
        "output y: float32[batch, 2]",
    ]


def test_the_fastest_provider_is_measured(line, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=X)
    code, _, err = infer(capsys, line, "-i", tmp_path / "x.npz", "--provider", "measure")
    assert code == 0
    assert "cpu: " in err


def test_outputs_can_be_chosen(tmp_path, capsys):
    model = linear(WEIGHTS)
    model.graph.output.append(helper.make_tensor_value_info("product", onnx.TensorProto.FLOAT, ["batch", 2]))
    folder = bundle(tmp_path / "b", {"two": model}).folder
    np.savez(tmp_path / "x.npz", x=X)
    code, out, _ = infer(capsys, folder, "-i", tmp_path / "x.npz", "--only", "product")
    assert code == 0
    assert list(json.loads(out)) == ["product"]
    assert infer(capsys, folder, "-i", tmp_path / "x.npz", "--only", "prodct")[0] == 2
    assert "use .npz or --only" in infer(capsys, folder, "-i", tmp_path / "x.npz", "-o", tmp_path / "y.npy")[2]


@pytest.mark.parametrize("arguments", [["nothing"], ["."], ["BUNDLE", "-i", "x.txt"], ["BUNDLE", "-o", "y.txt"]])
def test_wrong_arguments_end_with_a_message(line, tmp_path, capsys, arguments, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").touch()
    code, _, err = infer(capsys, *[line if word == "BUNDLE" else word for word in arguments])
    assert code == 2
    assert err.count("\n") == 1
