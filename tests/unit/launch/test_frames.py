"""Tracebacks of a program's errors show the program's calls as they do without the launcher."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launch_parts import OWN_EXCEPTION, launch
from modak_deploy.launch import frames, handlers
from modak_deploy.launch.trials import shielded

ONNXRUNTIME = """
import numpy, onnxruntime
from onnx import TensorProto, helper
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
for name in "x" * 20 + "z":
    session.run(None, {name: numpy.ones(3, "f4")})
"""
NO_MODEL = "import onnxruntime; onnxruntime.InferenceSession('none.onnx')"
JAX = """
import jax
@jax.jit
def call(x):
    if x.shape[0] == 3:
        raise KeyError("the program's own")
    return x
for rows in [2] * 20 + [3]:
    call(jax.numpy.ones(rows))
"""
SKLEARN = """
import numpy
from sklearn.linear_model import LinearRegression
LinearRegression().fit(numpy.ones((2, 2)), numpy.ones(3))
"""
TENSORFLOW = """
import tensorflow as tf
@tf.function
def call(x):
    if x.shape[0] == 3:
        raise KeyError("the program's own")
    return x * 2
for rows in [2] * 20 + [3]:
    call(tf.ones(rows))
"""
DETECTED = """
import tensorflow as tf
@tf.function
def call(x):
    return tf.debugging.check_numerics(x, "no number")
for value in [1.0] * 20 + [float("nan")]:
    call(tf.constant([value]))
"""
KERAS = """
import keras, numpy
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
for columns in [2] * 5 + [3]:
    model.predict_on_batch(numpy.ones((4, columns)))
"""
CALLBACK = """
import keras, numpy
class Own(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 9:
            raise KeyError("the program's own")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(numpy.ones((40, 2)), numpy.ones((40, 1)), batch_size=4, verbose=0, callbacks=[Own()])
"""
PROGRAMS = {
    "torch": OWN_EXCEPTION,
    "onnxruntime": ONNXRUNTIME,
    "onnxruntime-made": NO_MODEL,
    "jax": JAX,
    "sklearn": SKLEARN,
    "tensorflow": TENSORFLOW,
    "tensorflow-detected": DETECTED,
    "keras": KERAS,
    "keras-callback": CALLBACK,
}
SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="one frame stays before")
@pytest.mark.parametrize("mode", ["none", "live"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_an_error_has_the_frames_that_it_has_alone(tmp_path, name, mode):
    pytest.importorskip(name.partition("-")[0])
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[name])
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("MODAK", "PYTHON"))}
    alone = subprocess.run([sys.executable, str(program)], env={**plain, **SETTINGS}, cwd=tmp_path,
                           capture_output=True, text=True)  # fmt: skip
    done = launch(program, tmp_path, {"trials": {"mode": mode, "share": 1.0}}, environment=SETTINGS)
    assert done.returncode == alone.returncode == 1
    assert _functions(done.stderr) == _functions(alone.stderr)


def _functions(text):
    """Return the files and functions of a traceback; lines of a function may be other ones, and so are generated names.

    What TensorFlow says of a graph has a stack too, that of the call by which the graph was made.
    """
    lines = text[text.index("Traceback") :].splitlines()
    found = [line.split(", ") for line in lines if line.lstrip().startswith("File ")]
    return [(re.sub("generated_file[^.]*", "", line[0]), line[-1]) for line in found]


def _handled(number, frame):
    raise TimeoutError("a limit of the program's")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_what_a_handler_has_raised_is_known_further_on(monkeypatch):
    def attempt(own, args, kwargs):
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, _handled)
    try:
        with pytest.raises(TimeoutError) as caught:
            shielded(attempt, attempt, (), {}, lambda reason: None)
    finally:
        signal.signal(signal.SIGUSR1, before)
    frames.take_out(caught.value)
    assert handlers.raised(caught.value) is caught.value


@dataclasses.dataclass(frozen=True)
class Refused(Exception):
    """An error whose class refuses that attributes are set, ``__traceback__`` among them."""

    code: int


def test_an_error_that_cannot_be_changed_is_the_programs():
    @frames.cleaned
    def call():
        raise Refused(3)

    with pytest.raises(Refused) as caught:
        call()
    assert [entry.name for entry in caught.traceback][-1] == "call"
    assert not any(str(entry.path).startswith(frames._OWN) for entry in caught.traceback[2:])


def test_a_function_that_warnings_leave_out_is_one_of_a_file():
    """Where the last part of the name is another one, the report of ``coverage`` ends with "No source for code"."""

    def function():
        return sys._getframe().f_code.co_filename

    name = frames.unseen(function)()
    assert Path(name).name == Path(__file__).name
    assert "importlib" in name and "_bootstrap" in name
