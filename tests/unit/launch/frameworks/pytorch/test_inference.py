"""Live trials on modules in evaluation mode, with real PyTorch; the time of a call is what the test says."""

import copy
import dataclasses
import io
import threading
from collections import OrderedDict

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import inference

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
BF16 = "pytorch-bf16-weights"


class Clock:
    """Goes on as modules are called, more slowly in bf16."""

    now = 0.0
    cost = {"torch.float32": 1.0, "torch.bfloat16": 0.25}

    @classmethod
    def spend(cls, dtype):
        """Go on by a call; a forward that did so itself would be seen to change what its code names."""
        cls.now += cls.cost[str(dtype)]


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    Clock.now = 0.0
    monkeypatch.setattr(inference.Inference, "now", lambda self, search: Clock.now)
    return Clock


@pytest.fixture(scope="module")
def models(torch):
    """Return modules in the style of users' programs."""
    nn = torch.nn

    @dataclasses.dataclass
    class Scores:
        scores: object
        hidden: object = None

    class ModelOutput(OrderedDict):
        """As the outputs of Hugging Face's models."""

    class Net(nn.Module):
        def __init__(self, kind="tensor"):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.norm = nn.BatchNorm2d(8)
            self.head = nn.Linear(8, 4)
            self.kind = kind
            self.cache = None
            self.shift = 0.0
            self.calls = 0

        def forward(self, images, scale=1.0, **more):
            Clock.spend(self.conv.weight.dtype)
            hidden = torch.relu(self.norm(self.conv(images)))
            scores = self.head(hidden.mean((2, 3))) * scale + self.shift
            return self.finish(images, hidden, scores)

        def finish(self, images, hidden, scores):
            if self.kind == "tuple":
                return scores, (hidden, None)
            if self.kind == "dataclass":
                return Scores(scores, hidden)
            if self.kind == "mapping":
                return ModelOutput(scores=scores, hidden=hidden)
            if self.kind == "counts":
                self.calls += 1
            if self.kind == "keeps a cache":
                self.cache = scores if self.cache is None else torch.cat([self.cache, scores])
            if self.kind == "random":
                return scores + torch.randn(4)
            if self.kind == "writes to its argument":
                images += 1
            if self.kind == "object":
                return object()
            if self.kind == "nan" and scores.dtype == torch.bfloat16:
                return scores * float("nan")
            if self.kind == "nan always":
                return scores * float("nan")
            if self.kind == "wrong" and scores.dtype == torch.bfloat16:
                return scores + 10
            if self.kind == "fails" and scores.dtype == torch.bfloat16:
                raise RuntimeError("not implemented for bf16")
            if self.kind == "other shape" and scores.dtype == torch.bfloat16:
                return scores[:, :2]
            return scores

    def make(kind="tensor"):
        torch.manual_seed(0)
        return Net(kind).eval()

    return make


@pytest.fixture
def follow(torch, session_of):
    """Return a module with its interception and its session."""

    def make(model, **options):
        options.setdefault("candidates", [BF16])
        session = session_of(numerics=options.pop("numerics", "relaxed"), **options)
        return session, calls_module.Calls(session, torch, model)

    return make


def run(torch, model, calls=40, **keywords):
    torch.manual_seed(1)
    images = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        return [model(images, **keywords) for _ in range(calls)]


def best(session):
    settled = session.record.of("settled")
    return settled[-1]["variant"] if settled else "default"


@pytest.mark.parametrize("kind", ["tensor", "tuple", "dataclass", "mapping"])
@pytest.mark.parametrize("keywords", [{}, {"scale": 0.5, "mask": None}])
def test_a_faster_variant_is_found_and_gives_results_in_the_defaults_form(torch, models, follow, kind, keywords):
    model = models(kind)
    plain = run(torch, model, 1, **keywords)[0]
    session, _ = follow(model, units=40)
    results = run(torch, model, 40, **keywords)
    assert best(session) == BF16
    assert Clock.now < 30
    last = results[-1]
    assert type(last) is type(plain)
    get = {"tensor": lambda r: r, "tuple": lambda r: r[0], "dataclass": lambda r: r.scores}
    one, other = (get.get(kind, lambda r: r["scores"])(result) for result in (plain, last))
    assert other.dtype == torch.float32
    assert other.is_contiguous()
    assert not torch.equal(one, other)
    assert torch.allclose(one, other, rtol=0.05, atol=0.05)
    (trial,) = session.record.of("trial")
    assert trial["kept"] and 0 < trial["difference"] < 0.05
    assert session.record.of("drift")


def test_exact_numerics_permit_no_other_number_format(torch, models, follow):
    model = models()
    session, _ = follow(model, numerics="exact")
    run(torch, model, 20)
    assert not session.record.of("trying")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("counts", "changes the module's state"),
        ("keeps a cache", "changes the module's state"),
        ("random", "draws random numbers"),
        ("writes to its argument", "changes its arguments"),
        ("object", "the result cannot be looked into"),
    ],
)
def test_a_module_that_is_no_function_of_its_arguments_is_left_alone(torch, models, follow, kind, reason):
    model, same = models(kind), models(kind)
    session, _ = follow(model)
    results, plain = run(torch, model, 10), run(torch, same, 10)
    assert not session.record.of("trying")
    assert reason in session.record.of("no_trials")[0]["reason"]
    assert model.calls == same.calls
    if kind != "object":
        assert all(torch.equal(one, other) for one, other in zip(results, plain, strict=True))


def test_running_statistics_are_state(torch, models, follow):
    model = models()
    model.norm.train()  # eval() of the whole, train() of a part
    session, _ = follow(model)
    run(torch, model, 10)
    assert "changes the module's state" in session.record.of("no_trials")[0]["reason"]
    assert int(model.norm.num_batches_tracked) == 10


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nan", "not finite"),
        ("nan always", "not finite"),
        ("wrong", "the result differs by"),
        ("fails", "RuntimeError: not implemented for bf16"),
        ("other shape", "another shape"),
    ],
)
def test_a_variant_that_fails_its_check_is_given_up(torch, models, follow, kind, reason):
    model, same = models(kind), models(kind)
    session, _ = follow(model)
    results, plain = run(torch, model, 20), run(torch, same, 20)
    assert best(session) == "default"
    assert reason in session.record.of("fallback")[0]["reason"]
    assert all(torch.equal(one, other) or kind == "nan always" for one, other in zip(results, plain, strict=True))


def test_a_stated_tolerance_is_what_counts(torch, models, follow):
    model = models()
    session, _ = follow(model, tolerance=1e-6)
    run(torch, model, 20)
    assert "more than 1e-06" in session.record.of("fallback")[0]["reason"]


def test_a_variant_that_fails_later_is_replaced_within_the_call(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 30)
    assert best(session) == BF16
    for runner in list(vars(calls_of(model))["inference"]._runners.values()):
        runner._function = lambda *a, **k: (_ for _ in ()).throw(MemoryError("no"))
    result = run(torch, model, 1)[0]
    assert torch.equal(result, run(torch, models(), 1)[0])
    assert best(session) == "default"


def calls_of(model):
    return model._compiled_call_impl


@pytest.mark.parametrize(
    "change",
    [
        "in place",
        "data in place",
        "data replaced",
        "parameter replaced",
        "load_state_dict",
        "buffer",
        "numpy",
        "removed",
        "attribute",
        "module replaced",
        "in training mode",
    ],
)
def test_weights_that_change_between_calls_are_followed(torch, models, follow, monkeypatch, change):
    model = models()
    session, calls = follow(model)
    run(torch, model, 30)
    assert best(session) == BF16
    if change == "numpy":  # writes that nothing shows are found when the values are compared
        monkeypatch.setattr(calls.inference._weights, "_next", 0.0)
    with torch.no_grad():
        if change == "in place":
            model.head.weight.mul_(3)
        elif change == "data in place":
            model.head.weight.data.mul_(3)
        elif change == "data replaced":
            model.head.weight.data = model.head.weight.detach() * 3
        elif change == "parameter replaced":
            model.head.weight = torch.nn.Parameter(model.head.weight * 3)
        elif change == "load_state_dict":
            model.load_state_dict({k: v * 3 if v.is_floating_point() else v for k, v in model.state_dict().items()})
        elif change == "buffer":
            model.norm.running_mean.add_(1)
        elif change == "numpy":
            model.head.weight.detach().numpy()[:] *= 3
        elif change == "attribute":
            model.shift = 5.0
        elif change == "module replaced":
            model.head = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval()
        elif change == "in training mode":
            model.train()
            model.head.weight.mul_(3)
            model.eval()
        else:
            model.head.bias = None
    same = models()
    if change == "module replaced":
        same.head = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval()
    same.shift = model.shift
    same.load_state_dict(copy.deepcopy(model.state_dict()), strict=False)
    if change == "removed":
        same.head.bias = None
    expected = run(torch, same, 1)[0]
    for result in run(torch, model, 3):
        assert torch.allclose(result, expected, rtol=0.05, atol=0.05)
    assert session.record.of("weights_changed")
    unseen = [one for one in session.record.of("fallback") if "without a trace" in one["reason"]]
    assert bool(unseen) is (change == "numpy")


def test_weights_that_keep_changing_end_the_trials(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 30)
    for _ in range(6):
        with torch.no_grad():
            model.head.weight.mul_(1.1)
        run(torch, model, 2)
    assert session.record.of("no_trials")[-1]["reason"] == "the weights change between calls"


def test_eval_called_again_changes_nothing(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 30)
    for _ in range(5):
        model.train()
        model.eval()
        run(torch, model, 1)
    assert best(session) == BF16
    assert not session.record.of("weights_changed")


def test_a_hook_that_comes_later_is_called_once_for_each_call(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 30)
    assert best(session) == BF16
    seen = []
    model.head.register_forward_hook(lambda *args: seen.append(1))
    run(torch, model, 10)
    assert len(seen) == 10
    assert best(session) == "default"


def test_two_modules_are_tried_each_for_itself(torch, models, follow):
    one, other = models(), models("fails")
    session, _ = follow(one)
    calls_module.Calls(session, torch, other)
    torch.manual_seed(1)
    images = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        for _ in range(40):
            one(images)
            other(images)
    assert session.record.of("settled")
    assert [entry["kept"] for entry in session.record.of("trial")] in ([True, False], [False, True])


def test_a_module_within_another_is_not_tried_by_itself(torch, models, follow):
    inner = models()
    outer = torch.nn.Sequential(inner).eval()
    session, _ = follow(inner)
    calls_module.Calls(session, torch, outer)
    run(torch, outer, 30)
    session.counters.write()
    names = [name for name in session.record.states if name != "process"]
    assert names == ["inference: Sequential"]


def test_calls_from_several_threads_end_the_trials(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 3)
    inside, leave = threading.Event(), threading.Event()
    finish = model.finish

    def slow(*args):
        if threading.current_thread().name == "slow":
            inside.set()
            leave.wait(30)
        return finish(*args)

    type(model).finish, original = (lambda self, *args: slow(*args)), type(model).finish
    try:
        thread = threading.Thread(target=run, args=(torch, model, 1), name="slow")
        thread.start()
        assert inside.wait(30)
        expected = run(torch, models(), 1)[0]
        assert torch.equal(run(torch, model, 1)[0], expected)
        leave.set()
        thread.join()
    finally:
        type(model).finish = original
    assert "several threads" in session.record.of("no_trials")[0]["reason"]
    run(torch, model, 20)
    assert not session.record.of("trying")


def test_calls_that_keep_a_graph_for_gradients_are_the_programs_own(torch, models, follow):
    model = models()
    session, _ = follow(model)
    images = torch.randn(2, 3, 8, 8, requires_grad=True)
    for _ in range(20):
        model(images).sum().backward()
    assert images.grad is not None and model.head.weight.grad is not None
    assert not session.record.of("trying")
    session.counters.write()
    assert session.record.states["inference: Net"]["units"] == 20


def test_a_program_that_uses_autocast_itself_is_left_alone(torch, models, follow):
    model = models()
    session, _ = follow(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(torch, model, 10)
    assert session.record.of("no_trials")[0]["reason"] == "the program uses autocast itself"


def test_hooks_end_the_trials_before_they_begin(torch, models, follow):
    model = models()
    seen = []
    model.conv.register_forward_hook(lambda *args: seen.append(1))
    session, _ = follow(model)
    run(torch, model, 10)
    assert len(seen) == 10
    assert session.record.of("no_trials")[0]["reason"] == "Conv2d has hooks"


def test_copies_and_files_of_a_module_know_nothing_of_the_launcher(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 30)
    assert best(session) == BF16
    assert copy.deepcopy(model)._compiled_call_impl is None
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    assert b"modak" not in buffer.getvalue()
    assert all(value.dtype != torch.bfloat16 for value in model.state_dict().values())


def test_tracing_sees_the_programs_own_module(torch, models, follow):
    model = models()
    session, _ = follow(model)
    run(torch, model, 30)
    images = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        traced = torch.jit.trace(model, images)
    assert "bfloat16" not in str(traced.inlined_graph).lower()
    assert best(session) == BF16


@pytest.mark.parametrize("strict", [False, True])
def test_exporting_sees_the_programs_own_module(torch, models, follow, strict):
    model = models()
    follow(model)
    run(torch, model, 30)
    with torch.no_grad():
        exported = torch.export.export(model, (torch.randn(2, 3, 8, 8),), strict=strict)
    assert "bfloat16" not in str(exported.graph)


def test_a_cache_that_grows_with_the_arguments_is_never_tried(torch, follow):
    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, token, past=()):
            state = self.layer(token)
            past = (*past, state)
            return {"logits": torch.stack(past).sum(0), "past": past}

    model = Decoder().eval()
    session, _ = follow(model)
    with torch.no_grad():
        past = ()
        for _ in range(30):
            result = model(token=torch.ones(1, 4), past=past)
            past = result["past"]
    assert len(past) == 30
    assert not session.record.of("trial")


def test_an_argument_of_an_unknown_type_is_the_programs_own(torch, models, follow):
    class Cache:
        calls = 0

    model = models()
    session, _ = follow(model)
    run(torch, model, 10, mask=Cache())
    assert "an argument cannot be looked into" in session.record.of("no_trials")[0]["reason"]


def test_arguments_of_other_shapes_use_what_was_found(torch, models, follow):
    model = models()
    follow(model)
    run(torch, model, 30)
    before = Clock.now
    with torch.inference_mode():
        result = model(torch.randn(1, 3, 8, 8))
    assert result.shape == (1, 4)
    assert Clock.now - before == 0.25
    with torch.inference_mode():
        assert model(torch.randn(1, 3, 9, 9), scale=torch.tensor(2.0)).shape == (1, 4)
    assert Clock.now - before == 1.25


def test_a_variant_chosen_before_the_run_is_checked_and_used(torch, models, session_of):
    model = models()
    session = session_of(levers=[BF16, "pytorch-channels-last"], mode="none")
    calls_module.Calls(session, torch, model)
    run(torch, model, 10)
    assert session.record.of("settled")[0]["variant"] == f"{BF16} + pytorch-channels-last"
    assert Clock.now == 2 + 1 + 0.25 + 7 * 0.25
    assert not session.record.of("trying")


def test_no_copy_is_made_where_there_is_no_memory_for_it(torch, models, follow, monkeypatch):
    from modak_deploy.launch import hardware

    monkeypatch.setattr(hardware, "free_memory", lambda: 1000)
    model = models()
    session, _ = follow(model)
    run(torch, model, 20)
    assert "a copy of the weights takes" in session.record.of("fallback")[0]["reason"]


def test_shared_weights_stay_shared_in_a_copy(torch):
    from modak_deploy.launch.frameworks.pytorch import replica

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    made = replica.make(torch, model, lambda tensor: tensor.to(torch.bfloat16))
    assert made[1].weight is made[0].weight
    assert made[0].weight.dtype == torch.bfloat16
    assert model[0].weight.dtype == torch.float32
    assert isinstance(made[0].weight, torch.nn.Parameter)


def test_a_compiled_variant_gives_the_same_results(torch, models, session_of):
    from modak_deploy.launch.frameworks.pytorch.kinds import Subject
    from modak_deploy.launch.levers.pytorch.compile import compiler_missing

    model = models()
    reason = compiler_missing(Subject(torch, model))
    if reason:
        pytest.skip(reason)
    session = session_of(levers=["pytorch-compile-frozen"], mode="none")
    expected = run(torch, models(), 1)[0]
    calls_module.Calls(session, torch, model)
    results = run(torch, model, 6)
    assert session.record.of("settled")[0]["variant"] == "pytorch-compile-frozen", session.record.entries
    assert all(torch.allclose(one, expected, atol=1e-4) for one in results)
