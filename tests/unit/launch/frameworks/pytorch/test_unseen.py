"""What a call does, or depends on, beside its arguments' values and its module's weights."""

import array
import collections
import random
from types import SimpleNamespace

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import outside
from modak_deploy.launch.frameworks.pytorch.watch import Weights

SCALE, TOTAL = 1.0, 0
STAGES = {"head": {"scale": 1.0}}
FEATURES = []


class Options:
    """Settings as attributes of a class."""

    scale = 1.0


def scaled(values):
    return values * SCALE


@pytest.fixture
def follow(torch, session_of):
    """Return a function that has a module's calls followed, and returns the session."""

    def make(module, levers=("pytorch-bf16-weights",), mode="none"):
        session = session_of(list(levers), mode=mode)
        calls_module.Calls(session, torch, module)
        return session

    return make


def reasons(session):
    return [event["reason"] for event in session.record.of("no_trials") or session.record.of("not_repeated")]


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


@pytest.fixture(scope="module")
def counting(torch):
    """Return a function that makes a module whose calls change something, as a function of it does."""

    class Counting(torch.nn.Module):
        def __init__(self, change, **held):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.change = [change]
            self.__dict__.update(held)

        def forward(self, values):
            self.change[0](self)
            return self.layer(values)

    return lambda change, **held: Counting(change, **held).eval()


def count_in_an_array(module):
    module.counts[0] += 1


def count_deep(module):
    module.recorder.inner.inner.inner.inner.count += 1


def push(module):
    module.deque.append(1)


def draw(module):
    random.random()


def draw_from_own(module):
    module.source.random()


def draw_with_numpy(module):
    pytest.importorskip("numpy").random.rand()


def draw_with_numpys_generator(module):
    module.source.random()


def deep():
    return SimpleNamespace(inner=SimpleNamespace(inner=SimpleNamespace(inner=SimpleNamespace(inner=leaf()))))


def leaf():
    return SimpleNamespace(count=0)


@pytest.mark.parametrize(
    ("change", "held"),
    [
        (count_in_an_array, lambda: {"counts": pytest.importorskip("numpy").zeros(1, int)}),
        (count_in_an_array, lambda: {"counts": pytest.importorskip("numpy").zeros((3, 300, 300))[:, ::2]}),
        (count_in_an_array, lambda: {"counts": pytest.importorskip("numpy").zeros(3, "M8[s]")}),
        (count_in_an_array, lambda: {"counts": bytearray(3)}),
        (count_in_an_array, lambda: {"counts": memoryview(bytearray(3))}),
        (count_in_an_array, lambda: {"counts": array.array("l", [0])}),
        (count_in_an_array, lambda: {"counts": collections.deque([0])}),
        (count_deep, lambda: {"recorder": deep()}),
        (push, lambda: {"deque": collections.deque([1], maxlen=3)}),
        (draw, dict),
        (draw_from_own, lambda: {"source": random.Random(1)}),
        (draw_with_numpy, dict),
        (draw_with_numpys_generator, lambda: {"source": pytest.importorskip("numpy").random.default_rng()}),
    ],
)
def test_a_call_that_changes_something_is_left_alone(torch, counting, follow, change, held):
    module = counting(change, **held())
    session = follow(module)
    with torch.inference_mode():
        module(torch.ones(2, 4))
    assert reasons(session) == ["a call changes the module's state or draws random numbers"]


def test_a_call_that_fills_a_global_list_or_counts_is_left_alone(torch, follow):
    class Filling(torch.nn.Module):
        def forward(self, values):
            FEATURES.append(values)
            return values * 2

    class Totalling(torch.nn.Module):
        def forward(self, values):
            global TOTAL
            TOTAL += 1
            return values * 2

    for kind in (Filling, Totalling):
        module = kind().eval()
        session = follow(module)
        with torch.inference_mode():
            module(torch.ones(2, 4))
        assert reasons(session) == ["a call changes the module's state or draws random numbers"]


@pytest.fixture
def reading(torch):
    """Return a module that reads settings from all around."""
    local = 1.0

    def set_local(value):
        nonlocal local
        local = value

    class Base(torch.nn.Module):
        factor = 1.0

    class Reading(Base):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.options = SimpleNamespace(model=SimpleNamespace(head=SimpleNamespace(post=SimpleNamespace(scale=1.0))))
            self.table = pytest.importorskip("numpy").ones(3)
            self.set_local = [set_local]

        @torch.no_grad()
        def forward(self, values):
            return self.finish(scaled(self.layer(values))) * self.factor

        def finish(self, values):
            scales = [STAGES["head"]["scale"] * self.table[0] for _ in range(1)]
            return values * Options.scale * self.options.model.head.post.scale * local * scales[0]

    return Reading().eval()


def set_global(module, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SCALE", 3.0)


def set_in_a_global_dict(module, monkeypatch):
    monkeypatch.setitem(STAGES["head"], "scale", 3.0)


def set_in_a_class(module, monkeypatch):
    monkeypatch.setattr(Options, "scale", 3.0)


def set_in_the_modules_class(module, monkeypatch):
    monkeypatch.setattr(type(module).__mro__[1], "factor", 3.0)


def set_deep(module, monkeypatch):
    module.options.model.head.post.scale = 3.0


def set_in_a_closure(module, monkeypatch):
    module.set_local[0](3.0)


def set_in_an_array(module, monkeypatch):
    module.table[:] = 3.0


def replace_a_function(module, monkeypatch):
    monkeypatch.setattr(f"{__name__}.scaled", lambda values: values * 3.0)


@pytest.mark.parametrize(
    "change",
    [
        set_global,
        set_in_a_global_dict,
        set_in_a_class,
        set_in_the_modules_class,
        set_deep,
        set_in_a_closure,
        set_in_an_array,
        replace_a_function,
    ],
)
def test_a_setting_is_seen_to_change(torch, reading, monkeypatch, change):
    weights = Weights(torch, reading)
    reading(torch.ones(2, 4))
    assert weights.unchanged()
    change(reading, monkeypatch)
    assert not weights.unchanged()


@pytest.mark.parametrize("change", [set_global, set_deep])
def test_a_setting_that_changes_reaches_the_next_call(torch, reading, follow, monkeypatch, change):
    pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
    session = follow(reading, ["pytorch-openvino"])
    values = torch.ones(2, 4)
    with torch.inference_mode():
        before = [reading(values).clone() for _ in range(6)][-1]
        assert not session.record.of("weights_changed") and not reasons(session)
        change(reading, monkeypatch)
        after = reading(values)
    torch.testing.assert_close(after, 3 * before)
    assert session.record.of("weights_changed")


def test_other_objects_of_the_same_values_are_no_change(torch, reading):
    weights = Weights(torch, reading)
    reading.options.model.head.post.scale = float("1.0")
    assert weights.unchanged()
    reading.options.model.head.post.scale = 1  # which makes other types of results
    assert not weights.unchanged()


def test_an_array_is_compared_as_a_whole_now_and_then(torch, reading):
    numpy = pytest.importorskip("numpy")
    reading.options.table = numpy.zeros(100_000)
    weights = Weights(torch, reading)
    reading.options.table[50_000] = 1.0
    assert weights.unchanged()
    weights._next = 0.0
    assert not weights.unchanged() and weights.unseen


def test_what_is_compared_before_each_call_is_bounded(torch, reading):
    reading.options.model.head.post.tables = [[[number] * 100 for number in range(100)] for _ in range(100)]
    held = Weights(torch, reading)._held
    assert len(held._objects) < 3000
    assert held.unchanged()


def test_attribute_that_a_class_gets_before_that_of_its_base_is_seen(torch):
    class Base(torch.nn.Linear):
        factor = 1.0

        def forward(self, images):
            return super().forward(images) * self.factor

    class Net(Base):
        pass

    read = outside.Outside([Net(2, 2)])
    before = read.values()
    assert read.values() == before
    Net.factor = 2.0
    assert read.values() != before


@pytest.mark.parametrize("change", ["load", "scale", "plain", "part"])
def test_tensors_of_the_inference_mode_are_seen_to_change(torch, change):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 64)
            self.shift = torch.zeros(64)

        def forward(self, values):
            return self.layer(values) + self.shift

    with torch.inference_mode():
        module, other = Net(), Net()
        weights = Weights(torch, module)
        assert weights.unchanged()
        if change == "load":
            other.load_state_dict(module.state_dict())
            other.layer.weight[1, 1] += 1  # which no sample has
            module.load_state_dict(other.state_dict())
        if change == "scale":
            module.layer.weight.mul_(0.9)
        if change == "plain":
            module.shift.add_(1)
        if change == "part":
            module.layer.weight[10:20] = 0
        assert not weights.unchanged()


def test_memory_that_a_tensor_of_the_inference_mode_gives_back_is_not_read(torch):
    with torch.inference_mode():
        module = torch.nn.Linear(64, 64)
        weights = Weights(torch, module)
        module.weight.untyped_storage().resize_(0)
        assert not weights.unchanged()
