"""What a program does with a module's results is the same whichever variant they come from."""

import dataclasses

import pytest

from modak_deploy.launch.frameworks.pytorch import outputs
from modak_deploy.launch.frameworks.pytorch.exported import Exported
from module_parts import BF16, Clock, best, calls_of

pytestmark = pytest.mark.usefixtures("clock")


class Items(dict):
    """Items that are attributes as well, as in many programs."""

    def __init__(self, **items):
        super().__init__(items)
        self.__dict__ = self


@pytest.fixture
def net(torch):
    """Return a module whose result is made of its argument and its scores."""

    class Net(torch.nn.Module):
        def __init__(self, result):
            super().__init__()
            self.head = torch.nn.Linear(4, 4)
            self.result = result

        def forward(self, values, **more):
            Clock.spend(self.head.weight.dtype)
            return self.result(values, self.head(values), **more)

    def make(result):
        torch.manual_seed(0)
        return Net(result).eval()

    return make


def called(torch, model, *calls, times=1):
    """Return the last of some calls' results."""
    with torch.no_grad():
        for _ in range(times):
            results = [model(*args, **more) for args, more in calls]
    return results[-1]


def test_calls_of_another_kind_have_results_of_their_own_format(torch, net, follow):
    model = net(lambda values, scores, labels=False: scores.argmax(-1) if labels else scores)
    session, _ = follow(model)
    scores, labels = ((torch.rand(2, 4),), {}), ((torch.rand(2, 4),), {"labels": True})
    wanted = called(torch, model, scores)
    called(torch, model, scores, times=40)
    assert best(session) == BF16
    called(torch, model, scores, labels, times=40)
    assert called(torch, model, labels).dtype == torch.int64
    assert torch.allclose(called(torch, model, scores), wanted, atol=0.05)


@pytest.mark.parametrize("layout", ["transposed", "slice", "channels last"])
def test_dimensions_lie_in_memory_as_the_program_may_join_them(torch, net, follow, layout):
    def result(values, scores):
        if layout == "transposed":
            return scores.transpose(1, 2)
        return scores[:, :2].transpose(0, 1) if layout == "slice" else scores.permute(2, 0, 1)

    model = net(result)
    session, _ = follow(model)
    call = ((torch.rand(3, 5, 4),), {})
    order = called(torch, model, call).stride()
    last = called(torch, model, call, times=40)
    assert best(session) == BF16
    assert last.stride() == order
    if layout != "slice":
        outermost = sorted(range(3), key=lambda number: -order[number])
        assert last.permute(outermost).view(-1).shape == (last.numel(),)


def test_an_argument_that_is_returned_is_the_programs(torch, net, follow):
    model = net(lambda values, scores: (scores, {"values": values}))
    session, _ = follow(model)
    values = torch.rand(2, 4)
    _, others = called(torch, model, ((values,), {}), times=40)
    assert best(session) == BF16
    assert others["values"] is values


def test_a_tensor_that_is_returned_twice_is_one(torch, net, follow):
    model = net(lambda values, scores: {"scores": scores, "all": [scores * 2, scores]})
    session, _ = follow(model)
    last = called(torch, model, ((torch.rand(2, 4),), {}), times=40)
    assert best(session) == BF16
    assert last["scores"] is last["all"][1] and last["scores"] is not last["all"][0]


@pytest.mark.parametrize("what", ["arguments", "weights"])
def test_a_module_that_returns_a_part_of_what_is_the_programs_is_left_alone(torch, net, follow, what):
    model = net(lambda values, scores: (scores, values[:1] if what == "arguments" else model.head.weight))
    session, _ = follow(model)
    called(torch, model, ((torch.rand(2, 4),), {}), times=10)
    assert session.record.of("not_repeated")[0]["reason"] == "a result is a part of the arguments or weights"


def test_items_that_are_attributes_as_well_are_both(torch, net, follow):
    model = net(lambda values, scores: Items(scores=scores))
    session, _ = follow(model)
    last = called(torch, model, ((torch.rand(2, 4),), {}), times=40)
    assert best(session) == BF16
    assert last.scores is last["scores"] and last.scores.dtype == torch.float32


def test_a_result_with_more_than_its_fields_is_the_programs_own(torch, net, follow):
    @dataclasses.dataclass
    class Scores:
        scores: object

        def __post_init__(self):
            self.likely = self.scores.softmax(-1)

    model = net(lambda values, scores: Scores(scores))
    session, _ = follow(model)
    last = called(torch, model, ((torch.rand(2, 4),), {}), times=40)
    assert "has attributes beside its items" in session.record.of("not_repeated")[0]["reason"]
    assert torch.equal(last.likely, last.scores.softmax(-1))


def test_an_exported_module_returns_arguments_and_what_is_twice_as_one(torch, net):
    class Negated(Exported):
        def made(self, graph, tensors, keep=None):
            return lambda given: [tensor * -1 for tensor in given]

        def _graph(self, observed):
            observed.flat(*observed.tensors)

    model = net(lambda values, scores: Items(values=values, scores=scores, again=[scores]))
    values = torch.ones(2, 4)
    result = Negated(torch, model)(values)
    assert result.values is values
    assert torch.equal(result.scores, -values) and result.scores is result.again[0]


def test_complex_results_differ_by_their_imaginary_parts(torch):
    left = torch.complex(torch.ones(4), torch.ones(4))
    assert outputs.difference(torch, left, left.conj())[0] == pytest.approx(2**0.5)
    assert outputs.difference(torch, left, left) == (0.0, None)


def test_sizes_that_take_turns_keep_the_forms_of_their_results(torch, net, follow):
    model = net(lambda values, scores: [row.clone() for row in scores])
    follow(model)
    calls = [((torch.rand(rows, 4),), {}) for rows in (2, 4)]
    for call in [*calls, *calls, *calls] * 10:
        assert len(called(torch, model, call)) == len(call[0][0])


def test_results_that_lie_transposed_do_so_whatever_was_compared_last(torch, net, follow):
    model = net(lambda values, scores: scores.transpose(0, 1))
    session, _ = follow(model)
    many, one = (((torch.rand(rows, 4),), {}) for rows in (8, 1))
    called(torch, model, many, times=40)
    assert best(session) == BF16
    called(torch, model, one, times=40)
    assert called(torch, model, many).transpose(0, 1).is_contiguous()


def test_an_argument_that_is_returned_is_the_argument_in_any_layout(torch, net, follow):
    model = net(lambda values, scores: (scores, values))
    session, _ = follow(model)
    values = torch.rand(4, 4)
    called(torch, model, ((values,), {}), times=40)
    assert best(session) == BF16
    turned = values.t()
    assert called(torch, model, ((turned,), {}))[1] is turned


def test_a_part_of_a_tensor_is_not_copied_to_lie_as_another(torch):
    part = torch.rand(2, 5, 3)[:, :-1]
    wanted = outputs.form(torch, part)
    result = torch.rand(2, 5, 3)[:, :-1]
    assert outputs.restore(torch, result, wanted) is result


def test_results_lie_in_memory_as_the_arguments_have_it(torch, net, follow):
    model = net(lambda values, scores: values * scores.mean())
    session, _ = follow(model)
    plain, turned = ((torch.rand(4, 4),), {}), ((torch.rand(4, 4).t(),), {})
    called(torch, model, plain, times=40)
    assert best(session) == BF16
    for call in [turned, plain, turned, plain] * 10:
        assert called(torch, model, call).is_contiguous() == (call is plain)


def test_other_tensors_are_another_structure(torch):
    class Image(torch.Tensor):
        pass

    plain = torch.ones(4)
    for other in (plain.as_subclass(Image), torch.ones(4, requires_grad=True)):
        assert outputs.difference(torch, other, plain) == (None, "the result has another structure")
        assert outputs.difference(torch, other, other) == (0.0, None)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_differences_are_relative_whatever_the_size(torch, scale):
    left = torch.ones(4) * scale
    assert outputs.difference(torch, left, left * 1.5)[0] == pytest.approx(0.5)
    assert outputs.difference(torch, left, left * 0)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("mask", [-1e9, -1e4, float("-inf"), -3e38])
def test_a_mask_does_not_outweigh_the_rest(torch, mask):
    left, other = torch.tensor([1.0, mask, 2.0]), torch.tensor([2.0, mask, 1.0])
    assert outputs.difference(torch, left, left) == (0.0, None)
    assert outputs.difference(torch, left, other)[0] > 0.5
    assert outputs.difference(torch, left, torch.tensor([1.0, 0.0, 2.0])) != (0.0, None)


def test_numbers_in_common_are_not_those_that_lie_side_by_side(torch):
    whole = torch.ones(4, 6)
    assert not outputs.overlapping(torch, (whole[:, :3], whole[:, 3:], torch.ones(2)))
    assert not outputs.overlapping(torch, {"a": whole, "b": [whole]})
    for other in (whole[:1], whole.flatten(), whole.view(torch.int32), whole[:1, :1].expand(4, 6)):
        assert outputs.overlapping(torch, [whole, other])


LAYOUTS = {
    "expanded": lambda x: x[:, :1].expand(-1, 6),
    "expanded from one": lambda x: x.sum().expand(3, 5),
    "first words": lambda x: x.reshape(2, 2, 6)[:, 0],
    "every other": lambda x: x[:, ::2],
    "windows": lambda x: x[0].unfold(0, 3, 1),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_results_with_gaps_or_numbers_in_several_places_lie_in_memory_as_the_programs(torch, kind):
    own = LAYOUTS[kind](torch.rand(4, 6))
    wanted = outputs.form(torch, own)
    result = outputs.restore(torch, own.contiguous(), wanted)
    assert torch.equal(result, own)
    assert result.stride() == own.stride() and result.is_contiguous() == own.is_contiguous()
    assert outputs.restore(torch, result, wanted) is result
    half = outputs.restore(torch, own.bfloat16(), wanted)
    assert half.dtype == own.dtype and half.stride() == own.stride()
    if kind.startswith("expanded"):
        with pytest.raises(RuntimeError, match="single memory location"):
            result.add_(1)


def test_results_of_other_sizes_and_with_large_gaps_stay_as_they_are(torch, monkeypatch):
    wanted = outputs.form(torch, torch.rand(4, 6)[:, ::2])
    dense = torch.rand(4, 3)
    assert outputs.restore(torch, torch.rand(3, 3), wanted).is_contiguous()
    monkeypatch.setattr(outputs, "GAPS", 20)
    assert outputs.restore(torch, dense, wanted) is dense


def test_an_expanded_result_is_so_in_another_way_as_well(torch, net, follow):
    model = net(lambda values, scores: scores.mean(1, keepdim=True).expand(-1, 5))
    session, _ = follow(model)
    last = called(torch, model, ((torch.rand(2, 4),), {}), times=40)
    assert best(session) == BF16
    assert last.stride() == (1, 0) and not last.is_contiguous()


class TestOtherSizes:
    """Calls of other sizes than those that trials were made with."""

    @pytest.fixture
    def model(self, torch, net, follow):
        def result(values, scores):
            if len(values) == 3:
                raise KeyError("the program's own")
            spoilt = scores.dtype == torch.bfloat16 and len(values) >= 16
            return scores + 10 if spoilt else scores

        model = net(result)
        self.session, _ = follow(model)
        called(torch, model, ((torch.ones(2, 4),), {}), times=40)
        assert best(self.session) == BF16
        return model

    def test_they_are_compared_as_they_grow(self, torch, model):
        wanted = called(torch, model, ((torch.ones(1, 4),), {}))
        for rows in (4, 5, 6, 7, 8, 9, 16, 17, 18, 40):
            last = called(torch, model, ((torch.ones(rows, 4),), {}))
            assert torch.allclose(last, wanted.expand(rows, 4), atol=0.05), rows
        (told,) = self.session.record.of("fallback")
        assert told["what"] == f"{BF16} for calls of other sizes" and "differs by" in told["reason"]
        assert best(self.session) == BF16

    @pytest.mark.parametrize("seconds", [0.002, 0.0])
    def test_larger_ones_are_compared_where_the_trials_can_pay_for_it(self, torch, model, monkeypatch, seconds):
        (search,) = calls_of(model).inference._searches.values()
        asked = []
        monkeypatch.setattr(search.ledger, "affordable", lambda lost: asked.append(lost) or lost <= seconds * 10)
        monkeypatch.setattr(type(search), "usual", property(lambda _: 0.001))
        called(torch, model, ((torch.ones(20, 4),), {}))
        assert asked == [pytest.approx(0.01)]
        assert calls_of(model).inference._sizes._largest == (80 if seconds else 0)

    def test_an_error_of_the_programs_is_its_own(self, torch, model):
        called(torch, model, ((torch.ones(4, 4),), {}), times=20)
        for _ in range(20):
            with pytest.raises(KeyError, match="the program's own") as caught:
                called(torch, model, ((torch.ones(3, 4),), {}))
            assert caught.value.__context__ is None
        assert not self.session.record.of("fallback") and best(self.session) == BF16
