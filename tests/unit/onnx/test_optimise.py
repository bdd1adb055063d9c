"""Passes are kept only where their result is right and faster."""

import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from modak_deploy.onnx import optimise, optimising, timing
from modak_deploy.onnx.compare import compare
from modak_deploy.onnx.optimise import OptimiseTask, Search, accuracy_loss
from modak_deploy.onnx.passes import PASSES
from modak_deploy.onnx.sessions import Session
from modak_deploy.onnx.timing import Times, faster, interleaved


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A converted model: x @ w, scaled."""
    generator = np.random.default_rng(0)
    constants = {"w": generator.standard_normal((16, 4)).astype("float32"), "two": np.full(1, 2, "float32")}
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "w"], ["d"], "dense"),
                helper.make_node("Mul", ["d", "two"], ["y"], "scale"),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "model.onnx")
    x = generator.standard_normal((20, 16)).astype("float32")
    np.savez(tmp_path / "samples.npz", x=x)
    np.savez(tmp_path / "expected.npz", **Session(tmp_path / "model.onnx").run({"x": x}))
    return tmp_path


def search(folder: Path, *passes: str, **options: Any) -> Search:
    """Return the search for these passes."""
    settings = {"batches": [1], "budget": 20.0, "accuracy_loss": 0.1, "minimal_gain": 0.02, "longest": 2}
    return Search(OptimiseTask(folder=str(folder), passes=list(passes), engines=[], **{**settings, **options}))


def test_a_wrong_pass_is_not_kept_and_its_operator_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(source: Path, result: Path, _samples: Any) -> None:
        model = onnx.load(source)
        model.graph.node[1].op_type = "Sub"
        onnx.save(model, result)

    monkeypatch.setitem(PASSES, "simplify", wrong)
    found = search(folder, "simplify")
    assert found.run() is found.base
    (tried,) = found.tried
    assert tried.validation["status"] == "failed"
    assert tried.validation["first_deviation"] == "Sub 'scale', converted from Mul 'y'"


def test_a_faster_result_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def same(source: Path, result: Path, _samples: Any) -> None:
        model = onnx.load(source)
        model.doc_string = "faster"
        onnx.save(model, result)

    class Slow(Session):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.slow = not onnx.load(path).doc_string

        def run(self, inputs: Any) -> Any:
            time.sleep(0.01 if self.slow else 0)
            return super().run(inputs)

    monkeypatch.setitem(PASSES, "simplify", same)
    monkeypatch.setattr(optimise, "Session", Slow)
    best = search(folder, "simplify").run()
    assert best.passes == ("simplify",)
    assert best.gain > 0.5


def test_sequences_are_searched_and_nothing_follows_a_graph_level(folder: Path) -> None:
    pytest.importorskip("onnxruntime.quantization")
    found = search(folder, "graph-basic", "quantise-dynamic", minimal_gain=1.0)
    assert found.run() is found.base
    tried = {candidate.passes for candidate in found.tried}
    assert ("quantise-dynamic", "graph-basic") in tried
    assert ("graph-basic", "quantise-dynamic") not in tried


def test_a_pass_that_changes_nothing_is_said_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PASSES, "simplify", lambda source, result, _: result.write_bytes(source.read_bytes()))
    found = search(folder, "simplify")
    found.run()
    assert found.tried[0].reason == "gives the same file as no pass"


CRASH = """
import os, signal, sys
from modak_deploy.onnx import optimise
real = optimise.get
class Crash:
    def load(self, *_, **__):
        os.kill(os.getpid(), signal.SIGSEGV)
optimise.get = lambda name: Crash() if name == "crash" else real(name)
optimise.main(sys.argv[1:])
"""


def test_an_engine_that_crashes_takes_no_result_along(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_module(_module: str, folder: Path, **_: Any) -> str | None:
        files = [str(folder / name) for name in ("task.json", "outcome.json")]
        ended = subprocess.run([sys.executable, "-c", CRASH, *files], check=False, cwd=Path.cwd())
        return f"was ended by {signal.Signals(-ended.returncode).name}" if ended.returncode else None

    monkeypatch.setattr(optimising, "run_module", run_module)
    monkeypatch.setattr(optimising, "running_onnx", lambda: ["onnxruntime", "crash"])
    (folder / "key").write_text("of the conversion")
    asked = SimpleNamespace(
        passes=["graph-basic", "crash"],
        batches=[1],
        budget=5.0,
        accuracy_loss=0.1,
        minimal_gain=0.02,
        longest=1,
        tuning_trials=0,
    )
    request: Any = SimpleNamespace(optimise=asked, numerics="exact")
    model: Any = SimpleNamespace(
        folder=folder,
        request=SimpleNamespace(name="net", batch=True, tolerance={}),
        samples=lambda: {"x": [0]},
    )
    lines: list[str] = []
    optimising.optimise_model(request, model, lines.append)
    assert [entry["passes"] for entry in model.optimisations] == [["graph-basic"], ["crash"]]
    assert model.optimisations[1]["reason"] == "the process was ended by SIGSEGV"
    assert lines[0] == "net: crash: the process was ended by SIGSEGV"
    assert model.file.is_file()
    assert not (folder / "optimise" / "key").exists()  # tried again the next time


def test_accuracy_loss() -> None:
    scores = np.array([[0.1, 0.9], [0.6, 0.4]], "float32")
    found = {"y": np.array([[0.1, 0.9], [0.4, 0.6]], "float32")}
    assert accuracy_loss(compare({"y": scores}, found)[0], {"y": scores}, found)[0] == 0.5
    one = {"y": np.array([1.0, 3.0], "float32")}
    loss, what = accuracy_loss(compare(one, {"y": one["y"] + 0.1})[0], one, {"y": one["y"] + 0.1})
    assert loss == pytest.approx(0.1, rel=1e-3)
    assert what == "an error over the spread of values"


def test_faster_needs_more_than_chance() -> None:
    slow = Times(tuple([1.0, 1.1, 0.9] * 5))
    assert faster(Times(tuple(s / 2 for s in slow.seconds)), slow, 0.02)
    assert not faster(slow, slow, 0.0)
    assert not faster(Times(tuple([0.5, 1.5, 1.4] * 5)), Times((1.0,) * 15), 0.02)


def test_all_calls_are_timed_in_every_round() -> None:
    calls: list[str] = []

    def short(name: str) -> None:
        calls.append(name)
        time.sleep(0.02)

    found = interleaved({name: partial(short, name) for name in "ab"}, budget=0, rounds=9)
    assert {len(times.seconds) for times in found.values()} == {5}
    turns = ["".join(group) for _, group in groupby(calls[2:])]
    assert "".join(turn[0] for turn in turns) == "ababab" and all(len(turn) >= 3 for turn in turns)


@pytest.mark.parametrize("count", range(1, 8))
def test_each_engine_comes_after_each_other_one_equally_often(count: int) -> None:
    orders = timing._orders(count)
    assert all(sorted(order) == list(range(count)) for order in orders)
    pairs = Counter(pair for order in orders for pair in pairwise(order))
    assert len(pairs) == count * (count - 1) and len(set(pairs.values())) <= 1


def test_a_long_call_is_made_once_in_a_round() -> None:
    calls: list[str] = []

    def long() -> None:
        calls.append("long")
        time.sleep(0.21)

    interleaved({"long": long}, budget=0, rounds=2, least=2)
    assert len(calls) == 3


def test_nan_is_no_class() -> None:
    scores = {"y": np.array([[0.9, 0.1], [0.6, 0.4]], "float32")}
    wrong = {"y": np.full((2, 2), np.nan, "float32")}
    loss, what = accuracy_loss(compare(scores, wrong)[0], scores, wrong)
    assert (loss, what) == (float("inf"), "NaN where the original has numbers")
    assert accuracy_loss(compare(wrong, wrong)[0], wrong, wrong)[0] == 0


def test_outputs_of_other_lengths_than_the_samples_are_compared(folder: Path) -> None:
    """A recurrent network's state has its layers first, and a fixed batch takes no part of it."""
    model = onnx.load(folder / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 20
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 20
    model.graph.node.append(helper.make_node("Unsqueeze", ["d", "first"], ["state"], "state"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "first"))
    model.graph.output.append(helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, 20, 4]))
    onnx.save(model, folder / "model.onnx")
    with np.load(folder / "samples.npz") as samples:
        np.savez(folder / "expected.npz", **Session(folder / "model.onnx").run(dict(samples)))
    found = search(folder, "graph-basic", batches=[20])
    found.run()
    (tried,) = found.tried
    assert tried.validation["status"] == "passed"
    assert tried.times is not None
