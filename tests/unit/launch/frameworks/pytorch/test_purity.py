"""Modules whose calls do more than return a result are left alone, also where they do so later than at first."""

import io
import logging
import random
import sys
import warnings

import pytest

from modak_deploy.launch.frameworks.pytorch import generators
from module_parts import BF16, Clock, best

pytestmark = pytest.mark.usefixtures("clock")


@pytest.fixture
def net(torch):
    """Return a module whose calls do something, and whose result is made of its argument and scores."""

    class Net(torch.nn.Module):
        def __init__(self, effect):
            super().__init__()
            self.head = torch.nn.Linear(8, 8)
            self.drop = torch.nn.Dropout(0.5)
            self.anchors = torch.ones(8)
            self.effect = effect

        def forward(self, values, *more):
            Clock.spend(self.head.weight.dtype)
            scores = self.drop(self.head(values))
            made = self.effect(self, scores)
            return scores if made is None else made

    return lambda effect=lambda module, scores: None: Net(effect).eval()


def called(torch, model, *args, times=8):
    with torch.no_grad():
        return [model(*args) for _ in range(times)][-1]


def reasons(session):
    return [entry["reason"] for entry in session.record.of("no_trials") or session.record.of("not_repeated")]


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (lambda module, scores: print("called"), "a call writes output"),
        (lambda module, scores: (scores, scores.flatten()), "two results have numbers in common"),
        (lambda module, scores: (scores, module.anchors), "a result is a part of the arguments or weights"),
        (lambda module, scores: (scores[:, :4], scores[:, 4:]), None),
        (lambda module, scores: (scores, [scores]), None),
    ],
)
def test_what_cannot_be_done_otherwise_is_left_alone(torch, net, follow, capsys, effect, reason):
    model = net(effect)
    session, _ = follow(model)
    called(torch, model, torch.ones(2, 8))
    assert reasons(session) == ([] if reason is None else [reason])
    assert capsys.readouterr().out == ("called\n" * 8 if reason == "a call writes output" else "")


def test_what_the_first_call_alone_writes_keeps_nothing_from_being_tried(torch, net, follow, capsys):
    model = net(lambda module, scores: print("loaded"))
    session, _ = follow(model)
    called(torch, model, torch.ones(2, 8), times=1)
    model.effect = lambda module, scores: None
    called(torch, model, torch.ones(2, 8))
    assert capsys.readouterr().out == "loaded\n" and not reasons(session)


LOG = logging.getLogger("a program's")


def shown(*_):
    warnings.warn("called", stacklevel=2)


WRITES = {
    "print": lambda module, scores: print("called", file=sys.stderr),
    "write": lambda module, scores: sys.stderr.write("called\n") and None,
    "warning": lambda module, scores: LOG.warning("called"),
    "info": lambda module, scores: LOG.info("called"),
    "debug": lambda module, scores: LOG.debug("called"),
    "warn": shown,
}


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("to", ["stream", "file", "list"])
def test_what_is_logged_or_warned_of_with_each_call_is_as_much_as_alone(
    torch, net, follow, monkeypatch, tmp_path, kind, to
):
    text = io.StringIO()
    handler = logging.FileHandler(tmp_path / "log") if to == "file" else logging.StreamHandler(text)
    monkeypatch.setattr(LOG, "handlers", [handler])
    monkeypatch.setattr(LOG, "propagate", False)
    LOG.setLevel(logging.INFO)
    monkeypatch.setattr(sys, "stderr", text)
    model = net(WRITES[kind])
    session, _ = follow(model)
    with warnings.catch_warnings(record=to == "list") as collected:
        warnings.simplefilter("always")
        if to != "list":
            monkeypatch.setattr(warnings, "showwarning", lambda *values: text.write("called\n"))
        called(torch, model, torch.ones(2, 8), times=40)
    lines = [*text.getvalue().splitlines(), *(collected or ())]
    if to == "file":
        handler.close()
        lines += (tmp_path / "log").read_text().splitlines()
    assert reasons(session) == ([] if kind == "debug" else ["a call writes output"])
    assert len([line for line in lines if "called" in str(line)]) == (0 if kind == "debug" else 40)


def test_what_counts_output_is_gone_after_the_calls_that_are_observed(torch, net, follow):
    before = sys.stdout, sys.stderr, logging.Handler.handle, warnings._showwarnmsg
    model = net()
    follow(model)
    called(torch, model, torch.ones(2, 8))
    assert before == (sys.stdout, sys.stderr, logging.Handler.handle, warnings._showwarnmsg)


@pytest.mark.parametrize("plain_calls", [2, 3, 5, 40])
def test_dropout_that_is_switched_on_draws_as_often_as_alone(torch, net, follow, plain_calls):
    model = net()
    session, _ = follow(model)
    called(torch, model, torch.ones(4, 8), times=plain_calls)
    assert plain_calls < 40 or best(session) == BF16
    model.drop.train()
    torch.manual_seed(3)
    last = called(torch, model, torch.ones(4, 8), times=30)
    after = torch.rand(3)
    torch.manual_seed(3)
    with torch.no_grad():
        wanted = [type(model).forward(model, torch.ones(4, 8)) for _ in range(30)][-1]
    assert torch.equal(last, wanted) and torch.equal(after, torch.rand(3))
    assert reasons(session) == ["a call changes the module's state or draws random numbers"]


@pytest.mark.parametrize("plain_calls", [1, 3, 40])
@pytest.mark.parametrize("of_all", [False, True])
def test_hooks_that_come_later_are_called_as_often_as_alone(torch, net, follow, plain_calls, of_all):
    model, seen = net(), []
    session, _ = follow(model)
    called(torch, model, torch.ones(4, 8), times=plain_calls)
    register = torch.nn.modules.module.register_module_forward_hook if of_all else model.head.register_forward_hook
    handle = register(lambda module, args, result: seen.append(type(module).__name__))
    called(torch, model, torch.ones(4, 8), times=30)
    handle.remove()
    assert seen.count("Linear") == 30
    assert "hooks" in reasons(session)[0]


def test_padding_that_an_encoder_leaves_out_by_values_is_left_out(torch, follow):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 1).eval()
    session, _ = follow(model)
    with torch.no_grad():
        for _ in range(3):
            model(torch.ones(2, 4, 8))
        assert not reasons(session)
        model(torch.ones(2, 4, 8), src_key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))
    assert reasons(session) == ["the values of a mask decide whether padding is left out"]


def test_generators_are_set_back_to_what_they_were(torch):
    numpy = pytest.importorskip("numpy")

    def draw():
        return [float(torch.rand(())), random.random(), float(numpy.random.rand())]

    draw()
    before, states = generators.comparable(torch, []), generators.states(torch)
    assert generators.comparable(torch, []) == before
    drawn = draw()
    assert all(one != other for one, other in zip(before, generators.comparable(torch, []), strict=True))
    for put, state in states:
        put(state)
    assert generators.comparable(torch, []) == before and draw() == drawn


def test_calls_in_a_profile_are_the_modules_own(torch, net, follow):
    model = net()
    session, _ = follow(model)
    called(torch, model, torch.ones(4, 8), times=40)
    assert best(session) == BF16
    with torch.autograd.profiler.profile() as profile:
        last = called(torch, model, torch.ones(4, 8), times=5)
    assert torch.equal(last, type(model).forward(model, torch.ones(4, 8)))
    assert [entry.count for entry in profile.key_averages() if entry.key == "aten::linear"] == [5]
