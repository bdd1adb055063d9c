"""Engines by name: the built-in ones, one of another distribution, and what is said of a faulty one."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plugins
from modak_deploy.engines import registry
from modak_deploy.errors import InputError
from modak_deploy.extensions import ENGINES
from modak_deploy.launch import frameworks
from modak_deploy.launch.frameworks import pytorch
from modak_deploy.launch.lever import levers
from modak_deploy.onnx.request import ConversionRequest

GRAPH = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) {y = Neg(x)}'
ROOT = Path(__file__).parents[3]


def forget() -> None:
    for function in (registry.get, registry.of_framework, registry.package_of):
        function.cache_clear()


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution modak-refengine, installed."""
    forget()
    plugins.install(plugins.DATA / "refengine", tmp_path / "site-packages", monkeypatch)
    yield
    sys.modules.pop("modak_refengine", None)
    forget()


def conversion(**changes: Any) -> ConversionRequest:
    model = {"name": "net", "framework": "pytorch", "file": "net.pt2", "example": "x.npy", "test": "t.npy"}
    return ConversionRequest.model_validate({"name": "one", "models": [{**model, **changes}]})


def test_the_builtin_ones_are_registered_as_in_the_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][ENGINES.group] == ENGINES.builtin
    for name in ENGINES.builtin:
        assert registry.get(name).name == name


def test_the_launcher_has_an_adapter_and_levers_for_the_modules_that_engines_name() -> None:
    named = {name: registry.get(name).launcher_module for name in ENGINES.builtin}
    assert {name: module for name, module in named.items() if module is not None} == frameworks.MODULES
    assert tuple(name for name in ENGINES.builtin if registry.get(name).keeps_compiled) == frameworks.KEEPERS
    for name in set(frameworks.MODULES) - {"tensorflow"}:  # whose calls are counted, and nothing is tried
        assert levers(name)
    for name in ENGINES.builtin:
        if registry.get(name).counts_units or registry.get(name).tries_live:
            assert registry.get(name).launcher_module is not None


def test_the_launcher_counts_in_the_versions_that_the_engine_names() -> None:
    assert registry.get("pytorch").counted_versions == pytorch.TRIALS


def test_planning_loads_no_engine_and_no_numpy() -> None:
    names = ", ".join(map(repr, ENGINES.builtin))
    code = (
        "import sys; from modak_deploy.engines import registry\n"
        f"for name in ({names}): registry.get(name)\n"
        "print(sorted({'numpy', 'onnx', 'onnxruntime', 'torch', 'openvino', 'tvm'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert printed == "[]\n"


@pytest.mark.parametrize(
    ("name", "package"), [("PyTorch", "torch"), ("keras", "keras"), ("sklearn", "scikit-learn"), ("Chainer", "chainer")]
)
def test_the_package_of_a_framework(name: str, package: str) -> None:
    assert registry.package_of(name) == package


def test_one_of_another_distribution_runs_a_model(reference: None, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="modak's extra 'onnx' is not installed")
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) {y = Neg(x)}'
    )
    onnx.save(graph, tmp_path / "model.onnx")
    x = np.array([1, -2], "float32")
    run = registry.get("refengine").load(tmp_path / "model.onnx", {"x": x}, trials=0)
    np.testing.assert_array_equal(run({"x": x})["y"], -x)
    assert registry.running_onnx() == ["onnxruntime", "openvino", "tvm", "refengine"]
    assert registry.is_installed(registry.get("refengine"))
    request = ConversionRequest.model_validate(
        {**conversion().model_dump(by_alias=True), "optimise": {"passes": ["refengine"]}}
    )
    assert request.optimise.passes == ["refengine"]


def test_without_its_distribution_the_name_is_unknown() -> None:
    with pytest.raises(ValueError, match="'bfloat16', 'openvino' or 'tvm'"):
        ConversionRequest.model_validate(
            {**conversion().model_dump(by_alias=True), "optimise": {"passes": ["refengine"]}}
        )


@pytest.mark.parametrize("framework", ["onnxruntime", "mxnet", "keras3", ""])
def test_a_framework_without_a_converter_is_refused(framework: str) -> None:
    with pytest.raises(ValueError, match=r"Input should be 'pytorch', 'tensorflow', .*'xgboost' or 'lightgbm'"):
        conversion(framework=framework)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("class Faulty: name = 'faulty'", "not a subclass of modak_deploy.engines.base.Engine"),
        ("from modak_deploy.engines.base import Engine\nclass Faulty(Engine): name = 'other'", "its name is 'other'"),
        ("from modak_deploy.engines.base import Engine\n"
         "class Faulty(Engine):\n name = 'faulty'\n def __init__(self, x): pass",
         "TypeError: "),
    ],
)  # fmt: skip
def test_a_faulty_distribution_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    (tmp_path / "faulty_engine.py").write_text(body)
    plugins.register(tmp_path, "modak-faulty", {"modak.engines": {"faulty": "faulty_engine:Faulty"}})
    plugins.forget(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty_engine", raising=False)
    forget()
    with pytest.raises(InputError) as raised:
        registry.get("faulty")
    sys.modules.pop("faulty_engine", None)
    forget()
    start = "the distribution modak-faulty cannot provide the engine 'faulty': faulty_engine:Faulty: "
    assert str(raised.value).startswith(start + message)
    assert str(raised.value).endswith("; update or uninstall it")
