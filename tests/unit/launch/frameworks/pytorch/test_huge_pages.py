"""The lever that moves a process's memory into huge pages, in programs and by itself."""

import os
import signal
import threading

import pytest

from launch_parts import launch
from modak_deploy.launch import hugepages
from modak_deploy.launch import lever as lever_table
from modak_deploy.launch.frameworks.pytorch import offers
from modak_deploy.launch.frameworks.pytorch.kinds import Subject
from modak_deploy.launch.frameworks.settings import Settings
from modak_deploy.launch.levers.pytorch import huge_pages
from modak_deploy.launch.variants import DEFAULT, Variant

NAME = "pytorch-huge-pages"
PROGRAM = """
import torch
torch.manual_seed(0)
def huge():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("AnonHugePages:")) >> 10
net = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)){mode}
before = huge()
{use}
print(before, huge())
"""
INFERENCE = """
x = torch.rand(2, 4096)
with torch.no_grad():
    for _ in range(400):
        y = net(x)
print(float(y.double().sum()))
"""
TRAINING = """
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for _ in range(60):
    x = torch.rand(2, 4096)
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    opt.step()
print(float(loss.double()))
"""


@pytest.fixture(autouse=True)
def huge(monkeypatch):
    monkeypatch.setattr(hugepages, "_LEAST", 0)
    monkeypatch.setattr(hugepages, "_seen", hugepages._Seen())
    if (reason := hugepages.refusal()) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize(("mode", "use"), [(".eval()", INFERENCE), ("", TRAINING)], ids=["inference", "training"])
@pytest.mark.parametrize("how", ["tried", "chosen"])
def test_a_programs_weights_are_in_huge_pages_and_its_results_the_same(torch, tmp_path, mode, use, how):
    (tmp_path / "program.py").write_text(PROGRAM.format(mode=mode, use=use))
    trials = {"mode": "live", "share": 0.9, "units": 40000, "candidates": [NAME]}
    config = {"trials": trials} if how == "tried" else {"levers": [NAME], "trials": {"mode": "none"}}
    plain = launch(tmp_path / "program.py", tmp_path, {"trials": {"mode": "none"}, "levers": []})
    assert plain.returncode == 0, plain.stderr
    done = launch(tmp_path / "program.py", tmp_path, {**config, "record": str(tmp_path / "with")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == plain.stdout.splitlines()[0]
    before, after = map(int, done.stdout.splitlines()[1].split())
    assert after - before >= 70, done.stdout
    entries = [entry for record in (tmp_path / "with").glob("*.jsonl") for entry in record.read_text().splitlines()]
    assert any(NAME in entry for entry in entries)
    assert not any('"fallback"' in entry for entry in entries), entries


def test_it_is_for_the_processors_memory(torch):
    subject = Subject(torch, torch.nn.Linear(2, 2).eval())
    assert huge_pages.HugePages().applies(subject) is None
    subject.device = "cuda"
    assert huge_pages.HugePages().applies(subject) == "the module is not on the processor"


@pytest.fixture
def slow(monkeypatch):
    """Have moving take all the time that it may, and a look 0.2 s; return the time, and what was given to move."""
    now, given = [0.0], []

    def collapse(seconds):
        given.append(seconds)
        now[0] += seconds
        return 0, False

    monkeypatch.setattr(hugepages, "collapse", collapse)
    monkeypatch.setattr(hugepages, "small_memory", lambda: 300 << 20)
    monkeypatch.setattr(huge_pages.hardware, "peak_memory", lambda: 500 << 20)
    monkeypatch.setattr(huge_pages.hardware, "resident_memory", lambda: 400 << 20)
    monkeypatch.setattr(hugepages, "looking", lambda: 0.2)
    monkeypatch.setattr(huge_pages.clock, "now", lambda: now[0])
    return now, given


def test_what_comes_later_is_moved_after_units_in_a_part_of_their_time(torch, slow):
    now, given = slow
    lever = huge_pages.HugePages()
    lever.switch(torch, True)
    assert given == [pytest.approx(1.25)]
    for _ in range(100):
        now[0] += 1.0
        lever.again()
    assert len(given) == 1 + 4  # after 8, 16, 32 and 64 units: before, there is not even time for a look
    assert sum(given[1:]) <= huge_pages.SHARE * 64 * 1.06


def test_a_unit_that_a_timer_of_the_programs_may_end_is_not_made_longer(torch, slow):
    now, given = slow
    lever = huge_pages.HugePages()
    lever.switch(torch, True)
    now[0] += 1000.0
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.alarm(30)
        for _ in range(10):
            lever.again()
        assert len(given) == 1
        signal.alarm(0)
        lever.again()
        assert len(given) == 2
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_memory_is_not_moved_once_more_where_it_was_off_for_a_unit(torch, slow, monkeypatch):
    """A comparison of results, or a call of another size, is done without it, as far as that can be."""
    _, given = slow
    kept = []
    monkeypatch.setattr(huge_pages.memory, "refusal", lambda: None)
    monkeypatch.setattr(huge_pages.memory, "keep", lambda on, lever: kept.append(on))
    settings = Settings(torch)
    for _ in range(5):
        settings.follow(Variant((huge_pages.HugePages(),)))
        settings.follow(DEFAULT)
    assert len(given) == 1
    assert kept == [True, False] * 5


def test_a_child_forked_meanwhile_waits_for_nobody(torch, monkeypatch):
    """Moving memory takes seconds, in which another thread may fork; the child changes its module's mode."""
    settings, ended = Settings(torch), []

    def forks():
        if not (child := os.fork()):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            settings.rest()
            os._exit(0)
        ended.append(os.waitpid(child, 0)[1])

    def collapse(_):
        thread = threading.Thread(target=forks)
        thread.start()
        thread.join()
        return 0, True

    monkeypatch.setattr(hugepages, "collapse", collapse)
    settings.follow(Variant((huge_pages.HugePages(),)))
    assert ended == [0]


def test_where_little_can_be_moved_it_is_not_tried(monkeypatch):
    assert huge_pages.LEVER.useless() is None
    monkeypatch.setattr(hugepages, "movable", lambda: 0)
    assert huge_pages.LEVER.useless()


def test_in_training_it_comes_after_number_formats_alone(monkeypatch):
    names = ["keep-memory", "huge-pages", "fused-optimizer", "autocast-bf16", "compile"]
    levers = [lever for lever in lever_table.levers("pytorch") if lever.name.partition("-")[2] in names]
    monkeypatch.setattr(offers, "_offer", lambda *_: (levers, DEFAULT))
    order = [lever.name.partition("-")[2] for lever in offers.in_training(None, None)[0]]
    assert order == ["keep-memory", "autocast-bf16", "huge-pages", "fused-optimizer", "compile"]
