"""Live trials on modules in evaluation mode, with real PyTorch."""

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from module_parts import BF16, Clock, best, calls_of, run

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("clock"),
]


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
    assert reason in session.record.of("not_repeated")[0]["reason"]
    assert model.calls == same.calls
    if kind != "object":
        assert all(torch.equal(one, other) for one, other in zip(results, plain, strict=True))


def test_running_statistics_are_state(torch, models, follow):
    model = models()
    model.norm.train()  # eval() of the whole, train() of a part
    session, _ = follow(model)
    run(torch, model, 10)
    assert "changes the module's state" in session.record.of("not_repeated")[0]["reason"]
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
    assert "an argument cannot be looked into" in session.record.of("not_repeated")[0]["reason"]


def test_arguments_of_other_shapes_use_what_was_found(torch, models, follow):
    model = models()
    follow(model)
    run(torch, model, 30)
    with torch.inference_mode():
        model(torch.randn(1, 3, 8, 8))  # the first of them is compared
        model(torch.randn(1, 3, 8, 8))
        before = Clock.now
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
