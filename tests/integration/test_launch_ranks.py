"""Live trials of a training with several ranks: real processes of torchrun, joined by gloo."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from launch_parts import launch

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TORCHRUN = shutil.which("torchrun", path=str(Path(sys.executable).parent))
LEVERS = ["pytorch-keep-memory", "pytorch-autocast-bf16", "pytorch-compile", "pytorch-fused-optimizer"]
PROGRAM = """
import hashlib, json, os, sys, time
import torch
import torch.distributed as dist

fault, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.Conv2d(2, 8, 3, padding=1)
        self.first = torch.nn.Linear(256, 256)
        self.norm = torch.nn.BatchNorm1d(256)  # its buffers are exchanged at each forward call
        self.second = torch.nn.Linear(256, 4)

    def forward(self, values):
        hidden = torch.relu(self.norm(self.first(self.before(values.view(-1, 2, 4, 8)).flatten(1))))
        scores = self.second(hidden)
        lower = scores.dtype == torch.bfloat16
        time.sleep(0.002 if lower else 0.02)  # bf16 may be emulated
        trace.append("bf16" if lower else "fp32")
        if lower and (fault == "fails everywhere" or (fault == "fails" and rank == 1)):
            raise RuntimeError("planted on rank %d" % rank)
        if lower and fault == "nan" and rank == 1:
            scores = scores * float("nan")
        return scores

trace = []
net = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
torch.manual_seed(rank)
values, classes = torch.randn(32, 64), torch.randint(0, 4, (32,))
for step in range(steps):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(values), classes)
    loss.backward()
    optimizer.step()
    if fault == "ends" and rank == 0 and step == 40:
        os._exit(5)
state = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
fused = [group["fused"] for group in optimizer.param_groups]
answer = {"weights": hashlib.sha256(state).hexdigest(), "trace": trace, "fused": fused, "loss": float(loss)}
json.dump(answer, open(f"rank{rank}.json", "w"))
dist.destroy_process_group()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return the function that runs the program with two ranks under the launcher."""
    monkeypatch.chdir(tmp_path)

    def start(fault, steps=400, *, levers=(), candidates=tuple(LEVERS)):
        (tmp_path / "train.py").write_text(PROGRAM)
        trials = {
            "mode": "live", "numerics": "relaxed", "share": 1.0, "candidates": list(candidates), "units": steps
        }  # fmt: skip
        command = [TORCHRUN, "--standalone", "--nproc-per-node", "2", "train.py", fault, str(steps)]
        done = launch(command, tmp_path, {"trials": trials, "levers": list(levers)}, bf16=True)
        answers = [tmp_path / f"rank{rank}.json" for rank in range(2)]
        return done, [json.loads(path.read_text()) for path in answers if path.exists()]

    return start


def of(done, event):
    return [entry for entry in done.entries if entry["event"] == event]


def test_all_ranks_switch_at_the_same_step(run):
    done, (first, other) = run("none")
    assert done.returncode == 0, done.stderr
    tried = [entry["lever"] for entry in of(done, "trying")]
    assert tried == ["pytorch-keep-memory", "pytorch-autocast-bf16", "pytorch-fused-optimizer"]  # by one rank alone
    (refused,) = [entry for entry in of(done, "not_offered") if entry["lever"] == "pytorch-compile"]
    assert refused["reason"] == "several ranks cannot switch it together"
    assert first["trace"] == other["trace"] and {"bf16", "fp32"} == set(first["trace"])
    assert first["weights"] == other["weights"] and first["fused"] == other["fused"]
    assert any("pytorch-autocast-bf16" in entry["variant"] for entry in of(done, "settled"))
    assert first["trace"][-50:] == ["bf16"] * 50


def test_a_lever_that_fails_on_another_rank_is_given_up_by_all(run):
    done, (first, other) = run("fails")
    assert done.returncode == 0, done.stderr
    reasons = {entry["reason"] for entry in of(done, "fallback")}
    assert "it failed on another rank" in reasons
    assert any("planted on rank 1" in reason for reason in reasons)
    assert first["weights"] == other["weights"]
    assert first["trace"][-50:] == other["trace"][-50:] == ["fp32"] * 50


def test_a_lever_that_fails_on_all_ranks_is_the_only_one_given_up(run):
    done, (first, other) = run("fails everywhere")
    assert done.returncode == 0, done.stderr
    failed = {entry["variant"] for entry in of(done, "trial") if entry["failed"]}
    assert failed and all("pytorch-autocast-bf16" in name for name in failed)
    assert "pytorch-fused-optimizer" in [entry["lever"] for entry in of(done, "trying")]
    assert "pytorch-keep-memory" not in {entry["what"] for entry in of(done, "fallback")}
    assert first["weights"] == other["weights"] and first["fused"] == other["fused"]


def test_gradients_that_are_not_finite_reach_the_weights_of_no_rank(run):
    done, (first, other) = run("nan")
    assert done.returncode == 0, done.stderr
    assert "the gradients are not finite; this step was left out" in {one["reason"] for one in of(done, "fallback")}
    assert first["weights"] == other["weights"]
    assert first["loss"] == first["loss"] and first["trace"][-50:] == ["fp32"] * 50


def test_what_was_chosen_before_the_run_is_on_for_all_ranks(run):
    done, (first, other) = run("none", 200, levers=["pytorch-autocast-bf16"], candidates=["pytorch-fused-optimizer"])
    assert done.returncode == 0, done.stderr
    assert [entry["lever"] for entry in of(done, "trying")] == ["pytorch-fused-optimizer"]
    assert first["trace"] == other["trace"] and first["trace"].count("fp32") < 60
    assert first["weights"] == other["weights"]


def test_a_first_rank_that_ends_ends_the_program_as_it_would_alone(run):
    done, answers = run("ends")
    assert done.returncode != 0 and answers == []
