"""A training goes on as it would alone where a call, a loss or a step is other than most."""

import random

import pytest

from modak_deploy.launch.frameworks.pytorch import calls, training
from modak_deploy.launch.levers.pytorch import compile as compiling
from modak_deploy.launch.levers.pytorch import foreach_optimizer, fused_optimizer

FUSED, FOREACH = fused_optimizer.LEVER, foreach_optimizer.LEVER


@pytest.fixture
def net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)
            self.drop = torch.nn.Dropout(0.5)
            self.calls = 0

        def forward(self, values):
            self.calls += 1
            hidden = self.drop(self.norm(self.first(values)))
            if len(values) == 3 or (len(values) == 5 and hidden.dtype == torch.bfloat16) or self.calls < 0:
                raise KeyError("a batch of three")
            return self.last(hidden)

    torch.manual_seed(0)
    return Net()


@pytest.fixture
def followed(torch, net, session_of):
    """Return the function that follows a training with levers that are on."""

    def follow(*levers, lr=0.01):
        optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        session = session_of(levers=levers, numerics="relaxed", mode="none")
        one = training.Training(session, torch, optimizer, lambda m: calls.Calls(session, torch, m))

        def step(spoil=None, rows=4):
            optimizer.zero_grad()
            loss = net(torch.rand(rows, 8)).float().square().mean()
            loss = loss if spoil is None else loss * spoil
            one.loss(loss)
            loss.backward()
            one.before_step(optimizer)
            optimizer.step()
            one.after_step()

        for _ in range(3):
            step()
        return session, one, optimizer, step

    return follow


def state(torch, net):
    numbers = [torch.rand(2).tolist(), random.random()]
    return numbers, int(net.norm.num_batches_tracked), net.norm.running_mean.tolist()


@pytest.mark.parametrize("lever", ["pytorch-fused-optimizer", "pytorch-autocast-bf16"])
def test_a_call_that_the_program_refuses_is_no_levers_fault(torch, net, followed, lever):
    session, _, _, step = followed(lever)
    before = net.calls
    seed = torch.get_rng_state()
    with pytest.raises(KeyError) as caught:
        net(torch.rand(3, 8))
    after = state(torch, net)
    assert caught.value.__context__ is None
    assert net.calls == before + (1 if lever == "pytorch-fused-optimizer" else 2)
    assert not session.record.of("fallback")
    net.norm.running_mean.zero_()
    torch.set_rng_state(seed)
    with pytest.raises(KeyError):
        type(net).forward(net, torch.rand(3, 8))
    assert state(torch, net)[0][0] == after[0][0]
    assert state(torch, net)[1] == after[1] + 1
    step()


def test_a_call_in_which_a_lever_fails_is_done_with_the_same_numbers(torch, net, followed):
    session, _, _, _ = followed("pytorch-autocast-bf16")
    seed, batches = torch.get_rng_state(), int(net.norm.num_batches_tracked)
    values = torch.rand(5, 8)
    result = net(values)
    assert "a batch of three" in session.record.of("fallback")[0]["reason"]
    assert int(net.norm.num_batches_tracked) == batches + 1
    torch.set_rng_state(seed)
    torch.rand(5, 8)
    assert torch.equal(result, type(net).forward(net, values))


def test_results_that_cannot_be_given_back_in_single_precision_are_the_programs_own(torch, net, session_of):
    class Box:
        pass

    boxed = []

    class Boxing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, values):
            box = Box()
            box.scores = self.net(values)
            boxed.append(box.scores.dtype)
            return box

    model = Boxing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = session_of(levers=["pytorch-autocast-bf16"], numerics="relaxed", mode="none")
    one = training.Training(session, torch, optimizer, lambda m: calls.Calls(session, torch, m))
    for _ in range(6):
        model(torch.rand(4, 8)).scores.sum().backward()
        one.before_step(optimizer)
        optimizer.step()
        one.after_step()
    assert boxed == [torch.float32] * 6
    assert "cannot be looked into" in session.record.of("fallback")[0]["reason"]


def test_gradients_are_there_after_a_step_that_is_left_out(torch, net, followed):
    session, _, _, step = followed("pytorch-fused-optimizer")
    weights = [weight.detach().clone() for weight in net.parameters()]
    step(float("nan"))
    assert "this step was left out" in session.record.of("fallback")[0]["reason"]
    assert all(torch.equal(weight, before) for weight, before in zip(net.parameters(), weights, strict=True))
    assert all(weight.grad.isnan().all() for weight in net.parameters())


def test_a_step_with_gradients_that_the_program_has_cleaned_is_done(torch, net, followed):
    session, one, optimizer, _ = followed("pytorch-fused-optimizer")
    before = net.last.bias.detach().clone()
    loss = net(torch.rand(4, 8)).sum() * float("nan")
    one.loss(loss)
    loss.backward()
    for weight in net.parameters():
        weight.grad.nan_to_num_(1.0)
    one.before_step(optimizer)
    optimizer.step()
    one.after_step()
    assert not session.record.of("fallback")
    assert not torch.equal(net.last.bias, before)


class TestSteps:
    """A step that PyTorch would refuse, or do otherwise, is done as the program has it."""

    def step(self, torch, lever, optimizer):
        lever.optimizing(torch, optimizer, True)
        on = [bool(group[lever.option]) for group in optimizer.param_groups]
        optimizer.step()
        lever.optimizing(torch, optimizer, False)
        return on

    @pytest.mark.parametrize("name", ["SGD", "Adagrad"])
    def test_sparse_gradients(self, torch, name):
        table = torch.nn.Embedding(8, 4, sparse=True)
        optimizer = getattr(torch.optim, name)(table.parameters(), lr=0.1)
        table(torch.tensor([1, 2])).sum().backward()
        assert self.step(torch, FUSED, optimizer) == [False]

    def test_momentum_that_some_weights_have(self, torch, net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net.first.requires_grad_(False)
        for on in (True, False, True):
            optimizer.zero_grad()
            net(torch.rand(4, 8)).sum().backward()
            assert self.step(torch, FUSED, optimizer) == [on]
            net.first.requires_grad_(True)

    def test_gradients_that_lie_otherwise_in_memory(self, torch):
        weight = torch.nn.Parameter(torch.zeros(3, 2).t())
        optimizer = torch.optim.SGD([weight], lr=1.0)
        weight.grad = torch.arange(6.0).view(2, 3)
        assert self.step(torch, FUSED, optimizer) == [False]
        assert torch.equal(weight, -weight.grad)

    def test_complex_weights_that_come_later(self, torch, net):
        optimizer = torch.optim.Adam(net.parameters())
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]})
        sum(weight.abs().sum() for group in optimizer.param_groups for weight in group["params"]).backward()
        assert self.step(torch, FUSED, optimizer) == [True, False]

    def test_steps_that_are_not_counted_in_single_precision(self, torch, net):
        optimizer = torch.optim.Adam(net.parameters())
        for on in (True, False, True):
            optimizer.zero_grad()
            net(torch.rand(4, 8)).sum().backward()
            assert self.step(torch, FUSED, optimizer) == [on]
            state = optimizer.state[net.last.bias]
            state["step"] = state["step"].to(torch.float64 if on else torch.float32)

    @pytest.mark.parametrize(("values", "on"), [({"lr": 0.1}, True), ({"lr": "tensor"}, False)])
    def test_a_learning_rate_that_is_a_tensor(self, torch, net, values, on):
        values = {name: torch.tensor(0.1) if value == "tensor" else value for name, value in values.items()}
        optimizer = torch.optim.Adam(net.parameters(), **values)
        net(torch.rand(4, 8)).sum().backward()
        assert self.step(torch, FOREACH, optimizer) == [on]


def test_what_is_compiled_draws_the_programs_random_numbers(torch, monkeypatch):
    given = {}
    monkeypatch.setattr(compiling, "original", lambda torch: lambda module, **more: given.update(more))
    compiling.LEVER.compiled(torch, None)
    assert given == {"options": {"fallback_random": True}}
