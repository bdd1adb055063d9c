"""Backward passes of programs that a lever of the forward call could make fail: they are as they are alone."""

import shutil
import types

import pytest

from launch_parts import launch
from modak_deploy.launch.frameworks.pytorch import formats, gradients, identity, passes

NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 64), torch.nn.Linear(64, 1)
    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        self.format = hidden.dtype
        return self.last(hidden)
torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
"""
END = """
    opt.zero_grad(); loss.backward(); opt.step()
print(type(u.grad_fn).__name__, net.format, net.last.weight.sum().item())
"""
AT_ONCE = """
for i in range(12):
    x = torch.rand(16, 8, requires_grad=True)
    u = net(x)
    du, = torch.autograd.grad(u.sum(), x, {})
    loss = ((du - x) ** 2).mean()
"""
LATER = """
for i in range(12):
    x = torch.rand(16, 8, requires_grad=True)
    u = net(x)
    loss = u.square().mean()
    if i in (6, 9):
        loss = loss + torch.autograd.grad(u.sum(), x, {})[0].square().sum()
"""
AGAIN = """
for i in range(12):
    u = net(torch.rand(16, 8))
    if i > 5:
        u.mean().backward(retain_graph=True)
    loss = u.square().mean()
"""
HIDDEN = "None, True, True"
NAMED = "create_graph=True"
COMPILED, PLAIN = "CompiledFunctionBackward", "AddmmBackward0"


@pytest.fixture
def run(torch, tmp_path):
    """Run a program under the launcher, by default with the compiler; return what it printed, and the fallbacks."""

    def program(text, *levers, **options):
        if levers == ("pytorch-compile",) and not shutil.which("g++"):
            pytest.skip("no C++ compiler found")
        (tmp_path / "program.py").write_text(text)
        config = {"levers": list(levers), "trials": {"mode": "none"}}
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled"), **options.pop("environment", {})}
        done = launch(tmp_path / "program.py", tmp_path, config, environment=environment, **options)
        assert done.returncode == 0, done.stderr
        done.fallbacks = [entry["reason"] for entry in done.entries if entry["event"] == "fallback"]
        done.refused = [entry["reason"] for entry in done.entries if entry["event"] == "not_offered"]
        return done

    return program


class TestCompiled:
    @pytest.mark.parametrize("text", [AT_ONCE.format(HIDDEN), LATER.format(NAMED)], ids=["at once", "later"])
    def test_a_program_that_differentiates_gradients_is_not_compiled(self, run, text):
        done = run(NET + text + END, "pytorch-compile")
        assert done.stdout.startswith(PLAIN)
        assert done.refused == ["the program differentiates gradients, or may do so later"]
        assert not done.fallbacks

    def test_a_step_that_differentiates_gradients_unforeseen_is_left_out_and_the_next_is_done(self, run):
        done = run(NET + LATER.format(HIDDEN) + END, "pytorch-compile")
        assert done.stdout.startswith(PLAIN)
        assert done.fallbacks == [passes.LEFT_OUT]

    def test_a_graph_may_be_gone_through_again(self, run):
        done = run(NET + AGAIN + END, "pytorch-compile")
        name, _, total = done.stdout.split()
        assert (name, done.fallbacks) == (COMPILED, [])
        assert float(total) == pytest.approx(float(run(NET + AGAIN + END).stdout.split()[2]), rel=1e-4)

    def test_errors_of_the_programs_own_are_the_programs(self, run):
        text = """
for i in range(4):
    u = net(torch.rand(16, 8))
    loss = u.square().mean()
    if i == 3:
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            print("second time" in str(error))
        continue
"""
        assert run(NET + text + END, "pytorch-compile").stdout.startswith("True\n" + COMPILED)


FUNCTION = """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.mm(w.t())
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g.mm(w), g.t().mm(x)
class Own(Net):
    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        self.format = hidden.dtype
        return Product.apply(hidden, self.last.weight)
net = Own()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
"""
STEPS = """
for i in range(8):
    u = net(torch.rand(16, 8))
    loss = u.square().mean()
"""
HOOK = "net.first.register_forward_hook(lambda module, inputs, result: features.append(result.detach()))"
HOOKED = """
features = [torch.ones(1)]
{}
for i in range(8):
    {}
    u = net(torch.rand(16, 8))
    loss = u.square().mean()
    features[-1].numpy()
"""
HOLDING = """
class Holding(Net):
    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        self.format, self.state = hidden.dtype, {"hidden": [hidden.detach()]}
        return self.last(hidden)
net = Holding()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(8):
    u = net(torch.rand(16, 8))
    loss = u.square().mean()
    net.state["hidden"][0].numpy()
"""
LOWER = """
class Lower(Net):
    def forward(self, x):
        return super().forward(x).bfloat16()
net = Lower()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
weight = torch.ones(1, 1, dtype=torch.bfloat16)
for i in range(8):
    u = net(torch.rand(16, 8))
    loss = (u @ weight).float().square().mean()
"""


class TestAutocast:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (FUNCTION + STEPS, "Product may need gradients in single precision"),
            (HOOKED.format(HOOK, "pass"), "Linear has hooks"),
            (HOOKED.format("", f"{HOOK} if i == 4 else None"), "Unsupported: Linear has hooks"),
            (HOLDING, "Unsupported: the module keeps tensors of its call"),
            (LOWER, "Unsupported: the result has tensors in a lower precision as it is"),
        ],
        ids=["function", "hook", "later hook", "kept", "lower result"],
    )
    def test_a_program_that_would_meet_the_format_elsewhere_keeps_its_own(self, run, text, reason):
        done = run(NET + text + END, "pytorch-autocast-bf16", bf16=True)
        assert done.stdout.split()[1] == "torch.float32"
        assert reason in [*done.refused, *done.fallbacks]

    def test_others_are_computed_in_it(self, run):
        done = run(NET + STEPS + END, "pytorch-autocast-bf16", bf16=True)
        assert (done.stdout.split()[1], done.refused, done.fallbacks) == ("torch.bfloat16", [], [])


@pytest.fixture
def function(torch):
    """Return the maker of functions of a module's."""

    def make(module="library", decorated=False):
        kinds = {"device_type": "cpu"}
        forward, backward = (lambda ctx, x: 2 * x), (lambda ctx, gradient: 2 * gradient)
        if decorated:
            forward = torch.amp.custom_fwd(forward, **kinds)
            backward = torch.amp.custom_bwd(backward, **kinds)
        space = {"forward": staticmethod(forward), "backward": staticmethod(backward), "__module__": module}
        return type("Double", (torch.autograd.Function,), space)

    return make


@pytest.mark.parametrize(
    ("module", "decorated", "bound"),
    [("library", False, True), ("library", True, False), ("torch.utils.checkpoint", False, False)],
)
def test_functions_that_a_step_uses_are_seen_in_its_graph(torch, function, module, decorated, bound):
    if decorated and not hasattr(torch.amp, "custom_fwd"):  # 2.2 and 2.3 have one for each kind of device
        pytest.skip("this version has no such decorator")
    used = function(module, decorated)
    loss = used.apply(torch.ones(2, requires_grad=True)).sum()
    names = gradients.operations([loss])
    assert (gradients.OWN + "Double" in names) is bound
    reason = formats.refusal(torch, torch.nn.Linear(1, 1), names)
    assert reason == ("Double may need gradients in single precision" if bound else None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("loss.backward(create_graph=True)", True),
        ("torch.autograd.functional.hvp(loss, x)", True),
        ("torch.autograd.functional.vhp(loss, x)", True),
        ("loss.backward()  # creates no graph", False),
    ],
)
def test_what_differentiates_gradients_is_looked_for_in_the_programs_files(tmp_path, monkeypatch, text, named):
    (tmp_path / "own.py").write_text(text)
    monkeypatch.setattr(
        passes, "program_files", lambda: [("gone", str(tmp_path / "gone.py")), ("own", str(tmp_path / "own.py"))]
    )
    passes.mentioned.cache_clear()
    assert passes.mentioned(1) is named
    passes.mentioned.cache_clear()


def test_files_of_libraries_are_not_the_programs(torch):
    assert "torch" not in dict(identity.program_files())


@pytest.mark.parametrize("entrances", [("_engine_run_backward",), ("backward", "grad")], ids=["2.13", "2.2"])
def test_passes_are_looked_at_whatever_they_begin_with(torch, session_of, entrances):
    called = []

    def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
        called.append(("backward", create_graph))

    def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False):
        called.append(("grad", create_graph))
        return (1,)

    def engine(t_outputs, *args, **kwargs):
        called.append(("engine", args[2]))
        return (1,)

    functions = {"_engine_run_backward": engine, "backward": backward, "grad": grad}
    space = types.SimpleNamespace(**{name: functions[name] for name in entrances})
    followed = passes.Passes(session_of(), types.SimpleNamespace(autograd=space))
    followed.follow()
    loss = torch.ones(1, requires_grad=True) * 2
    if "grad" in entrances:
        space.backward(loss), space.backward(tensors=loss, create_graph=False)
        assert space.grad(outputs=loss, inputs=loss) == (1,) and not followed.twice
        space.grad(loss, loss, None, True, True)
        assert called == [("backward", False)] * 2 + [("grad", False), ("grad", True)]
    else:
        space._engine_run_backward((loss,), (None,), True, False, (), allow_unreachable=True, accumulate_grad=True)
        assert not followed.twice
        space._engine_run_backward((loss,), (None,), True, True, (), True, accumulate_grad=False)
        assert called == [("engine", False), ("engine", True)]
    assert followed.twice
