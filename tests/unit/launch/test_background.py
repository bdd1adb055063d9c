"""Work in a process of its own: what comes of it, and that nothing of it is left, whatever happens."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from modak_deploy.launch import background, forked, hardware

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has memory without a name")


def ended(task: background.Task) -> background.Task:
    limit = time.monotonic() + 60
    while not task.poll():
        assert time.monotonic() < limit
        time.sleep(0.01)
    return task


def processes(mark: str) -> list[int]:
    """Return the processes whose command line or environment has a mark, but for this one."""
    hits = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in text and int(folder.name) != os.getpid():
            hits.append(int(folder.name))
    return hits


def gone(mark: str) -> bool:
    limit = time.monotonic() + 20
    while processes(mark) and time.monotonic() < limit:
        time.sleep(0.05)
    return not processes(mark)


def test_what_is_written_comes_back_and_no_child_is_left():
    before = set(Path("/proc/self/fd").iterdir())
    task = ended(background.Task(lambda file: file.write(b"x" * 5_000_000), 60))
    assert task.problem is None
    assert task.content() == b"x" * 5_000_000
    with pytest.raises(ValueError, match="nothing is left"):
        task.content()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert set(Path("/proc/self/fd").iterdir()) == before


def hang(file):
    while True:
        time.sleep(1)


def fail(file):
    raise ValueError("no\nsuch layer")


@pytest.mark.parametrize(
    ("work", "problem", "undecided"),
    [
        (fail, "ValueError: no such layer", False),
        (lambda file: os.abort(), background.ENDED, True),
        (lambda file: os.kill(os.getpid(), signal.SIGKILL), background.ENDED, True),
        (lambda file: sys.exit(3), "SystemExit: 3", False),
        (hang, "it was not ready after 2 s", True),
    ],
)
def test_what_goes_wrong_is_a_sentence(work, problem, undecided, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = ended(background.Task(work, 2 if work is hang else 60))
    assert (task.problem, task.undecided) == (problem, undecided)
    assert list(tmp_path.iterdir()) == []  # no core


def test_it_is_ended_where_nobody_waits_for_it_any_more(tmp_path):
    def work(file):
        (tmp_path / "pid").write_text(str(os.getpid()))
        hang(file)

    task = background.Task(work, 60)
    limit = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    process = Path("/proc") / (tmp_path / "pid").read_text()
    assert f"PPid:\t{os.getpid()}\n" not in (process / "status").read_text()  # no child of the program
    task.close()
    while process.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not process.exists()


def test_files_of_the_program_are_out_of_reach(tmp_path):
    written = tmp_path / "log"
    with written.open("w") as log:
        log.write("once ")

        def work(file):
            log.write("not at all")
            log.flush()
            print("nor this", flush=True)
            os.write(2, b"nor that")
            file.write(str(os.getpriority(os.PRIO_PROCESS, 0)).encode())

        task = ended(background.Task(work, 60))
        assert int(task.content()) >= forked.NICE
    assert written.read_text() == "once "


def test_handlers_and_finalizers_of_the_program_are_not_called(tmp_path):
    called = []

    class Held:
        def __del__(self) -> None:
            called.append("finalized")

    gc.disable()
    cycle: list[object] = [Held()]
    cycle.append(cycle)
    del cycle
    signal.signal(signal.SIGUSR1, lambda *_: called.append("handled"))
    try:

        def work(file):
            gc.collect()
            file.write(signal.getsignal(signal.SIGUSR1).name.encode() + b" " + repr(called).encode())

        task = ended(background.Task(work, 60))
        assert task.content() == b"SIG_IGN []"
    finally:
        gc.enable()
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def test_signals_for_the_program_do_not_end_it():
    def work(file):
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGRTMIN + 3):
            os.kill(os.getpid(), number)
        file.write(b"done")

    assert ended(background.Task(work, 60)).content() == b"done"


def test_it_has_no_memory_before_the_program_has_none(monkeypatch):
    monkeypatch.setattr(hardware, "resident_memory", lambda: 1 << 30)
    monkeypatch.setattr(hardware, "free_memory", lambda: (1 << 30) + (400 << 20))
    task = ended(background.Task(lambda file: file.write(bytes(150 << 20)[:3]), 60))
    assert task.content() == bytes(3)
    task = ended(background.Task(lambda file: file.write(bytes(600 << 20)[:3]), 60))
    assert (task.problem, task.undecided) == ("MemoryError:", True)
    task = ended(background.Task(lambda file: file.write(bytes(600 << 20)[:3]), 60, 700 << 20))
    assert task.problem is None


def test_what_libraries_say_where_there_is_no_memory(monkeypatch):
    def work(file):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes.")

    assert ended(background.Task(work, 60)).undecided


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(background, "STARTS", 0.1)
    monkeypatch.setattr(background, "KILLED", 0.1)


def test_a_child_that_is_never_reported_is_given_up(quick, monkeypatch):
    before, wait = set(Path("/proc/self/fd").iterdir()), os.waitpid
    monkeypatch.setattr(os, "waitpid", lambda pid, options: (0, 0))
    masks = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(OSError, match="no process can be started"):
        background.Task(hang, 60)
    monkeypatch.undo()
    assert os.waitpid is wait
    wait(-1, 0)  # what the test has kept from being waited for
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == masks
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_handler_that_raises_meanwhile_leaves_no_child(monkeypatch):
    wait, called = os.waitpid, []

    def waitpid(pid, options):
        called.append(pid)
        if len(called) == 1:
            signal.raise_signal(signal.SIGUSR1)
        return wait(pid, options)

    def handle(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGUSR1, handle)
    try:
        monkeypatch.setattr(os, "waitpid", waitpid)
        with pytest.raises(KeyboardInterrupt):
            background.Task(hang, 60)
    finally:
        monkeypatch.setattr(os, "waitpid", wait)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    with pytest.raises(ChildProcessError):
        wait(-1, os.WNOHANG)


@pytest.fixture
def free(monkeypatch):
    monkeypatch.setattr(hardware, "cores", lambda: 2)
    monkeypatch.setattr(hardware, "physical_cores", lambda: 2)
    monkeypatch.setattr(hardware, "resident_memory", lambda: 256 << 20)
    monkeypatch.setattr(hardware, "free_memory", lambda: 1 << 30)
    for variable in (*background.SCHEDULERS, "SGE_ROOT", "JOB_ID"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k not in background.FOREIGN})


def test_it_needs_a_free_core_and_memory(free, monkeypatch):
    assert background.refusal(1, 1 << 20) is None
    assert background.refusal(2, 1 << 20) == "the program leaves no core free"
    assert background.refusal(1, 768 << 20) is None
    assert background.refusal(1, 1 << 30) == "it takes 1280 MiB and 1024 MiB are free"  # the program's own once more
    monkeypatch.setattr(hardware, "resident_memory", lambda: 5 << 30)
    monkeypatch.setattr(hardware, "free_memory", lambda: 1 << 40)
    assert background.refusal(1, 0) == "the program's 5120 MiB are too much to be shared with a fork"


@pytest.mark.parametrize("module", ["jax", "gevent"])
def test_modules_that_a_fork_disturbs(free, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, sys)
    assert background.refusal(1, 0) == f"the program has imported {module}, which a fork disturbs"


@pytest.mark.parametrize("function", ["fork", "waitpid"])
def test_functions_that_are_not_those_of_python(free, function, monkeypatch):
    monkeypatch.setattr(os, function, lambda *_: (0, 0))
    assert background.refusal(1, 0) == "something has replaced os.fork or os.waitpid"


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"PBS_JOBID": "7.host"}, "PBS or Torque"),
        ({"SGE_TASK_ID": "undefined"}, "Grid Engine"),
        ({"SGE_ROOT": "/opt/sge", "JOB_ID": "7"}, "Grid Engine"),
        ({"LSB_JOBID": "7"}, "LSF"),
        ({"SGE_ROOT": "/opt/sge"}, None),
        ({"JOB_ID": "7"}, None),
    ],
)
def test_schedulers_that_sum_up_memory(free, variables, name, monkeypatch):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    wanted = name and f"{name} counts memory that processes share for each of them"
    assert background.refusal(1, 0) == wanted


ADOPTS = "processes whose parent has ended become children of the program's"


def test_a_program_that_is_given_orphans_is_left_alone(free, monkeypatch):
    prctl = ctypes.CDLL(None).prctl
    assert prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    try:
        assert background.refusal(1, 0) == ADOPTS
    finally:
        prctl(36, 0, 0, 0, 0)
    assert background.refusal(1, 0) is None
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert background.refusal(1, 0) == ADOPTS


def test_one_free_core_does_one_thing_at_a_time(free):
    assert not background.busy(1)
    task = background.Task(hang, 60)
    assert background.busy(1)
    assert not background.busy(0)
    task.close()
    assert not background.busy(1)


@pytest.mark.parametrize("handler", [lambda *_: None, signal.SIG_IGN])
def test_a_program_that_handles_the_end_of_children_is_left_alone(free, handler):
    signal.signal(signal.SIGCHLD, handler)
    try:
        assert background.refusal(1, 0) == "the program waits for children of its own"
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        assert background.refusal(1, 0) == "the program waits for children of its own"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def test_a_thread_may_wait_for_a_child_of_the_programs(free, monkeypatch):
    """pytest-xdist, or a test before, may have threads of its own."""
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            monkeypatch.setattr(threading, "active_count", lambda: 1)
            assert background.refusal(1, 0) is None  # nobody waits now
            monkeypatch.setattr(threading, "active_count", lambda: 2)
            assert background.refusal(1, 0) == "the program waits for children of its own"
        finally:
            child.kill()


PROGRAM = """
import os, signal, sys, threading, time
from modak_deploy.launch import background

print("once")  # into a buffer, as standard output is a pipe
def hang(file):
    while True:
        time.sleep(1)
task = background.Task(hang, 600)
END
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit(7)", 7),
        ("raise ValueError", 1),
        ("os._exit(5)", 5),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.abort()", -signal.SIGABRT),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 6'])", 6),
        ("if not os.fork(): time.sleep(600)", 0),
    ],
)
def test_it_ends_with_the_program(end, code, tmp_path):
    mark = f"MARK={tmp_path}"
    program = PROGRAM.replace("END", end)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    environment |= {"MARK": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    with (tmp_path.parent / "out").open("w+b") as out:
        done = subprocess.run(command, env=environment, cwd=tmp_path, stdout=out, stderr=out, timeout=60, check=False)
        out.seek(0)
        text = out.read()
    assert done.returncode == code
    assert text.count(b"once") == (0 if code < 0 or code in (5, 6) else 1)
    if "fork" in end:  # the program's own child goes on, and keeps nothing alive
        (child,) = alone(mark)
        os.kill(child, signal.SIGKILL)
    assert gone(mark)
    assert list(tmp_path.iterdir()) == []


def alone(mark: str) -> list[int]:
    limit = time.monotonic() + 20
    while len(processes(mark)) > 1 and time.monotonic() < limit:
        time.sleep(0.05)
    return processes(mark)
