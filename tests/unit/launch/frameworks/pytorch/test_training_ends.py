"""What is left of a training once the program has no use for it: nothing, and another one begins anew."""

import pytest

from launch_parts import launch

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
