"""Modules are freed when the program drops them, with all that the launcher has made of them."""

import gc
import importlib
import weakref

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from module_parts import BF16, best, run

ENGINES = {
    "pytorch-openvino": "openvino",
    "pytorch-onnxruntime": "onnxscript",
    "pytorch-channels-last": "torch",
    "pytorch-bf16-weights": "torch",
    "pytorch-one-thread": "torch",
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning", "ignore:.*torch.jit"
)


@pytest.fixture
def net(torch):
    """Return a function that makes a module."""

    def make():
        return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)).eval()

    return make


@pytest.fixture
def without_collector():
    """What is freed is freed at once."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def called(torch, module):
    with torch.no_grad():
        for _ in range(8):
            module(torch.ones(2, 3, 8, 8))


def memory_of(module):
    reductions = importlib.import_module("torch.multiprocessing.reductions")
    return reductions.StorageWeakRef(next(module.parameters()).untyped_storage())


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("lever", ENGINES)
def test_module_on_which_a_lever_is_used_goes_with_its_last_reference(torch, net, session_of, monkeypatch, lever):
    pytest.importorskip(ENGINES[lever], reason=f"{ENGINES[lever]} is not installed")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    module, session = net(), session_of([lever], mode="none")
    calls_module.Calls(session, torch, module)
    called(torch, module)
    (chosen,) = session.record.of("chosen")
    assert chosen["variant"] == lever and not session.record.of("fallback")
    if ENGINES[lever] != "torch":
        gc.collect()  # what exporters leave
    gone, memory = weakref.ref(module), memory_of(module)
    del module
    assert gone() is None
    assert memory.expired()
    session.counters.write()
    assert session.record.states["inference: Sequential"]["units"] == 8


def test_module_of_which_conversions_are_kept_goes_too(torch, net, session_of, tmp_path):
    pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
    for _ in range(2):
        torch.manual_seed(0)
        module, session = net(), session_of(["pytorch-openvino"], mode="none", cache=tmp_path)
        calls_module.Calls(session, torch, module)
        called(torch, module)
        gone = weakref.ref(module)
        del module
        gc.collect()
        assert gone() is None
    assert session.record.of("cached")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("kind", ["tensor", "wrong"])
def test_module_goes_whatever_the_trials_have_settled_on(torch, models, follow, kind):
    module = models(kind)
    module.finisher = module.finish  # which leads back to it
    session, calls = follow(module)
    run(torch, module, 60)
    assert best(session) == (BF16 if kind == "tensor" else "default")
    assert (calls.inference._weights is None) == (kind == "wrong")
    if kind == "tensor":
        del module.finisher  # of which the copy has one as well
        run(torch, module, 20)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
