"""PyTorch's compiler is imported when the program compiles something, and not before, and no result changes."""

import json
import shutil

import pytest

from launch_parts import launch

INFERENCE = """
import sys, torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
with torch.inference_mode():
    for call in range(200):
        net(torch.ones(3, 4))
print("torch._dynamo" in sys.modules)
"""
TRAINING = """
import json, pickle, sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
data, wanted = torch.randn(32, 8), torch.randn(32, 1)
losses, seen = [], []
compiled = net
def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(compiled(data), wanted)
    loss.backward()
    return loss
for kind, options in KINDS:
    optimizer = getattr(torch.optim, kind)(net.parameters(), **options)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    for step in range(10):
        if kind == "LBFGS":
            loss = optimizer.step(closure)
        else:
            loss = closure()
            optimizer.step()
        schedule.step()
        losses.append(float(loss))
    optimizer.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]}) if kind != "LBFGS" else None
    seen.append("torch._dynamo" in sys.modules)
    if kind == COMPILED:
        compiled = torch.compile(net, backend="eager")
try:
    optimizer.step(lambda: 1 / 0)
except ZeroDivisionError:
    seen.append(torch.is_grad_enabled())
print(json.dumps({"losses": losses, "seen": seen}))
"""
KINDS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("Adam", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "foreach": False}),
    ("RMSprop", {"lr": 0.001}),
    ("LBFGS", {"lr": 0.1, "max_iter": 3}),
]
LIVE = {"mode": "live", "share": 0.0}


@pytest.fixture
def run(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")

    def program(text, **trials):
        (tmp_path / "program.py").write_text(text)
        done = launch(tmp_path / "program.py", tmp_path, {"trials": trials})
        assert done.returncode == 0, done.stderr
        assert not [entry for entry in done.entries if entry["event"] == "fallback"]
        return done

    return program


@pytest.mark.parametrize("mode", ["none", "live"])
def test_it_is_not_imported_to_look_at_a_call(mode, run):
    done = run(INFERENCE, mode=mode, candidates=["pytorch-channels-last", "pytorch-keep-memory"])
    assert done.stdout == "False\n"
    (state,) = (entry for entry in done.entries if entry.get("name") == "inference: Sequential")
    assert state["features"]["flops_per_sample"] == 96 / 2


@pytest.mark.parametrize("compiled", [None, "Adam"])
def test_steps_of_optimizers_are_as_they_are_without(compiled, run):
    text = f"KINDS, COMPILED = {KINDS!r}, {compiled!r}\n{TRAINING}"
    alone, tried = (json.loads(run(text, **trials).stdout) for trials in ({"mode": "none"}, LIVE))
    assert tried["losses"] == alone["losses"]
    assert alone["seen"] == [True] * 6
    assert tried["seen"] == ([False] * 5 if compiled is None else [False, False, True, True, True]) + [True]


GRAPHS = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="no C++ compiler found")
def test_a_module_of_pytorchs_own_class_is_compiled_as_a_whole(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "program.py").write_text(GRAPHS)
    done = launch(tmp_path / "program.py", tmp_path, {"levers": ["pytorch-compile"]})
    assert done.stdout == "1\n", done.stderr
