"""Levers that put a function in the place of one of PyTorch's, from the outermost call to the optimizer's step."""

import importlib

import pytest

from modak_deploy.launch.frameworks.pytorch import calls, gradients, training
from modak_deploy.launch.frameworks.pytorch.kinds import Subject


def lever(name):
    return importlib.import_module("modak_deploy.launch.levers.pytorch." + name).LEVER


@pytest.fixture
def dropout(torch):
    """Return the other dropout, which is on during the test."""
    one = lever("dropout_masks")
    own = torch.nn.functional.dropout
    one.step(torch, True)
    torch.manual_seed(0)
    yield torch.nn.functional.dropout
    one.step(torch, False)
    assert torch.nn.functional.dropout is own


@pytest.fixture
def attention(torch):
    """Return the other attention, which is on during the test."""
    one = lever("autocast_bf16_attention")
    one.step(torch, True)
    yield torch.nn.functional.scaled_dot_product_attention
    one.step(torch, False)


class TestDropout:
    @pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
    @pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_the_share_the_mean_and_the_form_are_pytorchs(self, torch, dropout, rate, layout, dtype):
        ones = torch.ones(64, 32, 20, 20, dtype=getattr(torch, dtype))
        ones = ones.contiguous(memory_format=getattr(torch, layout))
        result = dropout(ones, rate)
        assert float((result == 0).float().mean()) == pytest.approx(rate, abs=0.003)
        kept = result[result != 0].float()
        assert kept.unique().tolist() == pytest.approx([1 / (1 - rate)], rel=0.005)
        assert (result.stride(), result.dtype) == (ones.stride(), ones.dtype)

    def test_values_are_dropped_independently_of_their_neighbours(self, torch, dropout):
        dropped = (dropout(torch.ones(1 << 18), 0.25) == 0).float() - 0.25
        for distance in (1, 2, 3, 4, 8, 64):
            correlation = (dropped[distance:] * dropped[:-distance]).mean() / (0.25 * 0.75)
            assert abs(float(correlation)) < 0.012

    def test_what_a_view_drops_is_right_too(self, torch, dropout):
        result = dropout(torch.ones(200, 1001)[:, ::2], 0.5)
        assert result.shape == (200, 501)
        assert float((result == 0).float().mean()) == pytest.approx(0.5, abs=0.01)

    def test_the_gradient_has_the_same_mask(self, torch, dropout):
        values = torch.ones(100, 100, requires_grad=True)
        result = dropout(values, 0.3)
        result.sum().backward()
        assert torch.equal(values.grad, result.detach())

    def test_a_seed_gives_the_same_mask_again(self, torch, dropout):
        masks = []
        for _ in range(2):
            torch.manual_seed(3)
            masks.append(dropout(torch.ones(100, 100), 0.3))
        assert torch.equal(*masks)

    def test_in_place_it_is_the_same_tensor(self, torch, dropout):
        values = torch.ones(100, 100)
        assert dropout(values, 0.3, True, True) is values
        assert float((values == 0).float().mean()) == pytest.approx(0.3, abs=0.02)

    @pytest.mark.parametrize(("rate", "stays"), [(0.0, True), (1.0, False), (1e-7, True)])
    def test_rates_at_the_ends_are_pytorchs_own(self, torch, dropout, rate, stays):
        assert bool(dropout(torch.ones(100, 100), rate).all()) is stays

    def test_evaluation_drops_nothing_and_a_wrong_rate_is_an_error(self, torch, dropout):
        assert bool(dropout(torch.ones(100, 100), 0.5, False).all())
        with pytest.raises(ValueError, match="between 0 and 1"):
            dropout(torch.ones(100, 100), 1.5)

    @pytest.mark.parametrize("reentrant", [True, False])
    def test_checkpointing_meets_the_same_mask_again(self, torch, dropout, reentrant):
        from torch.utils.checkpoint import checkpoint

        values = torch.randn(100, 100, requires_grad=True)
        result = checkpoint(lambda x: torch.nn.functional.dropout(x * 1.0, 0.5), values, use_reentrant=reentrant)
        result.sum().backward()
        assert torch.allclose(values.grad * values.detach(), result.detach())

    def test_a_program_that_puts_something_around_it_keeps_that(self, torch, monkeypatch):
        functional = torch.nn.functional
        own = functional.dropout
        monkeypatch.setattr(functional, "dropout", own)  # restores it at the end
        one = lever("dropout_masks")
        one.step(torch, True)
        inner = functional.dropout
        functional.dropout = around = lambda *args: inner(*args)
        one.step(torch, False)
        assert functional.dropout is around
        torch.manual_seed(0)
        expected = own(torch.ones(100, 100), 0.5)
        torch.manual_seed(0)
        assert torch.equal(functional.dropout(torch.ones(100, 100), 0.5), expected)

    def test_a_dropout_of_the_programs_own_stays(self, torch, monkeypatch):
        one = lever("dropout_masks")
        monkeypatch.setattr(torch.nn.functional, "dropout", own := lambda values, *rest: values)
        one.step(torch, True)
        assert torch.nn.functional.dropout is own
        one.step(torch, False)
        assert torch.nn.functional.dropout is own

    @pytest.mark.parametrize("kind", ["double", "nested", "rate", "class"])
    def test_what_it_is_not_made_for_is_pytorchs_own(self, torch, dropout, kind):
        seen = []

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                seen.append(function)
                return super().__torch_function__(function, types, args, kwargs or {})

        values, rate = torch.ones(100, 100), 0.5
        if kind == "double":
            values = values.double()
        elif kind == "nested":
            values = torch.nested.nested_tensor([torch.ones(100, 100), torch.ones(50, 100)])
        elif kind == "rate":
            rate = torch.tensor(0.5)
        else:
            values = values.as_subclass(Own)
        result = dropout(values, rate)
        assert type(result) is type(values)
        assert result.dtype == values.dtype
        assert kind != "class" or dropout.__wrapped__ in seen

    def test_it_is_for_modules_with_dropout(self, torch):
        one = lever("dropout_masks")
        assert one.applies(Subject(torch, torch.nn.Linear(2, 2))) == "the module has no dropout"
        assert one.applies(Subject(torch, torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.0))))
        assert one.applies(Subject(torch, torch.nn.TransformerEncoderLayer(8, 2, 8, 0.1))) is None


class TestAttention:
    def test_within_autocast_it_is_computed_in_single_precision(self, torch, attention):
        query = torch.randn(2, 4, 16, 8)
        mask = torch.zeros(16, 16, dtype=torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert attention(query, query, query, is_causal=True).dtype == torch.float32
            lower = query.bfloat16()
            result = attention(lower, key=lower, value=lower, attn_mask=mask)
            assert result.dtype == torch.bfloat16  # as the program would get it
        assert attention(lower, lower, lower).dtype == torch.bfloat16  # the program's own choice
        assert torch.is_autocast_enabled("cpu") is False

    def test_it_is_for_trainings_with_attention(self, torch):
        one = lever("autocast_bf16_attention")
        layer = torch.nn.Linear(8, 8)
        values = layer(torch.randn(2, 4, 16, 8))
        loss = torch.nn.functional.scaled_dot_product_attention(values, values, values).sum()
        names = gradients.operations([loss])
        assert "AddmmBackward0" in names
        assert one.applies(Subject(torch, layer, None, names)) is None
        plain = gradients.operations([layer(torch.randn(2, 8)).sum()])
        assert one.applies(Subject(torch, layer, None, plain)) == "the training has no scaled dot-product attention"

    def test_a_loss_without_a_graph_goes_through_nothing(self, torch):
        assert gradients.operations([torch.ones(1)]) == frozenset()


class TestTraining:
    """The functions are PyTorch's own again before the program goes on after a step."""

    @pytest.fixture
    def module(self, torch):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.drop = torch.nn.Linear(64, 64), torch.nn.Dropout(0.25)
                self.fails = False

            def forward(self, x):
                self.seen = torch.nn.functional.dropout
                if self.fails and hasattr(self.seen, "__wrapped__"):
                    raise RuntimeError("not with this one")
                return self.drop(self.inner(x))

        return Net()

    def training_of(self, torch, module, session):
        self.optimizer = optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
        one = training.Training(session, torch, optimizer, lambda m: calls.Calls(session, torch, m))
        for _ in range(2):  # between two steps, what was chosen is switched on
            module(torch.randn(128, 64)).sum().backward()
            optimizer.step()
            one.after_step()
        return one

    def test_they_are_on_from_the_call_to_the_step(self, torch, module, session_of):
        one = self.training_of(torch, module, session_of(levers=["pytorch-dropout-masks"]))
        own = torch.nn.functional.dropout
        for _ in range(3):
            loss = module(torch.randn(128, 64)).sum()
            assert module.seen is not own
            assert torch.nn.functional.dropout is module.seen  # until the backward pass is done
            loss.backward()
            one.after_step()
            assert torch.nn.functional.dropout is own
        torch.jit.script(torch.nn.Sequential(module.inner, module.drop))

    def test_they_are_gone_once_the_module_changes_its_mode(self, torch, module, session_of):
        one = self.training_of(torch, module, session_of(levers=["pytorch-dropout-masks"]))
        own = torch.nn.functional.dropout
        module(torch.randn(128, 64))
        assert torch.nn.functional.dropout is not own
        one.left(module.inner)
        assert torch.nn.functional.dropout is not own
        one.left(module)
        assert torch.nn.functional.dropout is own

    @pytest.mark.parametrize("reentrant", [True, False])
    def test_a_module_that_is_checkpointed_as_a_whole_keeps_them(self, torch, module, session_of, reentrant):
        from torch.utils.checkpoint import checkpoint

        session = session_of(levers=["pytorch-dropout-masks"])
        one = self.training_of(torch, module, session)
        for _ in range(3):
            images = torch.randn(128, 64, requires_grad=True)
            checkpoint(module, images, use_reentrant=reentrant).sum().backward()
            assert hasattr(module.seen, "__wrapped__")
            one.after_step()
        assert not session.record.of("fallback")

    def test_a_call_that_fails_with_them_is_done_without(self, torch, module, session_of):
        session = session_of(levers=["pytorch-dropout-masks"])
        one = self.training_of(torch, module, session)
        own = torch.nn.functional.dropout
        module.fails = True
        module(torch.randn(128, 64)).sum().backward()
        assert module.seen is own
        one.after_step()
        assert "not with this one" in session.record.of("fallback")[0]["reason"]
