"""What a call does, or depends on, beside its arguments' values and its module's weights."""

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module


@pytest.fixture
def follow(torch, session_of):
    """Return a function that has a module's calls followed, and returns the session."""

    def make(module, levers=("pytorch-bf16-weights",), mode="none"):
        session = session_of(list(levers), mode=mode)
        calls_module.Calls(session, torch, module)
        return session

    return make


def reasons(session):
    return [event["reason"] for event in session.record.of("no_trials")]


@pytest.fixture(scope="module")
def backbone(torch):
    class Backbone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, values, features=None, options=None):
            result = self.layer(values)
            if isinstance(features, list):
                features.append(result)
            if isinstance(features, dict):
                features["last"] = result
            if options:
                options[0]["calls"] += 1
            return result

    return lambda: Backbone().eval()


@pytest.mark.parametrize("plain_calls", [0, 2, 6])
@pytest.mark.parametrize("container", [list, dict])
def test_a_container_of_the_callers_is_filled(torch, backbone, follow, plain_calls, container):
    module = backbone()
    session = follow(module)
    values = torch.ones(2, 4)
    with torch.inference_mode():
        for _ in range(plain_calls):
            module(values)
        for _ in range(8):
            features = container()
            module(values, features)
            assert len(features) == 1
    assert reasons(session) == ["a call changes its arguments"]


def test_a_number_in_the_arguments_is_counted_up(torch, backbone, follow):
    module, options = backbone(), ({"calls": 0},)
    session = follow(module)
    with torch.inference_mode():
        for _ in range(8):
            module(torch.ones(2, 4), options=options)
    assert options[0]["calls"] == 8
    assert reasons(session) == ["a call changes its arguments"]


def test_a_list_that_stays_as_it_is_keeps_nothing_from_being_tried(torch, backbone, follow):
    module = backbone()
    session = follow(module)
    with torch.inference_mode():
        for _ in range(8):
            module(torch.ones(2, 4), None, [])
    assert not reasons(session)


def test_derivatives_that_are_computed_forwards_stay(torch, backbone, follow):
    forward_ad = pytest.importorskip("torch.autograd.forward_ad")
    module = backbone()
    follow(module)
    values, direction = torch.ones(2, 4), torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(8):
            module(values)
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(module(forward_ad.make_dual(values, direction))).tangent
        assert tangent is not None
        torch.testing.assert_close(tangent, direction @ module.layer.weight.t())
