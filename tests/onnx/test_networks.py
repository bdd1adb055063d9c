"""The report's networks and others, converted and equal; what cannot be converted ends with its reason.

Each part needs the extra of its framework; ``make test-onnx`` says what was skipped.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from modak_deploy.onnx.bundle import Bundle
from modak_deploy.onnx.convert import ConvertError, convert
from modak_deploy.onnx.request import load_request
from modak_deploy.onnx.runner import Runner

WIDTH = 16384
"""Of the model of more than 2 GB."""
SUPPORT = Path(__file__).parents[1] / "support" / "onnx_networks.py"
IMAGES = {"image": {"shape": [1, 3, 224, 224]}}
TOKENS = {
    "input_ids": {"shape": [2, 32], "dtype": "int64", "high": 30000},
    "attention_mask": {"shape": [2, 32], "dtype": "int64", "low": 1},
}
CANDLE = {"expression": {"shape": [2, 942]}, "descriptors": {"shape": [2, 1200]}, "dose": {"shape": [2, 1]}}


def needs(*modules: str) -> None:
    """Skip the test where a package is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            extras = "convert,convert-tensorflow,convert-jax"
            pytest.skip(f"{module} is not installed: pip install 'modak-deploy[{extras}]'")


def network(name: str, kind: str, example: Any, **more: Any) -> dict[str, Any]:
    """Return a model of tests/support/onnx_networks.py."""
    return {
        "name": name,
        "framework": "pytorch",
        "class": f"onnx_networks:{kind}",
        "code": str(SUPPORT),
        "example": example,
        "test": {"samples": 4},
        **more,
    }


def run(folder: Path, models: list[dict[str, Any]], **more: Any) -> Bundle:
    """Convert the models."""
    document = {"name": "bundle", "optimise": {"enabled": False}, "models": models, **more}
    (folder / "hit.yml").write_text(yaml.safe_dump(document))
    return convert(load_request(folder / "hit.yml"), folder / "bundle", base=folder)


def refused(folder: Path, model: dict[str, Any], **more: Any) -> str:
    """Return why the model is not converted."""
    with pytest.raises(ConvertError) as caught:
        run(folder, [model], **more)
    assert not (folder / "bundle").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "example"),
    [("AlexNet", IMAGES), ("SqueezeNet", IMAGES), ("ResNet50", IMAGES), ("bert", TOKENS)],
)
def test_networks_of_the_report(tmp_path: Path, kind: str, example: Any) -> None:
    needs("torch", "onnxscript", *(["transformers"] if kind == "bert" else []))
    axes = {name: {"1": "sequence"} for name in TOKENS} if kind == "bert" else {}
    bundle = run(tmp_path, [network(kind.lower(), kind, example, axes=axes)])
    (model,) = bundle.manifest.models
    assert model.origin.exporter == "torch.onnx dynamo"
    assert model.validation.status == "passed"
    assert model.graph.inputs[0].batch


def test_candle_ensemble_of_five(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    models = [network(f"uno{n}", "DrugResponse", CANDLE, arguments={"seed": n}) for n in range(5)]
    bundle = run(tmp_path, models, combine={"rule": "mean"})
    assert bundle.manifest.ensemble_validation is not None
    assert bundle.manifest.ensemble_validation.status == "passed"
    found = Runner(bundle).run({name: np.ones((3, *shape["shape"][1:]), "float32") for name, shape in CANDLE.items()})
    assert next(iter(found.values())).shape == (3, 1)


def test_model_of_more_than_2_gb(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    if not os.environ.get("MODAK_ONNX_LARGE"):
        pytest.skip("set MODAK_ONNX_LARGE=1: it takes 10 GB of disk and of memory, and some minutes")
    model = network("wide", "Wide", {"x": {"shape": [2, WIDTH]}})
    try:
        bundle = run(tmp_path, [model])
        shutil.rmtree(tmp_path / ".bundle.convert", ignore_errors=True)
        (entry,) = bundle.manifest.models
        assert entry.validation.status == "passed"
        assert [file.path for file in entry.graph.data] == ["models/wide/model.onnx.data"]
        data = bundle.folder / entry.graph.data[0].path
        assert entry.graph.data[0].size == data.stat().st_size > 2**31
        assert (bundle.folder / "models/wide/model.onnx").stat().st_size < 2**20
        assert infers_rows_of_the_weights(bundle, data)
        with data.open("r+b") as file:  # one bit of 2.3 GB, beyond what 32 bits can address
            file.seek(2**31 + 12345)
            byte = file.read(1)[0]
            file.seek(2**31 + 12345)
            file.write(bytes([byte ^ 1]))
        done = command("infer", str(bundle.folder), "--input", str(tmp_path / "x.npz"))
        assert done.returncode == 2 and "model.onnx.data: the SHA-256 is" in done.stderr, done.stderr
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


def infers_rows_of_the_weights(bundle: Bundle, data: Path) -> bool:
    """Return whether ``modak infer`` gives, for samples with a single one, columns of the weights as they lie there."""
    columns = [0, 1, WIDTH - 1]
    files = [data.parents[3] / name for name in ("x.npz", "y.npz")]
    x = np.zeros((3, WIDTH), np.float32)
    x[range(3), columns] = 1
    np.savez(files[0], x=x)
    done = command("infer", str(bundle.folder), "-i", str(files[0]), "-o", str(files[1]))
    assert done.returncode == 0, done.stderr
    (given,) = np.load(files[1]).values()
    sys.path.insert(0, str(SUPPORT.parent))
    expected = importlib.import_module("onnx_networks").Wide().table.detach().numpy()[:, columns].T
    return bool(np.allclose(given, expected, atol=1e-6))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run modak in a process of its own."""
    words = [sys.executable, "-m", "modak_deploy", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT.parents[2]), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=900)


def test_stochastic_model(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    model = network("mc", "Dropped", {"x": {"shape": [2, 4]}}, stochastic=True)
    (entry,) = run(tmp_path, [model]).manifest.models
    assert entry.validation.method == "distribution"
    assert entry.validation.test is not None
    assert entry.validation.test.startswith("two-sample Kolmogorov-Smirnov")
    assert all(output.power is not None and output.power > 0.5 for output in entry.validation.outputs)


def test_stochastic_model_that_is_not_marked(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    message = refused(tmp_path, network("mc", "Dropped", {"x": {"shape": [2, 4]}}))
    assert "the converted model is not equal" in message


def test_stochastic_model_that_is_skipped(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    model = network("mc", "Dropped", {"x": {"shape": [2, 4]}}, skip_validation="draws its own numbers")
    (entry,) = run(tmp_path, [model]).manifest.models
    assert (entry.validation.status, entry.validation.reason) == ("skipped", "draws its own numbers")


def test_frozen_branch_is_reported(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    example = {"x": {"shape": [2, 4]}}
    assert "onnx_networks.py:" in refused(tmp_path, network("branch", "Branching", example))
    model = network("branch", "Branching", example, frozen_branches="accept", skip_validation="one branch alone")
    (entry,) = run(tmp_path, [model]).manifest.models
    assert entry.origin.exporter == "torch.onnx trace"
    assert any("frozen branch: onnx_networks.py:" in warning for warning in entry.validation.warnings)


def test_frozen_branch_is_caught_by_the_data(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    np.save(tmp_path / "example.npy", np.ones((2, 4), "float32"))
    np.save(tmp_path / "test.npy", -np.ones((4, 4), "float32"))
    model = network("branch", "Branching", "example.npy", frozen_branches="accept", test="test.npy")
    message = refused(tmp_path, model)
    assert "the first operator that deviates is Gemm" in message or "differ" in message


def test_custom_operator(tmp_path: Path) -> None:
    needs("torch", "onnxscript")
    message = refused(tmp_path, network("custom", "Custom", {"x": {"shape": [2, 4]}}))
    assert "modaktest" in message
    assert "has no counterpart in ONNX" in message
