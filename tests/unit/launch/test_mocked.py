"""What a program, or a test that it runs, puts in the place of Python's own functions reaches the launcher nowhere."""

import ast
import builtins
import io
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest

from launch_parts import launch
from modak_deploy.launch import clock, handlers, hardware
from modak_deploy.launch.config import Config
from modak_deploy.launch.record import Record
from modak_deploy.launch.session import Session

PROGRAM = """
import time
from unittest import mock
import numpy, onnxruntime
from onnx import TensorProto, helper, numpy_helper
weights = numpy_helper.from_array(numpy.ones((16, 16), "f4"), "w")
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 16]) for name in "xy"]
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weights])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
x = numpy.ones((4, 16), "f4")


def run(times=40):
    for _ in range(times):
        result = session.run(None, {"x": x})[0]
    return float(result.sum())


def timed(clock):
    start = clock()
    run(1)
    return clock() - start


def fails():
    raise OSError("no clock")


CLOCKS = ("time.perf_counter", "time.monotonic", "time.time")
for options in ({"return_value": 7.0}, {"side_effect": fails}, {}, {"side_effect": iter(range(0, -999, -1))}):
    for name in CLOCKS:
        with mock.patch(name, **options):
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            assert run() == 1024
with mock.patch("time.perf_counter", side_effect=[1.0, 3.5]):
    print(timed(lambda: time.perf_counter()))
with mock.patch("builtins.open", mock.mock_open(read_data="1")) as opened:
    assert run() == 1024
    open("file")
    print(opened.call_count)
others = ("json.dumps", "os.getpid", "os.makedirs", "os.path.exists", "os.replace", "signal.getitimer",
          "signal.getsignal", "subprocess.Popen", "tempfile.mkstemp", "threading.Lock", "threading.Thread")
for name in others:
    for options in ({}, {"side_effect": OSError}):
        with mock.patch(name, **options) as other:
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            assert run() == 1024
with mock.patch.dict("os.environ", clear=True):
    assert run() == 1024
print("done")
"""


@pytest.mark.parametrize("mode", ["none", "live", "survey"])
def test_a_program_with_other_clocks_and_functions_runs_as_it_does_alone(tmp_path, mode):
    for name in ("numpy", "onnx", "onnxruntime"):
        pytest.importorskip(name)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = launch(tmp_path / "program.py", tmp_path, {"interval": 0.001, "trials": {"mode": mode, "share": 1.0}})
    assert (done.returncode, done.stdout) == (0, "2.5\n1\ndone\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_clocks_are_those_of_the_start(monkeypatch):
    real = {id(function): name for name, function in vars(time).items() if callable(function)}
    assert not [name for name, value in vars(clock).items() if id(value) in real], "freezegun would replace them"
    for name in ("perf_counter", "time", "monotonic", "sleep"):
        monkeypatch.setattr(time, name, mock.Mock(side_effect=StopIteration))
    first = clock.now()
    clock.sleep(0.001)
    assert first < clock.now() and clock.wall() > 1e9


def test_files_of_the_system_are_read_by_pythons_own_function(monkeypatch):
    before = hardware.cpu_model()
    monkeypatch.setattr(builtins, "open", mock.Mock(side_effect=lambda *a, **k: io.StringIO("MemAvailable: 1 kB")))
    assert hardware.cpu_model() == before and not builtins.open.called


def test_no_file_is_opened_by_what_a_program_may_replace():
    """Whether a call meets one that is replaced is chance: some are made by other threads, or now and then."""
    top = Path(clock.__file__).parent
    calls = {
        str(path.relative_to(top)): call.lineno
        for path in top.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "open"
    }
    assert set(calls) <= {"__main__.py"}, "that one runs in a process of its own"


@pytest.mark.parametrize("value", [mock.Mock(return_value=mock.Mock()), mock.Mock(side_effect=RuntimeError("mocked"))])
@pytest.mark.parametrize("where", [(json, "dumps"), (tempfile, "mkstemp"), (os, "fdopen"), (os, "getpid")])
def test_a_record_that_fails_disturbs_nothing(tmp_path, monkeypatch, where, value):
    record = Record(str(tmp_path / "one" / "two"))
    with monkeypatch.context() as patch:
        patch.setattr(*where, value)
        record.add("start")
        record.state("counter", {"units": 1})
        record.fallback("what", "why")
        record.write()
    record.add("later")
    assert "later" in next((tmp_path / "one" / "two").iterdir()).read_text()


def test_folders_are_made_once(tmp_path, monkeypatch):
    record = Record(str(tmp_path / "one"))
    record.add("first")
    for name in ("makedirs", "replace"):
        monkeypatch.setattr(os, name, mock.Mock())
    record.add("second")
    assert not os.makedirs.called and not os.replace.called
    assert "second" in next((tmp_path / "one").iterdir()).read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no timers")
@pytest.mark.parametrize("value", [mock.Mock(return_value=mock.Mock()), mock.Mock(side_effect=RuntimeError("mocked"))])
def test_timers_that_cannot_be_asked_for_are_taken_for_near(monkeypatch, value):
    monkeypatch.setattr(signal, "getitimer", value)
    assert handlers.timed()


def test_the_end_of_trials_that_fails_is_not_the_programs():
    session = Session(Config())
    session.counters.write = written = mock.Mock()
    session.searches = [mock.Mock(end=mock.Mock(side_effect=RuntimeError("mocked")))]
    session.end()
    assert written.called
