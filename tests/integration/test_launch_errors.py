"""What a program does, raises and gives to its libraries is its own, whatever lever is on."""

import importlib.util
from pathlib import Path

import pytest

from launch_parts import launch

READS = """
import tensorflow as tf
total, seen, errors = tf.Variable(0.0), [], 0
def read():
    seen.append(1)
    if len(seen) == 21:
        raise OSError("disk")
    return 1.0
@tf.function
def step():
    total.assign_add(tf.ensure_shape(tf.py_function(read, [], tf.float32), ()))
    return total.read_value()
for _ in range(40):
    try:
        step()
    except Exception:
        errors += 1
print(errors, len(seen), float(total))
"""
LAYERS = """
import keras, tensorflow as tf
class Counting(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(64)
        self.calls = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False)
    def call(self, x):
        self.calls.assign_add(1)
        return self.dense(x)
plain, counting, x = keras.layers.Dense(64), Counting(), tf.ones((64, 64))
plain(x), counting(x)
@tf.function
def act(layer, x):
    return layer(x)
for _ in range(5):
    act(plain, x)
for _ in range(300):
    act(counting, x)
print(int(counting.calls.value))
"""
MODEL = """
import os, time
import numpy as np, onnx, onnxruntime as ort
from onnx import helper as h, numpy_helper as nh, TensorProto as T
def content(nodes, given, made, *tables):
    graph = h.make_graph(nodes, "g", [given], [made], [nh.from_array(table, name) for name, table in tables])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9).SerializeToString()
options = ort.SessionOptions()
"""
INITIALIZER = f"""{MODEL}
table, w = np.ones((20, 256), "float32"), np.ones((256, 256), "float32")
model = content([h.make_node("Gather", ["table", "ids"], ["r"]), h.make_node("MatMul", ["r", "w"], ["y"])],
    h.make_tensor_value_info("ids", T.INT64, [None]), h.make_tensor_value_info("y", T.FLOAT, None),
    ("table", table), ("w", w))
tuned = table.copy()
tuned[10:] = 2
value = ort.OrtValue.ortvalue_from_numpy(tuned)
options.add_initializer("table", value)
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
for _ in range(5):
    session.run(None, {{"ids": np.arange(8)}})
print(session.run(None, {{"ids": np.arange(10, 18)}})[0][0, 0])
"""
FORKED = f"""{MODEL}
info = lambda name: h.make_tensor_value_info(name, T.FLOAT, [64, 64])
model = content([h.make_node("MatMul", ["x", "x"], ["y"])], info("x"), info("y"))
options.intra_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
for _ in range(50):
    session.run(None, {{"x": np.ones((64, 64), "float32")}})
time.sleep(1)  # idle threads have stopped spinning
child = os.fork()
if not child:
    del session
    os._exit(0)
for _ in range(100):
    if os.waitpid(child, os.WNOHANG)[0]:
        print("ended")
        break
    time.sleep(0.2)
else:
    os.kill(child, 9)
    print("hangs")
"""
CASES = {
    "an error of a step": (READS, "tensorflow", "tensorflow-keep-memory", "1 40 39.0"),
    "layers that look alike": (LAYERS, "keras", "tensorflow-bf16", "301"),
    "an initializer of the session": (INITIALIZER, "onnxruntime", "onnxruntime-one-thread", "512.0"),
    "a forked process": (FORKED, "onnxruntime", "onnxruntime-threads-cores", "ended"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_program_goes_on_as_it_would_alone(case: str, tmp_path: Path) -> None:
    text, module, lever, expected = CASES[case]
    for name in (module, *(["onnx"] if module == "onnxruntime" else ["tensorflow"])):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    (tmp_path / "program.py").write_text(text)
    done = launch(tmp_path / "program.py", tmp_path, {"levers": [lever], "trials": {"mode": "none"}})
    assert done.stdout.splitlines()[-1:] == [expected], done.stderr
