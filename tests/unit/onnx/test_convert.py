"""Conversion of whole models, each in a process of its own."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modak_deploy.errors import InputError
from modak_deploy.onnx.bundle import Bundle, read_bundle
from modak_deploy.onnx.convert import ConvertError, convert
from modak_deploy.onnx.request import load_request
from modak_deploy.util.files import locked

CODE = """
import os, pathlib, torch

class Tiny(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        torch.manual_seed(4)
        self.a = torch.nn.Linear(4, width)
        self.b = torch.nn.Linear(width, 3)

    def forward(self, x):
        return torch.softmax(self.b(torch.nn.functional.gelu(self.a(x))), -1)

class Branch(Tiny):
    def forward(self, x):
        if x.sum() > 0:
            return super().forward(x)
        return super().forward(-x)

class Alone(Tiny):
    def forward(self, x):
        return super().forward(x) if x.shape[0] == 1 else self.b(self.a(x))

class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.lstm = torch.nn.LSTM(4, 3, num_layers=2, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y, h, c

def crash():
    os.abort()
"""
IRIS = """  - name: iris
    framework: sklearn
    file: iris.joblib
    trust: true
    example: iris.npy
    test: iris.npy
"""
TINY = """  - name: tiny
    framework: pytorch
    class: nets:Tiny
    code: nets.py
    example: {x: {shape: [2, 4]}}
    test: {samples: 20}
"""
PAIR = "name: pair\ncombine: {rule: mean, outputs: {iris: probabilities}}\noptimise: {enabled: false}\nmodels:\n"
Lines = list[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    joblib = pytest.importorskip("joblib")
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    top = tmp_path_factory.mktemp("models")
    x, y = load_iris(return_X_y=True)
    joblib.dump(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y), top / "iris.joblib")
    np.save(top / "iris.npy", x[:40].astype("float32"))
    (top / "nets.py").write_text(CODE)
    return top


def run(folder: Path, text: str, output: str, **options: Any) -> tuple[Bundle, Lines]:
    """Convert what the document describes."""
    (folder / f"{output}.yml").write_text(text)
    lines: Lines = []
    request = load_request(folder / f"{output}.yml")
    return convert(request, folder / output, base=folder, report=lines.append, **options), lines


def test_two_frameworks(folder: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    bundle, lines = run(folder, PAIR + TINY + IRIS, "both")
    assert "tiny: convert" in lines
    bundle.verify()
    assert json.loads((folder / "both" / "manifest.json").read_text())["schema"] == "modak.onnx-bundle/1"
    manifest = read_bundle(folder / "both").manifest
    tiny, iris = manifest.models
    assert (tiny.origin.exporter, iris.origin.exporter) == ("torch.onnx dynamo", "skl2onnx")
    assert [str(tensor) for tensor in tiny.graph.inputs] == ["x: float32[batch, 4]"]
    assert [tensor.name for tensor in iris.graph.outputs] == ["label", "probabilities"]
    for model in manifest.models:
        assert model.validation.status == "passed"
        assert all((output.max_absolute or 0) < 1e-5 for output in model.validation.outputs)
    # What is finished is not converted again, and a second conversion gives the same bytes.
    again, lines = run(folder, PAIR + TINY + IRIS, "both", replace=True)
    assert lines[:2] == ["tiny: converted before", "iris: converted before"]
    assert again.manifest == manifest
    (folder / ".both.convert" / "iris" / "key").unlink()
    assert run(folder, PAIR + TINY + IRIS, "both", replace=True)[0].manifest == manifest


def test_a_crash_stays_local(folder: Path) -> None:
    pytest.importorskip("torch")
    text = PAIR + TINY.replace("nets:Tiny", "nets:crash") + IRIS
    with pytest.raises(ConvertError) as caught:
        run(folder, text, "crash")
    assert "tiny: the process that converts the model was ended by SIGABRT" in str(caught.value)
    assert (folder / ".crash.convert" / "iris" / "key").is_file()
    assert not (folder / "crash").exists()


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return exec, (f"open({self.path!r}, 'w').close()",)


@pytest.mark.parametrize(
    ("framework", "name", "source"),
    [
        ("sklearn", "bad.joblib", ""),
        ("sklearn", "bad.pkl", ""),
        ("pytorch", "bad.pt", ""),
        ("pytorch", "bad.pt2", ""),
        ("pytorch", "bad.pt", "    class: nets:Tiny\n    code: nets.py\n"),
    ],
)
def test_malicious_pickle(
    folder: Path, framework: str, name: str, source: str, in_process: Callable[[str], str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    marker = folder / "ran"
    (folder / name).write_bytes(pickle.dumps(Harmful(str(marker))))
    example = "    example: {x: {shape: [2, 4]}}\n    test: {samples: 4}\n"
    model = f"  - name: bad\n    framework: {framework}\n    file: {name}\n{source}{example}"
    message = in_process("name: bad\nmodels:\n" + model)
    assert not marker.exists()
    assert "may run" in message
    assert "trust: true" in message


@pytest.fixture
def in_process(folder: Path, tmp_path: Path) -> Callable[[str], str]:
    """Convert a model in this process; return the error."""
    from modak_deploy.onnx.convert import task_of
    from modak_deploy.onnx.task import Outcome
    from modak_deploy.onnx.worker import convert as convert_here

    def message(text: str) -> str:
        (folder / "one.yml").write_text(text)
        request = load_request(folder / "one.yml")
        task = task_of(request, request.models[0], folder, tmp_path)
        with pytest.raises(InputError) as caught:
            convert_here(task, Outcome())
        return str(caught.value)

    return message


def test_data_dependent_branch(in_process: Callable[[str], str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    message = in_process("name: branch\nmodels:\n" + TINY.replace("nets:Tiny", "nets:Branch"))
    assert "only the branch that the example takes can be converted: nets.py:" in message
    assert "if x.sum() > 0:; use torch.cond or torch.where, or set 'frozen_branches: accept'" in message


def test_wrong_input_shape(in_process: Callable[[str], str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    text = "name: one\nmodels:\n" + TINY
    assert "the model does not take 'x' float32[2, 5]" in in_process(text.replace("[2, 4]", "[2, 5]"))


def test_test_data_of_another_shape(folder: Path, in_process: Callable[[str], str]) -> None:
    np.save(folder / "other.npy", np.ones((5, 3), "float32"))
    text = "name: one\nmodels:\n" + IRIS.replace("test: iris.npy", "test: other.npy")
    assert "test: 'input' has samples of shape [3], and those of the example have [4]" in in_process(text)


def test_missing_package(in_process: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    message = in_process("name: one\nmodels:\n" + IRIS)
    assert message == (
        "a model of sklearn needs the package skl2onnx: not installed; "
        "pip install 'skl2onnx', or pip install 'modak-deploy[convert]'"
    )


def test_opset_without_kernels(tmp_path: Path) -> None:
    """ONNX Runtime has no kernel for RandomUniformLike of opset 22; the next lower opset is taken, and said."""
    import onnx
    from onnx import TensorProto, helper

    from modak_deploy.onnx.frameworks.base import Exported, Original
    from modak_deploy.onnx.sessions import Session
    from modak_deploy.onnx.task import Data, Task
    from modak_deploy.onnx.worker import convert_for_runtime

    class Draws(Original):
        def run(self, inputs: Any) -> Any:
            return inputs

        def convert(self, path: Path, opset: int) -> Exported:
            value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
            node = helper.make_node("RandomUniformLike", ["x"], ["y"], "draw")
            imports = [helper.make_opsetid("", opset)]
            graph = helper.make_graph([node], "g", value[:1], value[1:])
            onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
            return Exported("stub")

    path = tmp_path / "model.onnx"
    task = Task("draws", "pytorch", Data(), Data(), str(tmp_path), opset=22)
    try:
        with pytest.raises(InputError, match=r"no implementation of RandomUniformLike\(22\)"):
            convert_for_runtime(Draws(), path, task, ["x"], ["y"])
    except pytest.fail.Exception:
        pytest.skip("this ONNX Runtime has the kernel")
    task.opset = None
    found = convert_for_runtime(Draws(), path, task, ["x"], ["y"])
    assert found.notes[-1] == "opset 21"
    assert "ONNX Runtime has no RandomUniformLike(22)" in found.notes[0]
    assert Session(path).inputs == ["x"]


def test_a_batch_of_one_is_compared_too(folder: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    with pytest.raises(ConvertError, match="with a batch of 1: output 'output': 3 of 3 values differ"):
        run(folder, "name: alone\nmodels:\n" + TINY.replace("nets:Tiny", "nets:Alone"), "alone")


def test_the_state_of_a_recurrent_network_is_an_output(folder: Path) -> None:
    """Its batch is the second axis, and the last batch of 20 samples is smaller than the first."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    text = "name: lstm\noptimise: {passes: [graph-basic], budget: 1, batches: [1]}\nmodels:\n"
    model = TINY.replace("nets:Tiny", "nets:Recurrent").replace("[2, 4]", "[2, 5, 4]")
    bundle, _ = run(folder, text + model, "lstm")
    (entry,) = bundle.manifest.models
    assert [output.passed for output in entry.validation.outputs] == [True] * 3
    (tried,) = entry.optimisations
    assert tried.validation is not None
    assert tried.validation.status == "passed"


def test_a_class_of_an_installed_package_is_converted_again_when_it_has_changed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from modak_deploy.onnx.convert import changed_source

    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    package = tmp_path / "minenets"
    package.mkdir()
    (package / "__init__.py").write_text("from minenets.parts import Tiny\n")
    (package / "parts.py").write_text(CODE)
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{before}")
    text = "name: mine\noptimise: {enabled: false}\nmodels:\n"
    text += TINY.replace("nets:Tiny", "minenets:Tiny").replace("    code: nets.py\n", "")
    run(folder, text, "mine")
    assert "tiny: converted before" in run(folder, text, "mine", replace=True)[1]
    (package / "parts.py").write_text(CODE.replace("gelu", "relu"))
    assert changed_source(folder / ".mine.convert" / "tiny") == str(package / "parts.py")
    assert "tiny: convert" in run(folder, text, "mine", replace=True)[1]


def test_a_missing_file_is_an_error_before_anything_is_made(folder: Path) -> None:
    with pytest.raises(InputError, match=r"iris: file: .*file or folder not found"):
        run(folder, "name: b\nmodels:\n" + IRIS.replace("iris.joblib", "missing.joblib"), "missing")
    assert sorted(path.name for path in folder.glob("*missing*")) == ["missing.yml"]


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    (folder / "folder.yml").write_text("name: b\nmodels:\n" + IRIS)
    request = load_request(folder / "folder.yml")
    with pytest.raises(InputError, match=r"folder\.yml/\.b\.convert: cannot be made: Not a directory"):
        convert(request, folder / "folder.yml" / "b", base=folder)


def test_two_conversions_to_one_place_are_made_one_after_the_other(folder: Path) -> None:
    text = "name: twice\noptimise: {enabled: false}\nmodels:\n" + IRIS
    state = folder / ".twice.convert"
    state.mkdir()
    with ThreadPoolExecutor() as pool:
        with locked(state):
            second = pool.submit(run, folder, text, "twice")
            with pytest.raises(TimeoutError):
                second.result(timeout=1)
            assert list(state.iterdir()) == []
        assert second.result()[0].manifest.name == "twice"
    with pytest.raises(InputError, match="twice: exists"):
        run(folder, text, "twice")


ARCHIVE = """
import torch
batch = torch.export.Dim("batch")
program = torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
torch.export.save(program, "linear.pt2")
"""


def test_an_archive_of_torch_export_is_converted(folder: Path) -> None:
    """Its program has no training mode that eval() could end, and raises NotImplementedError (torch 2.13)."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    # In a process of its own: Dynamo cannot be imported once Ansible has replaced sys.intern (ansible-core 2.19).
    subprocess.run([sys.executable, "-c", ARCHIVE], cwd=folder, check=True)
    example = "    example: {x: {shape: [2, 4]}}\n    test: {samples: 20}\n"
    model = f"  - name: linear\n    framework: pytorch\n    file: linear.pt2\n    trust: true\n{example}"
    bundle, _ = run(folder, "name: archive\noptimise: {enabled: false}\nmodels:\n" + model, "archive")
    assert bundle.manifest.models[0].validation.status == "passed"
