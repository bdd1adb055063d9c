"""Matrix products by oneDNN's kernels: which kernels run, what they compute, and what the program sees of it."""

import threading

import pytest

from launch_parts import launch
from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks.pytorch.kinds import Subject
from modak_deploy.launch.levers.pytorch import onednn_products

NAME = "pytorch-onednn-products"
FEATURES = hardware.cpu_features()
PROGRAM = """
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
    def forward(self, x):
        assert torch.get_float32_matmul_precision() == "highest"
        return self.layers(x)
{use}
print(torch.backends.mkldnn.matmul.fp32_precision, torch.get_float32_matmul_precision())
"""
INFERENCE = """
net = Net().eval()
x = torch.rand(32, 256)
with torch.no_grad():
    for _ in range(8):
        net(x)
"""
TRAINING = """
net = Net()
x = torch.rand(32, 256)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(8):
    opt.zero_grad(); net(x).square().mean().backward(); opt.step()
net.eval()
"""


@pytest.fixture
def lever(torch, monkeypatch):
    """Return a lever of its own, on a processor that has what it needs."""
    if not hasattr(torch._C, "_get_fp32_precision_getter"):
        pytest.skip("this version of PyTorch has no precision of products for oneDNN alone")
    onednn_products._in_single.cache_clear()
    yield onednn_products.OnednnProducts()
    onednn_products._in_single.cache_clear()


@pytest.fixture
def subject(torch):
    return lambda module: Subject(torch, module.eval())


def precision(torch):
    return torch.backends.mkldnn.matmul.fp32_precision


@pytest.mark.skipif("avx512bw" not in FEATURES or "amx_bf16" in FEATURES, reason="for AVX-512 without AMX")
class TestOnThisProcessor:
    @pytest.mark.parametrize(
        ("use", "after"), [(INFERENCE, 2), (TRAINING, 6)], ids=["inference", "training"]
    )  # a call has two products, a step three times as many, less the gradient of what is given
    def test_products_are_by_onednn(self, torch, lever, tmp_path, monkeypatch, use, after):
        monkeypatch.setenv("ONEDNN_VERBOSE", "1")
        counts = []
        for levers in ([], [NAME]):
            (tmp_path / "program.py").write_text(PROGRAM.format(use=use))
            done = launch(tmp_path / "program.py", tmp_path, {"levers": levers, "trials": {"mode": "none"}})
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines()[-1] == "none highest"
            assert not [entry for entry in done.entries if entry["event"] == "fallback"]
            counts.append(sum(",matmul," in line for line in done.stdout.splitlines()))
        assert counts[0] == 0
        assert counts[1] >= 4 * after

    def test_a_module_is_scripted_after_its_training(self, torch, lever, tmp_path):
        use = TRAINING.replace("net.eval()", "torch.jit.script(torch.nn.Linear(3, 3))")
        (tmp_path / "program.py").write_text(PROGRAM.format(use=use))
        done = launch(tmp_path / "program.py", tmp_path, {"levers": [NAME], "trials": {"mode": "none"}})
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "bf16 highest"  # it is on from step to step

    @pytest.mark.parametrize("batch", [1, 16, 128])
    def test_products_are_in_single_precision(self, torch, lever, batch):
        torch.manual_seed(0)
        x, weight, bias = torch.randn(batch, 300), torch.randn(70, 300), torch.randn(70)
        reference = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
        lever.switch(torch, True)
        try:
            result = torch.nn.functional.linear(x, weight, bias)
        finally:
            lever.switch(torch, False)
        assert float((result - reference).abs().max() / reference.abs().max()) < 3e-6

    @pytest.mark.parametrize("shape", [(300,), (1, 300), (1, 1, 300)], ids=str)
    @pytest.mark.parametrize("bias", [True, False])
    def test_a_single_row_has_a_kernel_of_its_own(self, torch, lever, shape, bias):
        torch.manual_seed(0)
        layer = torch.nn.Linear(300, 400, bias=bias)
        x = torch.randn(*shape)
        with torch.no_grad():
            lever.switch(torch, True)
        try:
            own = layer(x)
            with torch.no_grad(), torch.profiler.profile() as seen:
                result = layer(x)
        finally:
            lever.switch(torch, False)
        assert "mkldnn::_linear_pointwise" in {event.key for event in seen.key_averages()}
        assert (result.shape, result.is_contiguous()) == (own.shape, True)
        assert float((result - own.detach()).abs().max()) < 1e-5
        with torch.no_grad(), torch.profiler.profile() as seen:
            layer(x)
        assert "mkldnn::_linear_pointwise" not in {event.key for event in seen.key_averages()}

    def test_rows_that_are_followed_or_differentiated_or_wrong_are_pytorchs(self, torch, lever):
        from torch.autograd import forward_ad
        from torch.utils.flop_counter import FlopCounterMode

        layer, x = torch.nn.Linear(300, 400), torch.randn(1, 300)
        with torch.no_grad():
            lever.switch(torch, True)
        try:
            with torch.no_grad():
                with FlopCounterMode(display=False) as flops:
                    layer(x)
                with forward_ad.dual_level():
                    dual = layer(forward_ad.make_dual(x, torch.ones_like(x)))
                    assert forward_ad.unpack_dual(dual).tangent is not None
                with pytest.raises(RuntimeError, match="cannot be multiplied"):
                    layer(torch.randn(1, 299))
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    assert layer(x).dtype == torch.bfloat16
                with torch.backends.mkldnn.flags(enabled=False), torch.profiler.profile() as seen:
                    layer(x)
            assert flops.get_total_flops() == 2 * 300 * 400
            assert "mkldnn::_linear_pointwise" not in {event.key for event in seen.key_averages()}
        finally:
            lever.switch(torch, False)

    def test_it_is_offered(self, torch, lever, subject):
        assert lever.applies(subject(torch.nn.Linear(64, 64))) is None
        assert precision(torch) == "none"


def test_products_in_bf16_are_refused(torch, lever, subject, monkeypatch):
    own = torch.Tensor.__matmul__
    lower = torch.bfloat16
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda left, right: own(left.to(lower), right.to(lower)).float())
    assert lever.applies(subject(torch.nn.Linear(64, 64))) == (
        "oneDNN's kernels would compute in a lower precision on this processor"
    )
    assert precision(torch) == "none"


def test_modules_of_which_products_are_a_small_part_are_refused(torch, lever, subject):
    nn = torch.nn
    convolutions = nn.Sequential(nn.Conv2d(64, 64, 5), nn.Flatten(), nn.Linear(64, 10))
    table = nn.Sequential(nn.Embedding(1000, 64), nn.Conv1d(64, 64, 3))
    for module in (convolutions, table):
        assert lever.applies(subject(module)) == "hardly any of the weights are those of matrix products"
    assert "not all in single" in lever.applies(subject(nn.Linear(64, 64).double()))


@pytest.mark.parametrize("of", ["torch.backends", "torch.backends.mkldnn"])
def test_a_precision_of_all_operations_is_the_programs(torch, lever, subject, of):
    kind = ("generic", "all") if of == "torch.backends" else ("mkldnn", "all")
    torch._C._set_fp32_precision_setter(*kind, "tf32")
    try:
        assert lever.applies(subject(torch.nn.Linear(64, 64))) == "the program sets the precision of all operations"
    finally:
        torch._C._set_fp32_precision_setter(*kind, "none")


def test_without_onednn_it_is_refused(torch, lever, subject):
    with torch.backends.mkldnn.flags(enabled=False):
        reason = lever.applies(subject(torch.nn.Linear(64, 64)))
    assert reason == "PyTorch has no oneDNN, or the program has switched it off"


@pytest.fixture
def own(torch):
    """Leave the settings as they were, whatever a test does with them; return what asks for the precision."""
    yield torch.get_float32_matmul_precision
    torch.set_float32_matmul_precision("highest")
    for kind in (("generic", "all"), ("mkldnn", "matmul"), ("cuda", "matmul")):
        torch._C._set_fp32_precision_setter(*kind, "none")


def test_what_is_set_for_all_operations_between_calls_stays_so(torch, lever, own):
    torch._C._set_fp32_precision_setter("generic", "all", "ieee")
    lever.switch(torch, True)
    assert precision(torch) == "ieee"
    lever.switch(torch, False)
    torch._C._set_fp32_precision_setter("generic", "all", "tf32")
    assert precision(torch) == "tf32"


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.parametrize("within", ["highest", "high", "medium", None])
def test_what_the_program_sets_within_a_call_is_as_without(torch, lever, own, before, within):
    def call():
        told = [own(), torch.get_float32_matmul_precision()]
        if within is not None:
            torch.set_float32_matmul_precision(within)
        return [*told, own(), torch.get_float32_matmul_precision()]

    seen = []
    for on in (False, True):
        torch.set_float32_matmul_precision(before)
        lever.switch(torch, on)
        told = call()
        lever.switch(torch, False)
        seen.append((told, own(), precision(torch)))
    assert seen[0] == seen[1]


def test_what_the_program_has_set_is_there_again(torch, lever):
    own = torch.get_float32_matmul_precision
    torch.set_float32_matmul_precision("high")
    try:
        before = precision(torch)
        for on in (True, True, False, False, False):  # the last one of nobody
            thread = threading.Thread(target=lever.switch, args=(torch, on))
            thread.start()
            thread.join()
            assert torch.get_float32_matmul_precision() == "high"
        assert (precision(torch), torch.get_float32_matmul_precision) == (before, own)
        lever.switch(torch, True)
        torch.set_float32_matmul_precision("highest")
        changed = precision(torch)
        lever.switch(torch, False)
        assert (precision(torch), torch.get_float32_matmul_precision()) == (changed, "highest")
    finally:
        torch.set_float32_matmul_precision("highest")
        torch._C._set_fp32_precision_setter("mkldnn", "matmul", "none")
        torch._C._set_fp32_precision_setter("cuda", "matmul", "none")
