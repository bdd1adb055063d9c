"""Programs with many optimizers, as for each task of a meta-learning, and with modules that cannot be asked."""

import pytest

from launch_parts import launch
from modak_deploy.launch.frameworks import pytorch as adapter
from modak_deploy.launch.frameworks.pytorch import owners

TASKS = """
import torch
nets = []
for task in range(60):
    nets.append(torch.nn.Linear(4, 4))
    opt = torch.optim.SGD(nets[-1].parameters(), lr=0.01)
    for step in range(3):
        opt.zero_grad(); nets[-1](torch.rand(4, 4)).square().mean().backward(); opt.step()
"""


@pytest.fixture
def run(torch, tmp_path):
    def program(text, **trials):
        (tmp_path / "program.py").write_text(text)
        done = launch(tmp_path / "program.py", tmp_path, {"trials": trials})
        assert done.returncode == 0, done.stderr
        return done

    return program


def test_optimizers_beyond_the_first_ones_are_counted_together(run):
    done = run(TASKS, mode="live")
    units = {entry["name"]: entry["units"] for entry in done.entries if "units" in entry}
    assert units["training: Linear 16"] == 3
    assert units["training: other optimizers"] == 3 * (60 - adapter.OPTIMIZERS)
    assert len(units) == adapter.OPTIMIZERS + 1


def test_the_heap_is_looked_through_for_the_first_optimizers_alone(torch, session_of, monkeypatch):
    looked = []
    monkeypatch.setattr(owners.gc, "get_objects", lambda: looked.append(1) or [])
    followed = adapter.Adapter(session_of(mode="none"), torch)
    weight = torch.nn.Parameter(torch.ones(1))
    for _ in range(adapter.OPTIMIZERS + 5):
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            followed._after_step(optimizer, (), {})
    assert len(looked) == adapter.OPTIMIZERS


def test_an_optimizer_that_cannot_be_followed_is_counted_with_the_others(torch, session_of, monkeypatch):
    asked = []

    def fails(*_):
        asked.append(1)
        raise TypeError("not this one")

    monkeypatch.setattr(adapter, "Training", fails)
    session = session_of(mode="none")
    followed = adapter.Adapter(session, torch)
    after = session.guarded("steps", followed._after_step)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    for _ in range(4):
        after(optimizer, (), {})
    session.counters.write()
    assert len(asked) == len(session.record.of("fallback")) == 1
    assert session.record.states["training: other optimizers"]["units"] == 3


def test_methods_of_other_modules_are_not_called(torch):
    class Odd(torch.nn.Module):
        def parameters(self, group):
            return [self.groups[group]]

        def modules(self):
            raise NotImplementedError

    odd, net = Odd(), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    assert owners.owner(torch, torch.optim.SGD(net.parameters(), lr=0.1)) is net
    odd.net = net
    assert owners.owner(torch, torch.optim.SGD(net.parameters(), lr=0.1)) is odd
