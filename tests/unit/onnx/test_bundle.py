"""Bundles: written whole, read strictly, verified before anything is loaded."""

import errno
import json
import os
import stat
from pathlib import Path

import onnx
import pytest
from onnx import helper

from modak_deploy.errors import InputError
from modak_deploy.onnx.bundle import read_bundle, write_bundle
from onnxparts import bundle, linear


def changed(folder: Path, change) -> None:
    """Rewrite the manifest as ``change`` leaves it."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def rehash(folder: Path, path: str, key) -> None:
    """Let the manifest say what a changed file is, as somebody would who forges a bundle."""
    from modak_deploy.onnx.bundle import describe_file

    entry = json.loads(describe_file(folder, path).model_dump_json())
    changed(folder, lambda content: key(content).update(entry))


def graph_of(content):
    return content["models"][0]["graph"]


@pytest.mark.parametrize("external", [False, True])
def test_what_was_written_is_read_and_verified(tmp_path, external):
    bundle(tmp_path / "b", external=external)
    read = read_bundle(tmp_path / "b")
    read.verify()
    graph = read.manifest.models[0].graph
    assert [str(tensor) for tensor in graph.inputs] == ["x: float32[batch, 2]"]
    assert graph.opsets == {"ai.onnx": 18}
    assert [file.path for file in graph.data] == (["models/line/weights.data"] if external else [])
    assert read.manifest.to_json() == (tmp_path / "b" / "manifest.json").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_the_same_models_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        bundle(tmp_path / name)
    assert (tmp_path / "one/manifest.json").read_bytes() == (tmp_path / "two/manifest.json").read_bytes()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../model.onnx", "leaves the bundle"),
        ("/etc/passwd", "is not a path relative to the bundle"),
        ("models/line/../../x", "leaves the bundle"),
        ("models\\line", "is not a path relative to the bundle"),
        ("C:/model.onnx", "is not a path relative to the bundle"),
        ("models/line/.hidden", "has the part"),
        ("models//x", "has the part"),
        ("models/line/a\u202eb", "has the part"),
        ("models/line/" + "x" * 2000, "1 to 1024 characters"),
        ("models/other/model.onnx", "the files of the model 'line' lie in models/line/"),
    ],
)
def test_a_path_that_leaves_the_bundle_is_refused(tmp_path, path, problem):
    bundle(tmp_path / "b")
    changed(tmp_path / "b", lambda content: graph_of(content)["file"].update(path=path))
    with pytest.raises(InputError, match=rf"manifest\.json: .*{problem}"):
        read_bundle(tmp_path / "b")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content.update(unknown=1), "unknown"),
        (lambda content: content.pop("models"), "models"),
        (lambda content: content.update(schema="modak.onnx-bundle/2"), "schema"),
        (lambda content: graph_of(content)["file"].update(size=-1), "size"),
        (lambda content: graph_of(content)["file"].update(size=2**31), "smaller than 2 GiB"),
        (lambda content: graph_of(content)["file"].update(sha256="0"), "sha256"),
        (lambda content: content["models"].append(content["models"][0]), "'line' is given twice"),
        (lambda content: content["combination"].update(rule="mean"), "'single' is for one model"),
        (lambda content: content["models"][0]["validation"].update(status="skipped"), "needs a 'reason'"),
        (lambda content: content.update(timings=[{"batch": 1, "median": float("nan"), "runs": 1}]), "NaN"),
    ],
)
def test_a_manifest_that_is_wrong_is_refused_with_its_key(tmp_path, change, problem):
    bundle(tmp_path / "b")
    changed(tmp_path / "b", change)
    with pytest.raises(InputError, match=rf"manifest\.json.*{problem}"):
        read_bundle(tmp_path / "b")


@pytest.mark.parametrize("content", [b"", b"[]", b"{" * 100_000, b"\xff", b'{"schema": ' + b"1" * 5000 + b"}"])
def test_a_manifest_that_is_no_json_object_is_refused(tmp_path, content):
    bundle(tmp_path / "b")
    (tmp_path / "b/manifest.json").write_bytes(content)
    with pytest.raises(InputError, match=r"manifest\.json"):
        read_bundle(tmp_path / "b")


def test_an_endless_manifest_is_not_read_to_its_end(tmp_path):
    bundle(tmp_path / "b")
    with (tmp_path / "b/manifest.json").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match="larger than 16 MiB"):
        read_bundle(tmp_path / "b")


@pytest.mark.parametrize("name", ["model.onnx", "weights.data"])
def test_a_changed_file_is_refused(tmp_path, name):
    bundle(tmp_path / "b", external=True)
    path = tmp_path / "b/models/line" / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: the SHA-256 is "):
        read_bundle(tmp_path / "b").verify()
    path.write_bytes(data + b"x")
    with pytest.raises(InputError, match=rf"{name}: has \d+ bytes, manifest.json says"):
        read_bundle(tmp_path / "b").verify()
    path.unlink()
    with pytest.raises(InputError, match=rf"{name}: not found"):
        read_bundle(tmp_path / "b").verify()


def test_links_and_special_files_are_refused(tmp_path):
    bundle(tmp_path / "b", external=True)
    weights = tmp_path / "b/models/line/weights.data"
    weights.rename(tmp_path / "elsewhere")
    weights.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="symbolic link"):
        read_bundle(tmp_path / "b").verify()
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(InputError, match="not a regular file"):
        read_bundle(tmp_path / "b").verify()
    (tmp_path / "b/models").rename(tmp_path / "models")
    (tmp_path / "b/models").symlink_to(tmp_path / "models")
    with pytest.raises(InputError, match="symbolic link"):
        read_bundle(tmp_path / "b").verify()


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("location", "/etc/passwd", "is not a path relative to the bundle"),
        ("location", "../../../secret", "leaves the bundle"),
        ("location", "other.data", "'other.data' is not in manifest.json"),
        ("location", "*/_ORT_MEM_ADDR_/*", "has the part"),
        ("offset", "-1", "is not a number of bytes"),
        ("offset", str(2**40), "bytes, .* are required"),
        ("length", "1e9", "is not a number of bytes"),
    ],
)
@pytest.mark.parametrize("inside", ["graph", "subgraph", "attribute"])
def test_external_data_outside_the_bundle_are_refused(tmp_path, key, value, problem, inside):
    bundle(tmp_path / "b", external=True)
    path = tmp_path / "b/models/line/model.onnx"
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    next(entry for entry in tensor.external_data if entry.key == key).value = value
    if inside == "attribute":
        node = helper.make_node("Constant", [], ["c"])
        node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
        model.graph.node.append(node)
        del model.graph.initializer[0]
    elif inside == "subgraph":
        node = helper.make_node("If", ["y"], ["c"])
        node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.initializer.append(tensor)
        model.graph.node.append(node)
        del model.graph.initializer[0]
    path.write_bytes(model.SerializeToString())
    rehash(tmp_path / "b", "models/line/model.onnx", lambda content: graph_of(content)["file"])
    with pytest.raises(InputError, match=problem):
        read_bundle(tmp_path / "b").verify()


@pytest.mark.parametrize("operator", ["EPContext", "PyOp"])
def test_operators_that_load_code_are_refused(tmp_path, operator):
    model = linear([[1.0]])
    model.graph.node.append(helper.make_node(operator, ["y"], ["z"], domain="com.microsoft"))
    with pytest.raises(InputError, match=f"the operator {operator} .* loads code"):
        bundle(tmp_path / "b", {"evil": model})
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_says_something_else_of_its_graph_is_refused(tmp_path):
    bundle(tmp_path / "b")
    changed(tmp_path / "b", lambda content: graph_of(content)["inputs"][0].update(shape=[None, 3]))
    with pytest.raises(InputError, match=r"inputs: differ from manifest\.json"):
        read_bundle(tmp_path / "b").verify()


def test_a_bundle_appears_whole_or_not_at_all(tmp_path):
    def fails(new: Path):
        (new / "half").write_text("x")
        raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        write_bundle(tmp_path / "b", fails)
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_the_disk_does_not_take_does_not_appear(tmp_path, monkeypatch):
    def fsync(handle):  # as NFS does, which tells of a full disk no earlier
        raise OSError(errno.EINVAL if stat.S_ISDIR(os.fstat(handle).st_mode) else errno.ENOSPC, "it is full")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(InputError, match="b: cannot be written: it is full"):
        bundle(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_is_replaced_only_on_request_and_nothing_else_ever(tmp_path):
    made = bundle(tmp_path / "b")
    with pytest.raises(InputError, match="exists; remove it or use --replace"):
        bundle(tmp_path / "b")

    def same(new: Path):
        os.renames(tmp_path / "b/models", new / "models")
        return made.manifest

    write_bundle(tmp_path / "b", same, replace=True).verify()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is not a bundle; it is not replaced"):
        write_bundle(tmp_path / "mine", same, replace=True)
