"""What a program does itself with a module while it is tried, and after it."""

import copy
import io
import threading

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from module_parts import BF16, best, run

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("clock"),
]


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


def test_layers_of_keras_on_pytorch_are_left_alone(torch, models, follow):
    model = models()
    layer = type("Layer", (torch.nn.Identity,), {"__module__": "keras.src.layers.layer"})
    model.layer = type("Own", (layer,), {})()
    session, _ = follow(model)
    run(torch, model, 10)
    assert session.record.of("no_trials")[0]["reason"] == "it is or holds a layer of Keras, whose state is not all seen"
