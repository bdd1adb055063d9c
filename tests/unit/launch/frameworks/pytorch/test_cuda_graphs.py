"""CUDA graphs on a real GPU: results are the module's own, and what cannot be recorded leaves the process as it was."""

import pytest

from modak_deploy.launch import structures
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.graphs import Graphed

GRAPH = "pytorch-cuda-graph"


@pytest.fixture(autouse=True)
def gpu(torch):
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU found")


@pytest.fixture(scope="module")
def net(torch):
    class Net(torch.nn.Module):
        def __init__(self, kind="plain"):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(16, 16)
            self.kind = kind

        def forward(self, values, scale=1.0):
            hidden = self.layer(values) * scale
            if self.kind == "value" and hidden.sum().item() > 1e9:
                return -hidden
            if self.kind == "sizes":
                return hidden[hidden > 0]
            if self.kind == "from the processor":
                return hidden + torch.ones(16).to(values.device, non_blocking=True)
            if self.kind == "to the processor":
                return hidden.cpu()
            if self.kind == "one value to the processor":
                return hidden.max().to("cpu", non_blocking=True)
            if self.kind == "into its argument":
                values.mul_(2)
            if self.kind == "mapping":
                return {"scores": hidden, "more": [hidden * 2]}
            return hidden

    return lambda kind="plain": Net(kind).cuda().eval()


def test_results_are_the_modules_and_the_programs_to_keep(torch, net):
    module = net("mapping")
    graphed = Graphed(torch, module, module)
    arguments = [torch.randn(4, 16, device="cuda") for _ in range(5)]
    with torch.inference_mode():
        wanted = [module(one, scale=2.0) for one in arguments]
        results = [graphed(one, scale=2.0) for one in arguments]
    for expected, result in zip(wanted, results, strict=True):
        assert list(result) == ["scores", "more"]
        torch.testing.assert_close(result["scores"], expected["scores"])
        torch.testing.assert_close(result["more"][0], expected["more"][0])


def test_another_form_or_value_is_recorded_anew(torch, net):
    module = net()
    graphed = Graphed(torch, module, module)
    for rows, scale in ((4, 1.0), (2, 1.0), (4, 3.0), (4, 1.0)):
        given = torch.randn(16, rows, device="cuda").t() if scale == 3.0 else torch.randn(rows, 16, device="cuda")
        with torch.no_grad():
            torch.testing.assert_close(graphed(given, scale), module(given, scale))
    assert len(graphed._recorded) == 3


def test_a_call_in_another_stream_waits_for_the_one_before(torch, net):
    module = net()
    graphed = Graphed(torch, module, module)
    given = torch.randn(4, 16, device="cuda")
    with torch.no_grad():
        wanted = module(given)
        graphed(given)
        other = torch.cuda.Stream()
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            result = graphed(given)
        torch.cuda.current_stream().wait_stream(other)
    torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize(
    "kind",
    ["value", "sizes", "from the processor", "to the processor", "one value to the processor", "into its argument"],
)
def test_what_waits_for_the_processor_is_refused_before_anything_is_recorded(torch, net, kind):
    module = net(kind)
    graphed = Graphed(torch, module, module)
    given = torch.randn(4, 16, device="cuda")
    with torch.no_grad():
        with pytest.raises(structures.Unsupported):
            graphed(given)
        module(given)
    assert torch.randn(3, device="cuda").shape == (3,)


def test_a_recording_that_fails_leaves_random_numbers_and_kernels_usable(torch, net, monkeypatch):
    module = net()

    def function(values):
        if torch.cuda.is_current_stream_capturing():
            torch.rand(3, device="cuda")
            return module(values).sum().item()
        return module(values)

    graphed = Graphed(torch, module, function)
    given = torch.randn(4, 16, device="cuda")
    with torch.no_grad(), pytest.raises(Exception, match="captur"):
        graphed(given)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.empty_cache()
    assert torch.randn(1000, device="cuda").std() > 0.5
    with torch.no_grad():
        torch.testing.assert_close(Graphed(torch, module, module)(given), module(given))


def test_trials_take_it_and_weights_that_change_are_seen(torch, net, session_of):
    session = session_of(["pytorch-cuda-graph"], mode="none")
    module = net()
    calls_module.Calls(session, torch, module)
    given = torch.randn(4, 16, device="cuda")
    with torch.inference_mode():
        for _ in range(8):
            result = module(given)
        with torch.no_grad():
            module.layer.weight.mul_(2)
        changed = module(given)
        module.layer.weight = torch.nn.Parameter(torch.zeros_like(module.layer.weight), requires_grad=False)
        replaced = module(given)
    assert not [entry for entry in session.record.entries if entry.get("event") == "fallback"]
    assert not torch.allclose(result, changed)
    torch.testing.assert_close(replaced, module.layer.bias.expand(4, 16))
