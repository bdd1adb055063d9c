"""Methods that classes of the program get once levers are in use."""

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.outside import STARTS, Outside
from modak_deploy.launch.frameworks.pytorch.watch import Weights

ENGINES = {"pytorch-openvino": "openvino", "pytorch-onnxruntime": "onnxscript", "pytorch-bf16-weights": "torch"}


@pytest.fixture
def classes(torch):
    """Return classes of a test's own: a base with a ``forward``, one that inherits it, and a container."""

    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, values):
            return self.layer(values)

    class Derived(Base):
        pass

    class Container(torch.nn.Sequential):
        pass

    return Base, Derived, Container


def nothing(module, values):
    return values * 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("lever", ENGINES)
def test_a_forward_in_the_place_of_another_does_the_next_call(torch, classes, session_of, lever):
    pytest.importorskip(ENGINES[lever], reason=f"{ENGINES[lever]} is not installed")
    base, derived, container = classes
    module = container(derived()).eval()
    session = session_of([lever], mode="none")
    calls_module.Calls(session, torch, module)
    with torch.no_grad():
        for _ in range(6):
            assert bool(module(torch.ones(2, 4)).any())
        assert not session.record.of("weights_changed") and not session.record.of("fallback")
        base.forward = nothing
        assert not module(torch.ones(2, 4)).any()
    assert session.record.of("weights_changed")


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_a_call_begins_with_is_seen_to_change_in_each_class(torch, classes, name, number):
    _, derived, container = classes
    module = container(derived()).eval()
    weights = Weights(torch, module)
    assert weights.unchanged()
    setattr(classes[number], name, nothing)
    assert not weights.unchanged()


def test_a_forward_that_is_taken_away_is_seen(torch, classes):
    _, derived, _ = classes
    derived.forward = nothing
    outside = Outside([derived()])
    before = outside.values()
    assert outside.values() == before
    del derived.forward
    assert outside.values() != before


def test_another_class_of_a_module_is_seen(torch, classes):
    base, derived, _ = classes
    module = derived()
    weights = Weights(torch, module)
    module.__class__ = base
    assert not weights.unchanged()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("lever", ENGINES)
def test_new_tensors_of_another_format_are_made_by_the_module_itself(torch, session_of, lever):
    pytest.importorskip(ENGINES[lever], reason=f"{ENGINES[lever]} is not installed")

    class Adds(torch.nn.Linear):
        def forward(self, values):
            return torch.zeros(4) + super().forward(values)

    module = Adds(4, 4).eval()
    session = session_of([lever], mode="none")
    calls_module.Calls(session, torch, module)
    values = torch.ones(2, 4)
    with torch.no_grad():
        for _ in range(6):
            assert module(values).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert module(values).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
