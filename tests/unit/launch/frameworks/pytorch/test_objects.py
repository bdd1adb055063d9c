"""Modules and optimizers whose classes say themselves which of their objects are equal, or have no hash."""

import gc

import pytest

from launch_parts import launch
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.objects import Table, modules_of

DATA_CLASS = """
import dataclasses, torch

@dataclasses.dataclass
class Net(torch.nn.Module):
    width: int
    def __post_init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(self.width, 2)
    def forward(self, images):
        return self.layer(images)

nets = [Net(4).eval(), Net(4).eval()]
"""
WITHOUT_HASH = """
import torch

class Net(torch.nn.Linear):
    def __hash__(self):
        raise KeyError("the program's own")

nets = [Net(4, 2).eval(), Net(4, 2).eval()]
"""
ALL_EQUAL = """
import torch

class Net(torch.nn.Linear):
    def __hash__(self):
        return 1
    def __eq__(self, other):
        return True

nets = [Net(4, 2).eval(), Net(4, 2).eval()]
"""
EQUAL_AS_TENSORS = """
import torch

class Net(torch.nn.Linear):
    def __hash__(self):
        return 1
    def __eq__(self, other):
        return self.weight == other.weight

nets = [Net(4, 2).eval(), Net(4, 2).eval()]
"""
CALLS = """
with torch.no_grad():
    for net in nets:
        for _ in range(300):
            result = net(torch.ones(3, 4))
        inner = getattr(net, "layer", net)
        assert torch.equal(result, torch.nn.functional.linear(torch.ones(3, 4), inner.weight, inner.bias))
print("done")
"""
TRIALS = {"trials": {"mode": "live", "units": 600, "share": 0.5, "candidates": ["pytorch-one-thread"]}}


STEPS = """
parameters = [weight for net in nets for weight in getattr(net, "layer", net)._parameters.values()]
optimizer = torch.optim.SGD(parameters[:2], 0.1)
for _ in range(20):
    optimizer.zero_grad()
    nets[0].train()(torch.ones(3, 4)).sum().backward()
    optimizer.step()
print("done")
"""


@pytest.mark.parametrize("config", [{}, TRIALS, {"levers": ["pytorch-one-thread"]}], ids=["none", "trials", "lever"])
@pytest.mark.parametrize("nets", [DATA_CLASS, WITHOUT_HASH, ALL_EQUAL, EQUAL_AS_TENSORS], ids=range(4))
def test_modules_of_such_classes_are_counted_and_left_alone(torch, tmp_path, nets, config):
    script = tmp_path / "program.py"
    script.write_text(nets + CALLS)
    result = launch(script, tmp_path, config)
    assert result.stdout == "done\n" and not result.stderr
    units = {entry["name"]: entry["units"] for entry in result.entries if "units" in entry}
    assert units == {"inference: Net": 300, "inference: Net 2": 300}


@pytest.mark.parametrize("nets", [DATA_CLASS, WITHOUT_HASH, ALL_EQUAL], ids=range(3))
def test_trainings_of_such_modules_are_counted(torch, tmp_path, nets):
    script = tmp_path / "program.py"
    script.write_text(nets + STEPS)
    config = {"trials": {"mode": "live", "units": 20, "share": 0.5, "candidates": ["pytorch-foreach-optimizer"]}}
    result = launch(script, tmp_path, config)
    assert result.stdout == "done\n" and not result.stderr
    assert [entry["units"] for entry in result.entries if entry.get("name") == "training: Net"] == [20]
    (event,) = (entry for entry in result.entries if entry["event"] == "no_trials")
    assert "equal" in event["reason"]


def test_no_lever_is_tried_on_a_module_with_an_equality_of_its_own(torch, session_of):
    class Same(torch.nn.Linear):
        def __eq__(self, other):
            return type(other) is Same

        def __hash__(self):
            return 1

    session = session_of(["pytorch-bf16-weights"], mode="none")
    module = torch.nn.Sequential(Same(4, 4), Same(4, 4)).eval()
    calls_module.Calls(session, torch, module)
    with torch.inference_mode():
        for _ in range(5):
            module(torch.ones(2, 4))
    (event,) = session.record.of("no_trials")
    assert event["reason"] == "it is or holds a Same, whose class says itself which of its objects are equal"
    assert session.evaluations == 5


def test_modules_are_those_of_pytorch_in_its_order(torch):
    inner = torch.nn.Linear(4, 4)
    root = torch.nn.ModuleDict({"b": torch.nn.Sequential(inner, torch.nn.ReLU()), "a": inner})
    root.register_module("none", None)
    assert list(map(id, modules_of(root))) == list(map(id, root.modules()))


def test_entries_go_with_their_objects():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise ValueError

    table: Table[str] = Table()
    first, second = Odd(), Odd()
    table[first], table[second] = "first", "second"
    assert (table.get(first), table.get(second), table.get(Odd())) == ("first", "second", None)
    assert first in table and Odd() not in table
    del first
    gc.collect()
    assert len(table) == 1 and table.values() == ["second"]
