"""Modules that real exporters convert in a process of their own, while the program calls them."""

import importlib.util
import os
import time
from types import SimpleNamespace

import pytest

from launch_parts import Program, launch, lever, scoring_net
from modak_deploy.launch import background, bundle, hardware
from modak_deploy.launch.estimate import Ledger
from modak_deploy.launch.frameworks.pytorch import background as beside
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.making import Making
from modak_deploy.launch.variants import Variant

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed; 'pip install .[onnx]' installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; 'pip install .[convert]' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
LEVER = "pytorch-onnxruntime"
OFFER = beside.Background.offer


@pytest.fixture(autouse=True)
def cores(monkeypatch, between_calls):
    monkeypatch.setattr(beside.Background, "offer", OFFER)
    monkeypatch.setattr(hardware, "cores", lambda: 2)
    monkeypatch.setattr(hardware, "physical_cores", lambda: 2)
    monkeypatch.setattr(hardware, "idle", lambda: None)
    # Other tests of this process import some, and OpenVINO starts processes that report its use.
    monkeypatch.setattr(background, "FOREIGN", ())
    monkeypatch.setattr(background, "_notices_children", lambda: False)


@pytest.fixture
def net(torch):
    return scoring_net(torch, pause=0.02)


@pytest.fixture
def images(torch):
    torch.manual_seed(1)
    return torch.randn(2, 3, 8, 8)


@pytest.fixture
def follow(torch, session_of):
    def make(model, **options):
        session = session_of(candidates=[LEVER], units=3000, **{"share": 0.1, **options})
        return session, calls_module.Calls(session, torch, model)

    return make


def called(torch, model, images, session, event, most=2500):
    """Call a module until the record has an event; return the results."""
    results = []
    with torch.inference_mode():
        while not session.record.of(event) and len(results) < most:
            results.append(model(images, scale=0.5))
    assert session.record.of(event), session.record.entries
    return results


def nothing_left():
    assert not background.busy(1)


def test_calls_go_on_while_it_is_made_and_then_it_is_tried(torch, net, images, follow, monkeypatch):
    monkeypatch.setattr(InSession, "made", lambda *_: pytest.fail("it was made between two calls"))
    with torch.inference_mode():
        (wanted,) = [net(images, scale=0.5)]
    session, _ = follow(net)
    results = called(torch, net, images, session, "settled")
    events = [entry["event"] for entry in session.record.entries]
    assert events[:4] == ["making", "made", "trying", "trial"]  # whether it is kept, the load decides
    (trial,) = session.record.of("trial")
    assert (trial["variant"], trial["failed"]) == (LEVER, False)
    assert trial["one_time"] >= trial["background"] > 0.0
    assert len(results) > 20
    for result in results:
        assert list(result) == ["scores", "hidden"]
        assert result["hidden"][1] is None
        assert torch.allclose(result["scores"], wanted["scores"], atol=1e-5)
    nothing_left()


def test_weights_that_change_meanwhile_are_made_anew(torch, net, images, follow):
    session, _ = follow(net)
    called(torch, net, images, session, "making")
    with torch.no_grad():
        net.head.weight.mul_(3)
    called(torch, net, images, session, "settled")
    assert len(session.record.of("making")) == 2
    assert len(session.record.of("weights_changed")) == 1
    (trial,) = session.record.of("trial")
    assert (trial["variant"], trial["failed"]) == (LEVER, False)
    with torch.inference_mode():
        result = net(images, scale=0.5)["scores"]
        assert torch.allclose(result, net._call_impl(images, scale=0.5)["scores"], atol=1e-5)
    nothing_left()


def crash(session, *_):
    os.abort()


def hang(session, *_):
    while True:
        time.sleep(1)


def refuse(session, *_):
    raise ValueError("no such operator")


@pytest.mark.parametrize(
    ("fault", "event", "reason"),
    [
        (crash, "not_tried", background.ENDED),
        (refuse, "fallback", "ValueError: no such operator"),
        (hang, "not_tried", "it was not ready after 3 s"),
    ],
)
def test_what_goes_wrong_there_is_a_line_in_the_record(torch, net, images, follow, fault, event, reason, monkeypatch):
    monkeypatch.setattr(InSession, "written", fault)
    if fault is hang:  # the others may take longer on a busy machine
        monkeypatch.setattr(beside, "LEAST", 3.0)
        monkeypatch.setattr(beside, "LATEST", 0.0)
    session, _ = follow(net)
    called(torch, net, images, session, "settled")
    assert [entry["reason"] for entry in session.record.of(event)] == [reason]
    assert session.record.of("settled")[-1]["variant"] == "default"
    assert not session.record.of("trying")
    nothing_left()


@pytest.mark.parametrize("obstacle", ["cores", "load", "ranks", "threads"])
def test_without_a_free_core_it_is_made_between_two_calls(torch, net, images, follow, obstacle, monkeypatch):
    if obstacle == "cores":
        monkeypatch.setattr(hardware, "physical_cores", lambda: 1)
    elif obstacle == "load":
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
        monkeypatch.setattr(hardware, "idle", lambda: {0: 0.3 * time.monotonic()})
    elif obstacle == "threads":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    session, _ = follow(net, share=1.0)
    if obstacle == "ranks":
        session.together, session.ranks = True, 2
    called(torch, net, images, session, "settled")
    assert not session.record.of("making")
    assert not session.record.of("trial")[0]["failed"]


@pytest.fixture
def clock(monkeypatch):
    """Return seconds that the test passes, and readings of how long the only core was idle."""
    readings: list[float] = []
    times = {"now": 100.0, "idle": 50.0}

    def idle():
        readings.append(times["now"])
        return {0: times["idle"]}

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setattr(hardware, "idle", idle)
    monkeypatch.setattr(beside.clock, "now", lambda: times["now"])
    return times, readings


def test_cores_are_watched_for_a_second_once_something_is_to_be_made(torch, session_of, clock):
    times, readings = clock
    work = beside.Background(session_of(), torch)
    assert not readings
    for after in (0.0, 0.3, 0.9):
        times["now"] = 100 + after
        assert work._leaves_core() is None
    assert readings == [100.0]
    times.update(now=102.0, idle=50.9)
    assert work._leaves_core() is False
    times.update(now=110.0, idle=58.9)  # what was before does not count
    assert work._leaves_core() is None
    times.update(now=111.0, idle=59.5)
    assert work._leaves_core() is True


def kept(torch, session_of, clock):
    """Return a search that keeps what is ready, the work of its module, and what is kept."""
    clock[0]["now"] = 1000.0
    made = beside.Made(Program([lever("made", expensive=True)], {}, units=200).search, SimpleNamespace(), None)
    made.search._making = Making(lever("made"), Variant((lever("made"),)))
    made.search.begun(0.0)
    made.task = SimpleNamespace(seconds=5.0, problem=None, undecided=False, poll=lambda: True, close=lambda: None)
    work = beside.Background(session_of(), torch)
    work._made.append(made)
    return made.search, work, clock[0]


@pytest.mark.parametrize(
    ("called", "seconds", "reason"),
    [
        (False, 50, None),
        (False, 70, "no such call came for 60 s after it was made ready in the background"),
        (True, 70, None),
        (True, 610, "a trial was not affordable for 600 s after it was made ready in the background"),
    ],
)
def test_what_is_ready_is_not_kept_for_ever(torch, session_of, clock, called, seconds, reason):
    search, work, times = kept(torch, session_of, clock)
    times["now"] += 500  # while it is made
    work.follow(None)
    assert search.keeps
    for _ in range(seconds // 10):
        times["now"] += 10
        work.follow(search if called else None)
    assert search.keeps == (reason is None)
    assert bool(work._made) == (reason is None)
    assert [entry["reason"] for entry in search._record.of("not_tried")] == ([] if reason is None else [reason])


def test_where_cores_are_taken_away_later_nothing_is_waited_for(torch, session_of, clock, monkeypatch):
    times, _ = clock
    work = beside.Background(session_of(), torch)
    monkeypatch.setattr(beside.background, "busy", lambda threads: True)
    monkeypatch.setattr(beside.background, "running", lambda: 1)
    assert work._leaves_core() is None
    times.update(now=102.0, idle=52.0)
    assert work._leaves_core() is None  # another one is under way
    monkeypatch.setattr(beside.background, "running", lambda: 0)
    assert work._leaves_core() is None
    times.update(now=104.0, idle=54.0)
    assert work._leaves_core() is True  # and then it is refused


def test_cores_that_are_taken_away_before_it_begins(torch, net, images, follow, monkeypatch):
    session, _ = follow(net, share=1.0)
    search = []
    monkeypatch.setattr(beside.Background, "offer", lambda self, *args: (search.append(args[0]), OFFER(self, *args))[1])
    with torch.inference_mode():
        while not (search and search[0]._prospects.background):
            net(images, scale=0.5)
    monkeypatch.setattr(hardware, "physical_cores", lambda: 1)
    called(torch, net, images, session, "settled")
    assert not session.record.of("making")
    assert not session.record.of("trial")[0]["failed"]


def test_what_a_fork_that_fails_took_is_charged(torch, net, images, follow, monkeypatch):
    charged = []

    def fail(*_):
        time.sleep(0.05)
        raise OSError("no process can be started")

    monkeypatch.setattr(background, "Task", fail)
    monkeypatch.setattr(Ledger, "charge", lambda self, seconds, beside=None: charged.append(seconds))
    session, _ = follow(net, share=1.0)
    called(torch, net, images, session, "settled")
    assert charged[0] >= 0.05
    assert not session.record.of("making")


def test_a_module_that_is_left_alone_meanwhile_leaves_nothing(torch, net, images, follow):
    session, calls = follow(net)
    called(torch, net, images, session, "making")
    assert background.busy(1)
    calls.inference.stop("the program trains")
    nothing_left()


PROGRAM = """
import os, signal, sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(8, 4)
    def forward(self, images):
        time.sleep(0.02)
        return self.head(torch.relu(self.conv(images)).mean((2, 3)))
print("once", end=" ")
BEFORE
net, images = Net().eval(), torch.randn(2, 3, 8, 8)
with torch.inference_mode():
    first = net(images)
    for number in range(UNITS):
        assert torch.allclose(net(images), first, atol=1e-5)
print("done")
AFTER
"""
FREE = "\n\ndef cores():\n    return 2\n\n\nphysical_cores = cores\n\n\ndef idle():\n    return None\n"


@pytest.fixture
def run(tmp_path):
    def make(units, before="", after="", lever=LEVER):
        program = tmp_path / "program.py"
        text = PROGRAM.replace("UNITS", str(units)).replace("BEFORE", before).replace("AFTER", after)
        program.write_text(text)
        bundle.write_folder(str(tmp_path / "path"))
        with (tmp_path / "path" / bundle.PACKAGE / "hardware.py").open("a", encoding="utf-8") as file:
            file.write(FREE)
        trials = {"mode": "live", "units": max(units, 3000), "share": 0.1, "candidates": [lever]}
        (tmp_path / "empty").mkdir()
        environment = {"TMPDIR": str(tmp_path / "empty"), "PYTHONWARNINGS": "error::DeprecationWarning:os"}
        done = launch(program, tmp_path, {"trials": trials}, environment=environment)
        left = {path.name.partition("_")[0] for path in (tmp_path / "empty").rglob("*")}
        assert left <= {".ses", "torchinductor"}  # made by ``import onnxruntime`` (1.32) and PyTorch's flop counter
        return done

    return make


def events(done):
    return [entry["event"] for entry in done.entries]


@pytest.mark.parametrize("lever", [LEVER, "pytorch-openvino"])
def test_a_whole_program_does_not_notice_it(run, lever):
    if importlib.util.find_spec("openvino") is None and lever != LEVER:
        pytest.skip("OpenVINO is not installed; 'pip install openvino' installs it")
    done = run(1500, "signal.signal(signal.SIGTERM, lambda *_: print('handled'))", lever=lever)
    assert (done.returncode, done.stdout, done.stderr) == (0, "once done\n", "")
    assert {"making", "made", "trial", "settled"} <= set(events(done))
    (trial,) = [entry for entry in done.entries if entry["event"] == "trial"]
    assert (trial["variant"], trial["failed"]) == (lever, False)


@pytest.mark.parametrize(
    ("after", "code"), [("", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGTERM)", -15), ("1 / 0", 1)]
)
def test_a_program_that_ends_meanwhile_ends_as_it_would(run, after, code):
    done = run(30, "torch.jit.trace = None", after)  # exporting takes longer than the program
    assert done.returncode == code
    assert done.stdout == ("once done\n" if code >= 0 else "")
    assert "making" in events(done)
    assert "made" not in events(done)


def test_a_program_that_waits_for_children_gets_its_own_alone(run):
    waits = "assert os.WEXITSTATUS(os.wait()[1]) == 9"
    done = run(40, "", f"pid = os.fork()\nif not pid: os._exit(9)\n{waits}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "once done\n", "")
    assert "making" in events(done)


def test_a_program_that_handles_the_end_of_children_is_left_alone(run):
    done = run(40, "signal.signal(signal.SIGCHLD, lambda *_: print('surprise'))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "once done\n", "")
    assert "making" not in events(done)
