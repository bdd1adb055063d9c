"""Modules done by real OpenVINO: results in the program's form, and what cannot be converted stays as it is."""

import logging

import pytest

from exported_parts import Clock, module_maker
from modak_deploy.launch.frameworks.pytorch import bf16, inference
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.kinds import Subject
from modak_deploy.launch.frameworks.pytorch.openvino import Converted, _other_numbers
from modak_deploy.launch.lever import levers
from modak_deploy.launch.structures import Unsupported

pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
EXACT, RELAXED = "pytorch-openvino", "pytorch-openvino-bf16"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    own = Converted.__call__

    def call(converted, *args, **kwargs):
        result = own(converted, *args, **kwargs)
        Clock.now += 0.25
        return result

    Clock.now = 0.0
    monkeypatch.setattr(Converted, "__call__", call)
    monkeypatch.setattr(inference.Inference, "now", lambda self, search: Clock.now)
    monkeypatch.setattr(bf16, "refusal", lambda torch, device: None)


@pytest.fixture(scope="module")
def net(torch):
    return module_maker(torch)


@pytest.fixture
def images(torch):
    torch.manual_seed(1)
    return torch.randn(2, 3, 8, 8)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("kind", ["tensor", "mapping"])
def test_results_have_the_values_and_the_form_of_the_modules(torch, net, images, kind, precision):
    model = net(kind)
    with torch.inference_mode():
        wanted, result = model(images, scale=0.5), Converted(torch, model, precision)(images, scale=0.5)
    assert type(result) is type(wanted)
    if kind == "mapping":
        assert result["name"] == "net" and result["pair"][1] is None
        assert result["kinds"].dtype == torch.int64
        result, wanted = result["scores"], wanted["scores"]
    assert result.dtype == wanted.dtype
    assert torch.allclose(result, wanted, rtol=0.0, atol=1e-5 if precision == "f32" else 0.05)


def test_each_form_of_the_arguments_has_a_program_of_its_own(torch, net, images):
    model = net()
    converted = Converted(torch, model, "f32")
    mask = torch.tensor([[True, False, False, True]])
    for given in ({}, {"scale": 0.5}, {"mask": mask}, {"mask": ~mask}, {"scale": 2}):
        for batch in (images, images[:1]):
            with torch.no_grad():
                assert torch.allclose(converted(batch, **given), model(batch, **given), atol=1e-5), given


def test_a_result_is_not_written_to_by_the_next_call(torch, net, images):
    converted = Converted(torch, net(), "f32")
    first = converted(images)
    before = first.clone()
    converted(images * 2)
    assert torch.equal(first, before)


def test_a_result_has_memory_of_pytorchs(torch, net, images):
    result = Converted(torch, net(), "f32")(images)
    before = result.clone()
    assert torch.equal(result.resize_(3, 4)[:2], before)
    assert result.share_memory_().is_shared()


def test_arguments_of_another_layout_and_views_are_read_as_they_are(torch, net, images):
    model = net()
    converted = Converted(torch, model, "f32")
    with torch.no_grad():
        for given in (images.contiguous(memory_format=torch.channels_last), images.flip(0), images.mT):
            assert torch.allclose(converted(given), model(given), atol=1e-5)


def test_the_programs_logging_and_warnings_stay_as_they_are(torch, net, images, monkeypatch, capfd):
    monkeypatch.setattr(logging.root, "handlers", [])
    Converted(torch, net(), "f32")(images)
    assert logging.root.handlers == []
    assert logging.root.manager.disable == logging.NOTSET
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def follow(torch, session_of):
    def make(model, **options):
        session = session_of(candidates=[RELAXED, EXACT], units=400, **options)
        return session, calls_module.Calls(session, torch, model)

    return make


def called(torch, model, images, calls):
    with torch.inference_mode():
        return [model(images) for _ in range(calls)]


@pytest.mark.parametrize(("numerics", "winner"), [("exact", EXACT), ("relaxed", RELAXED)])
def test_it_is_tried_in_the_precision_that_is_permitted(torch, net, images, follow, numerics, winner):
    model = net()
    (plain,) = called(torch, model, images, 1)
    session, _ = follow(model, numerics=numerics)
    results = called(torch, model, images, 60)
    assert session.record.of("settled")[-1]["variant"] == winner
    assert [entry["variant"] for entry in session.record.of("trial")] == [winner]
    assert all(torch.allclose(result, plain, atol=1e-5 if numerics == "exact" else 0.05) for result in results)


def test_weights_that_change_are_those_of_the_next_call(torch, net, images, follow):
    model = net()
    session, _ = follow(model, numerics="exact")
    called(torch, model, images, 60)
    with torch.no_grad():
        model.head.weight.mul_(3)
    wanted = net()
    wanted.load_state_dict(model.state_dict())
    with torch.inference_mode():
        assert torch.allclose(model(images), wanted(images), atol=1e-5)
    assert session.record.of("weights_changed")


@pytest.mark.parametrize(("kind", "traced"), [("tensor", True), ("branch", False)])
def test_what_can_be_traced_is_expected_to_be_ready_sooner(torch, net, images, follow, kind, traced):
    model = net(kind)
    _, calls = follow(model, numerics="exact")
    called(torch, model, images, 4)
    (search,) = calls.inference._searches.values()
    (lever,) = (lever for lever in levers("pytorch") if lever.name == EXACT)
    assert search._prospects.costs[EXACT] == lever.making(Subject(torch, model, guide=traced))
    assert lever.making(Subject(torch, model, guide=True)) < 1 < lever.making(Subject(torch, model))


def test_a_module_that_decides_by_values_keeps_its_own_way(torch, net, images, follow):
    model, same = net("branch"), net("branch")
    session, _ = follow(model, numerics="exact")
    results, plain = called(torch, model, images, 40), called(torch, same, images, 1)
    assert all(torch.equal(result, plain[0]) for result in results)
    (fallback,) = session.record.of("fallback")
    assert fallback["what"] == EXACT
    assert "data-dependent" in fallback["reason"].lower()


def test_an_old_openvino_is_not_used(torch, net, images, follow, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2024.6.0")
    model = net()
    session, _ = follow(model, numerics="exact")
    called(torch, model, images, 10)
    assert session.record.of("not_offered")[-1]["reason"] == "OpenVINO 2024.6.0 is older than 2025.1"


def viewed_before(tensor):
    view = tensor.flatten()
    tensor.clamp_(-3, 3)
    return view


INFINITE = float("inf")
NUMBERS = {
    "hash": (lambda torch, x: (x * 1000003).bitwise_and(7), "may not fit their type"),
    "square of rounded": (lambda torch, x: (x.float() * 1.5).long() ** 2, "may not fit their type"),
    "double": (lambda torch, x: (x.double() * 1.5).sin().float(), "double precision"),
    "quotient": (lambda torch, x: x // 3, "rounds quotients"),
    "position": (lambda torch, x: x.ne(1).int().cumsum(1) * x.ne(1).int() + 1, None),
    "sum": (lambda torch, x: x.sum(1) - 3, None),
    "remainder": (lambda torch, x: x.float() % 0.3, "remainders"),
    "remainder of whole numbers": (lambda torch, x: (x - 5) % 3, None),
    "logarithm": (lambda torch, x: x.float().sigmoid().log(), "logarithms"),
    "product": (lambda torch, x: x.prod(1), "may not fit their type"),
    "a constant to compare with": (lambda torch, x: x == 2**24 + 1, "constants of whole numbers"),
    "constants to choose from": (lambda torch, x: torch.tensor([1, 2**31] * 6)[x], "constants of whole numbers"),
    "bags of words": (
        lambda torch, x: torch.nn.functional.embedding_bag(x, torch.ones(12, 4), padding_idx=2),
        "left out of a bag",
    ),
    "decimals": (lambda torch, x: (x / 7).round(decimals=1), "to whole ones"),
    "floor": (lambda torch, x: x.float() // 0.1, "before they are cut off"),
    "largest of none": (lambda torch, x: (x / 7).masked_fill(x > 3, -INFINITE).amax(-1), "minus infinity"),
    "order": (lambda torch, x: (x / 7).sort(-1, descending=True)[0], None),
    "places": (lambda torch, x: (x / 7).argsort(-1), "equal numbers"),
    "threshold": (lambda torch, x: torch.nn.functional.softplus(x / 7, threshold=1), "usual threshold"),
    "parts that are written": (lambda torch, x: viewed_before(x - 5.0), None),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_openvino_computes_otherwise_are_the_programs(torch, kind):
    forward, reason = NUMBERS[kind]

    class Net(torch.nn.Module):
        def forward(self, x):
            return forward(torch, x)

    model, given = Net().eval(), torch.arange(12).reshape(3, 4)
    with torch.no_grad():
        if reason is None:
            assert torch.equal(Converted(torch, model, "f32")(given), model(given))
        else:
            with pytest.raises(Unsupported, match=reason):
                Converted(torch, model, "f32")(given)


NAMES = ("then", "else")


@pytest.mark.parametrize("kind", NAMES)
def test_numbers_within_a_branch_are_seen(kind):
    openvino = pytest.importorskip("openvino")
    operators = pytest.importorskip("openvino.opset13")
    whole, truth = openvino.Type.i64, openvino.Type.boolean
    given, chosen = operators.parameter([3], whole), operators.parameter([], truth)
    inner = [operators.parameter([3], whole) for _ in range(2)]
    three = operators.constant([3, 3, 3], whole)
    made = [
        (operators.divide if name == kind else operators.add)(one, three)
        for name, one in zip(NAMES, inner, strict=True)
    ]
    bodies = [openvino.Model([node], [one]) for node, one in zip(made, inner, strict=True)]
    branch = operators.if_op(chosen)
    branch.set_then_body(bodies[0])
    branch.set_else_body(bodies[1])
    branch.set_input(given.output(0), *inner)
    result = branch.set_output(*(body.results[0] for body in bodies))
    assert "rounds quotients" in (_other_numbers(openvino.Model([result], [chosen, given])) or "")


def test_large_whole_numbers_are_the_programs(torch):
    class Same(torch.nn.Module):
        def forward(self, x):
            return x == x.flip(0)

    converted, given = Converted(torch, Same().eval(), "f32"), torch.tensor([2**24, 0, 2**24])
    assert converted(given).all()
    with pytest.raises(OverflowError, match="beyond 24 bits"):
        converted(torch.tensor([2**24 + 1, 0, 2**24]))
