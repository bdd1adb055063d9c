"""Signals reach the program's handlers after models of OpenVINO have come and gone."""

import ctypes.util
import os
import subprocess
import sys

import pytest

from modak_deploy.launch.frameworks import openvino_cpu

pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
PROGRAM = """
import gc, signal
import numpy
from modak_deploy.launch.frameworks import openvino_cpu
openvino = openvino_cpu.module()
from openvino import opset13


def made():
    given = opset13.parameter([2, 4], numpy.float32)
    return openvino_cpu.compiled_model(openvino.Model([opset13.abs(given)], [given]), "f32", 1)


came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
first, second = made(), made()
content = openvino_cpu.written(first)
third = openvino_cpu.read(content, "f32", 1)
for gone in ("first", "second", "third"):
    del globals()[gone]
    gc.collect()
    taken = [bytearray(1 << 14) for _ in range(1000)]
    signal.raise_signal(signal.SIGUSR1)
print(len(came))
"""


def test_a_signal_comes_after_models_have_gone():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


ALLOCATORS = [name for name in ("jemalloc", "tcmalloc_minimal", "mimalloc") if ctypes.util.find_library(name)]
COMPILED = """
import os
import numpy
from modak_deploy.launch import memory
from modak_deploy.launch.frameworks import openvino_cpu
openvino = openvino_cpu.module()
from openvino import opset13

given = opset13.parameter([2, 4], numpy.float32)
model = openvino_cpu.compiled_model(openvino.Model([opset13.abs(given)], [given]), "f32", 2)
print(memory.replacement(), model([-numpy.ones((2, 4), "float32")])[0].sum(), openvino_cpu.DEEP in os.environ)
"""


@pytest.mark.skipif(not ALLOCATORS, reason="no other malloc is installed")
@pytest.mark.parametrize("name", ALLOCATORS)
def test_models_are_compiled_beside_a_malloc_that_is_preloaded(name):
    """OpenVINO alone ends with SIGABRT then."""
    library = ctypes.util.find_library(name)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.split()[1:]) == (0, ["8.0", "False"]), done.stderr
    assert done.stdout.startswith(f"lib{name}")


def test_a_process_has_one_core_and_a_forked_one_its_own(monkeypatch):
    core = openvino_cpu.core()
    assert openvino_cpu.core() is core
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        assert openvino_cpu.core() is not core
    assert openvino_cpu.core() is core
    openvino_cpu._cores.pop(-1)
