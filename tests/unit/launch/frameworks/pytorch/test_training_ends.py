"""What is left of a training once the program has no use for it: nothing, and another one begins anew."""

import json
import threading

import pytest

from launch_parts import launch
from modak_deploy.launch.levers.pytorch import one_thread, tf32

FOLDS = """
import gc, weakref
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(100, 100)
    def forward(self, x):
        return self.layer(x)
alive = []
for fold in range(5):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(5):
        opt.zero_grad(); net(torch.rand(4, 100)).square().mean().backward(); opt.step()
    alive.append(weakref.ref(net))
    del net, opt
gc.collect()
print([reference() is None for reference in alive])
"""
THREADS = """
import gc, json
import torch
torch.set_num_threads(2)
seen = []
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x):
        seen.append(("step", torch.get_num_threads()))
        return self.layer(x)
def fold():
    net = Net()
    average = Net().eval()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for epoch in range(2):
        net.train()
        for step in range(5):
            opt.zero_grad(); net(torch.rand(4, 8)).square().mean().backward(); opt.step()
        net.eval()
        seen.append(("epoch", torch.get_num_threads()))
    net.train()
    net(torch.rand(4, 8))
for _ in range(2):
    fold()
    gc.collect()
    seen.append(("end", torch.get_num_threads()))
print(json.dumps(seen))
"""


@pytest.fixture
def run(torch, tmp_path):
    def program(text, *levers, **trials):
        (tmp_path / "program.py").write_text(text)
        done = launch(tmp_path / "program.py", tmp_path, {"levers": list(levers), "trials": trials})
        assert done.returncode == 0, done.stderr
        return done

    return program


@pytest.mark.parametrize(
    ("levers", "mode"),
    [((), "none"), ((), "live"), (("pytorch-fused-optimizer",), "none"), (("pytorch-compile",), "none")],
    ids=["counted", "tried", "fused", "compiled"],
)
def test_models_are_freed(run, levers, mode):
    assert run(FOLDS, *levers, mode=mode).stdout == f"{[True] * 5}\n"


def test_each_fold_is_a_training_of_its_own(run):
    done = run(FOLDS, "pytorch-fused-optimizer", mode="none")
    states = {entry["name"]: entry for entry in done.entries if entry["event"] == "state"}
    names = ["training: Net", *(f"training: Net {number}" for number in range(2, 6))]
    assert [states[name]["units"] for name in names] == [5] * 5
    assert all("loss" in states[name] for name in names)
    assert [entry["of"] for entry in done.entries if entry["event"] == "chosen"] == ["Net"] * 5


def test_the_number_of_threads_is_the_programs_outside_of_steps(run):
    seen = json.loads(run(THREADS, "pytorch-one-thread", mode="none").stdout)
    kinds = [[threads for name, threads in seen if name == kind] for kind in ("step", "epoch", "end")]
    assert kinds == [([2, 2] + [1] * 9) * 2, [2] * 4, [2] * 2]


class TestSeveralUsers:
    """Modules of a program may be called by a thread each: what is on for one of them is so for the other."""

    def test_threads(self, torch):
        lever = one_thread.OneThread()
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        try:
            for on in (True, True, False):
                thread = threading.Thread(target=lever.switch, args=(torch, on))
                thread.start()
                thread.join()
            seen = []
            thread = threading.Thread(target=lambda: (lever.switch(torch, False), seen.append(torch.get_num_threads())))
            thread.start()
            thread.join()
            lever.switch(torch, False)  # of nobody
            assert (seen, torch.get_num_threads()) == ([3], 3)
        finally:
            torch.set_num_threads(before)

    def test_settings(self, torch, monkeypatch):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
        lever = tf32.Tf32()
        seen = []
        for on in (True, True, False, False):
            lever.switch(torch, on)
            seen.append((torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32))
        assert seen == [(True, True)] * 3 + [(False, False)]
