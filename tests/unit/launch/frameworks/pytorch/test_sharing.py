"""Weights whose memory other tensors or other processes write to."""

import gc
import sys

import pytest

from launch_parts import launch
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import sharing
from modak_deploy.launch.frameworks.pytorch.watch import Weights

PROGRAM = """
import os, sys, torch
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).eval()
if sys.argv[1] == "before":
    net.share_memory()
images = torch.ones(4, 64)
with torch.no_grad():
    for _ in range(20):
        net(images)
    if sys.argv[1] == "after":
        net.share_memory()
    child = os.fork()
    if not child:
        for weight in net.parameters():
            weight.zero_()
        os._exit(0)
    os.waitpid(child, 0)
    print(float(net(images).abs().sum()))
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells which memory is shared")


@pytest.fixture
def module(torch):
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()


@pytest.fixture
def flat(torch, module):
    """Return a tensor of which all weights are parts from now on."""
    parameters = list(module.parameters())
    whole, start = torch.cat([parameter.detach().reshape(-1) for parameter in parameters]), 0
    for parameter in parameters:
        parameter.data = whole[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    return whole


@pytest.mark.parametrize("lever", ["pytorch-bf16-weights", "pytorch-openvino"])
def test_what_is_written_to_a_flat_tensor_reaches_the_next_call(torch, module, flat, session_of, lever):
    if lever == "pytorch-openvino":
        pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
    session = session_of([lever], mode="none")
    calls_module.Calls(session, torch, module)
    with torch.no_grad():
        for _ in range(6):
            assert bool(module(torch.ones(2, 16)).any())
        assert not session.record.of("weights_changed") and not session.record.of("fallback")
        flat.zero_()
        assert not module(torch.ones(2, 16)).any()
    assert session.record.of("weights_changed")


def whole(flat):
    flat.mul_(2)


def view(flat):
    flat[3:5].view(1, 2).fill_(1.0)


def data(flat):
    flat.data[3] = 1.0


def out(flat):
    flat.detach().copy_(flat * 2)


@pytest.mark.parametrize("change", [whole, view, data, out])
@pytest.mark.parametrize("counts", [True, False], ids=["users are counted", "users are not counted"])
def test_what_is_written_to_a_flat_tensor_is_seen(torch, module, flat, monkeypatch, change, counts):
    if not counts:
        monkeypatch.delattr(torch._C, "_storage_Use_Count", raising=False)
    weights = Weights(torch, module)
    assert weights.unchanged()
    change(flat)
    assert not weights.unchanged()


def test_array_that_two_tensors_are_made_of_is_one_memory(torch):
    numpy = pytest.importorskip("numpy")
    array = numpy.ones((4, 4), "float32")
    module = torch.nn.Linear(4, 4)
    module.weight = torch.nn.Parameter(torch.from_numpy(array))
    other = torch.from_numpy(array)
    weights = Weights(torch, module)
    assert weights.unchanged()
    other.zero_()
    assert not weights.unchanged()


def test_neighbours_in_memory_are_others_weights(torch):
    memory = torch.zeros(2, 16)
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    for number, module in enumerate((first, second)):
        module.weight.data = memory[number].view(4, 4)
    del memory, module
    weights = Weights(torch, first)
    with torch.no_grad():
        second.weight.fill_(1.0)
        assert weights.unchanged()
        first.weight.fill_(1.0)
        assert not weights.unchanged()


def test_the_collector_is_not_asked_where_nothing_else_has_the_memory(torch, module, monkeypatch):
    monkeypatch.setattr(gc, "get_objects", None)
    assert not sharing.others(torch, list(module.parameters()))
    module[2].weight = torch.nn.Parameter(module[0].weight[:4])  # two of them in one memory
    assert not sharing.others(torch, list(module.parameters()))


def test_no_method_of_a_class_of_the_programs_is_called(torch, module, flat):
    class Counting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise ValueError("the program's own")

    counting = torch.Tensor._make_subclass(Counting, flat)
    shared = sharing.others(torch, list(module.parameters()))
    assert any(tensor is counting for tensor in shared) and any(tensor is flat for tensor in shared)


@linux
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_another_process_writes_reaches_the_next_call(torch, tmp_path, when):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    config = {"levers": ["pytorch-bf16-weights"]}
    result = launch([sys.executable, str(script), when], tmp_path, config, bf16=True)
    assert result.stdout == "0.0\n", result.stderr
    reasons = [entry["reason"] for entry in result.entries if entry["event"] in ("not_offered", "fallback")]
    assert len(reasons) == 1 and sharing.SHARED in reasons[0]


@linux
@pytest.mark.parametrize("kind", ["shared", "array of a file", "copied array of a file", "mapped file", "plain"])
def test_memory_that_other_processes_write_to_is_told_apart(torch, module, tmp_path, kind):
    numpy = pytest.importorskip("numpy")
    if kind == "shared":
        module.share_memory()
    elif kind.endswith("array of a file"):
        numpy.zeros((16, 16), "float32").tofile(tmp_path / "weights")
        mode = "c" if kind.startswith("copied") else "r+"
        array = numpy.memmap(tmp_path / "weights", "float32", mode, shape=(16, 16))
        module[0].weight = torch.nn.Parameter(torch.from_numpy(array))
    elif kind == "mapped file":
        torch.save(module.state_dict(), tmp_path / "weights.pt")
        module.load_state_dict(torch.load(tmp_path / "weights.pt", mmap=True), assign=True)
    written = kind in ("shared", "array of a file")
    assert sharing.refusal(torch, module) == (sharing.SHARED if written else None)


@pytest.mark.parametrize("kind", ["shared", "plain"])
def test_systems_that_do_not_tell_have_no_levers_for_shared_memory(torch, module, monkeypatch, tmp_path, kind):
    monkeypatch.setattr(sharing, "MAPS", str(tmp_path / "none"))
    if kind == "shared":
        module.share_memory()
    assert sharing.refusal(torch, module) == (sharing.SHARED if kind == "shared" else None)


def test_tensors_without_memory_are_not_asked_for_it(torch, module, flat, recwarn):
    import torch._subclasses.fake_tensor as fake

    weights = list(module.parameters())
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # PyTorch would warn of it once
    try:
        with fake.FakeTensorMode():
            left = torch.ones(3)
        found = sharing.others(torch, weights)
    finally:
        torch.set_warn_always(before)
    assert any(tensor is flat for tensor in found) and all(tensor is not left for tensor in found)
    assert not recwarn.list
