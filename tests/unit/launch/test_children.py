"""Processes that a program forks end as they would without what the launcher has loaded."""

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or importlib.util.find_spec("onnxruntime") is None,
    reason="there is no fork, or ONNX Runtime is not installed",
)
PROGRAM = """
import atexit, ctypes, gc, os, sys
import numpy, torch
from modak_deploy.launch.frameworks.pytorch import onnxruntime
from modak_deploy.launch import children

assert "onnxruntime" not in sys.modules
runtime = onnxruntime._runtime()
options = runtime.SessionOptions()
options.intra_op_num_threads = 4
session = runtime.InferenceSession(sys.argv[1], options)
children.never_free(session)
value = {session.get_inputs()[0].name: numpy.ones((64, 64), "float32")}
for _ in range(10):
    session.run(None, value)
child = os.fork()
if not child:
    atexit.register(print, "the program's own end", flush=True)
    ctypes.CDLL(None).printf(b"buffered by C; ")
    if sys.argv[2] == "freed":
        del session
        gc.collect()
    sys.exit(3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    shape = [64, 64]
    given, made = (helper.make_tensor_value_info(name, kind, shape) for name in ("given", "made"))
    graph = helper.make_graph([helper.make_node("MatMul", ["given", "given"], ["made"])], "graph", [given], [made])
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("how", ["freed", "kept"])
def test_a_forked_process_ends_with_its_own_code(model, how):
    """Without it, the child waits for ever."""
    command = [sys.executable, "-c", PROGRAM, str(model), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("3\n")
    assert all(text in done.stdout for text in ("buffered by C; ", "the program's own end\n"))
