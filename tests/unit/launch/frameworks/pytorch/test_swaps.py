"""Weights whose content PyTorch swaps for another one, as ``half()`` does where the program wants it so (since 2.3)."""

import copy
import gc
import weakref

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.watch import ADDRESSES, Weights

LEVERS = {
    "pytorch-bf16-weights": "torch",
    "pytorch-one-thread": "torch",
    "pytorch-openvino": "openvino",
    "pytorch-onnxruntime": "onnxscript",
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning", "ignore:.*torch.jit"
)


@pytest.fixture(autouse=True)
def swapping(torch):
    """Have conversions swap contents, and no collector free what the launcher leaves."""
    if not hasattr(torch.utils, "swap_tensors"):
        pytest.skip("this version of PyTorch swaps nothing")
    torch.__future__.set_swap_module_params_on_conversion(True)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.fixture
def module(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval()


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_content_is_swapped_after_calls_that_are_observed(torch, module, session_of, calls):
    calls_module.Calls(session_of(mode="none"), torch, module)
    with torch.no_grad():
        for _ in range(calls):
            module(torch.ones(2, 4))
    assert not any(map(weakref.getweakrefcount, module.state_dict(keep_vars=True).values()))
    assert module.half()[0].weight.dtype == torch.float16


@pytest.mark.parametrize("lever", LEVERS)
def test_content_is_swapped_and_noticed_while_a_lever_is_used(torch, module, session_of, monkeypatch, lever):
    pytest.importorskip(LEVERS[lever], reason=f"{LEVERS[lever]} is not installed")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    session = session_of([lever], mode="none")
    calls_module.Calls(session, torch, module)
    plain = copy.deepcopy(module)
    with torch.no_grad():
        for _ in range(6):
            module(torch.ones(2, 4))
        assert session.record.of("chosen") and not session.record.of("fallback")
        state = {name: value * 3 for name, value in module.state_dict().items()}
        plain.load_state_dict(state)
        module.load_state_dict(state, assign=True)
        torch.testing.assert_close(module(torch.ones(2, 4)), plain(torch.ones(2, 4)), rtol=0.05, atol=0.05)
    assert session.record.of("weights_changed")
    assert not session.record.of("fallback")


@pytest.mark.parametrize("how", ["first", "second", "by name", "another's"])
def test_swapped_content_is_a_change_whatever_its_version_and_address(torch, module, how):
    weights = Weights(torch, module)
    weight, other = module[0].weight, torch.nn.Parameter(module[0].weight.detach().clone())
    if how == "first":
        torch.utils.swap_tensors(weight, other)
    elif how == "second":
        torch.utils.swap_tensors(other, weight)
    elif how == "by name":
        torch.utils.swap_tensors(t1=other, t2=weight)
    else:
        torch.utils.swap_tensors(other, torch.nn.Parameter(torch.zeros(4, 4)))
    weights._versions = [tensor._version for tensor in weights._tensors]  # as another tensor's may be
    weights._addresses = [tensor.data_ptr() for tensor in weights._all]
    assert weights.unchanged() == (how == "another's")


def test_memory_that_lies_elsewhere_is_a_change(torch, module):
    weights = Weights(torch, module)
    assert weights.unchanged()
    module[0].weight.untyped_storage().resize_(4 * 4 * 4 * 1000)
    assert not all(weights.unchanged() for _ in range(ADDRESSES))
