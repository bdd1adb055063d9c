"""Programs of Keras on TensorFlow under the launcher, in processes of their own."""

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launch_parts import launch

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
AT_ONCE = """
sys.modules['modak_launch.frameworks.keras.functions'].EARNED = 0.0
sys.modules['modak_launch.frameworks.keras'].FUNCTIONS = 100
"""
"""What has a model converted at its second batch, however little it has worked and however many there were before."""
BEGIN = """
import json, sys, threading, time
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).standard_normal((320, 16)).astype("float32")
y = x[:, :2] * 0.5
def dense(**kwargs):
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
    model.compile(optimizer="adam", loss="mse", **kwargs)
    return model
def weights(model):
    return [float(np.abs(weight).sum()) for weight in model.get_weights()] + [int(model.optimizer.iterations)]
"""


def runner(tmp_path: Path) -> Callable[..., SimpleNamespace]:
    """Return the function that runs a program under the launcher: its last line of output, and the record."""
    for module in ("keras", "tensorflow"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")

    def run(text: str, levers: Sequence[str] = (), **trials: Any) -> SimpleNamespace:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "program.py").write_text(BEGIN + text)
        config = {"levers": list(levers), "trials": {"mode": "live", "share": 1.0, **trials}}
        environment = {**ENVIRONMENT, "KERAS_HOME": str(folder)}
        done = launch(folder / "program.py", folder, config, environment=environment)
        assert done.returncode == 0, done.stderr
        value = json.loads(done.stdout.splitlines()[-1])
        return SimpleNamespace(value=value, entries=done.entries, stderr=done.stderr)

    return run


TOGETHER = """
import contextlib, io, os

printed = {}
for number, (name, text) in enumerate(TEXTS.items()):
    path = os.path.abspath("part-{}.py".format(number))  # a file, from which TensorFlow reads a function's source
    with open(path, "w") as file:
        file.write(FIRST + text)
    session = sys.modules.get("modak_launch.session")
    if session is not None:
        session.current().record.add("program", name=name)
    keras.backend.clear_session()
    output, space = io.StringIO(), {"__name__": "__main__"}
    with contextlib.redirect_stdout(output):
        exec(compile(FIRST + text, path, "exec"), space)
    printed[name] = json.loads(output.getvalue().splitlines()[-1])
print(json.dumps(printed))
"""


def together(
    run: Callable[..., SimpleNamespace], texts: Mapping[str, str], before: str = "", **given: Any
) -> dict[str, SimpleNamespace]:
    """Run programs after each other in one process, which imports TensorFlow once; return each one's as ``runner``.

    ``before`` is what the process does at first.
    """
    done = run(f"{before}\nFIRST, TEXTS = {BEGIN!r}, {dict(texts)!r}\n{TOGETHER}", **given)
    entries: dict[str, list[dict[str, Any]]] = {name: [] for name in texts}
    current: list[dict[str, Any]] = []
    assert not of(done, "left_out"), "more happened than a record holds"
    for entry in done.entries:
        if entry["event"] == "program":
            current = entries[entry["name"]]
        current.append(entry)
    return {name: SimpleNamespace(value=done.value[name], entries=entries[name]) for name in texts}


def of(done: SimpleNamespace, event: str) -> list[dict[str, Any]]:
    """Return the entries of an event."""
    return [entry for entry in done.entries if entry["event"] == event]
