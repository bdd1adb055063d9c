"""Whether bf16 is offered on this processor."""

import pytest

from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks.pytorch import bf16


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(bf16, "_factors", {})


def test_a_processor_without_bf16_arithmetic_is_not_offered_it(torch, monkeypatch):
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx512f", "avx2")))
    assert "no bf16 arithmetic" in (bf16.refusal(torch, "cpu") or "")
    assert bf16.refusal(torch, "cuda") is None


def test_kernels_that_are_slow_in_bf16_are_not_offered(torch, monkeypatch):
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx512_bf16",)))
    monkeypatch.setattr(bf16, "_measured", lambda torch: 3.2)
    assert bf16.refusal(torch, "cpu") == "bf16 kernels take 3.2 times as long as those in single precision"


def test_the_kernels_are_measured_without_a_trace(torch):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert bf16.factor(torch) > 0
    assert torch.equal(before, torch.get_rng_state())
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_kernels_that_fail_are_a_reason(torch, monkeypatch):
    def fails(torch):
        raise RuntimeError("not implemented for 'BFloat16'")

    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("bf16",)))
    monkeypatch.setattr(bf16, "_measured", fails)
    assert "not implemented" in (bf16.refusal(torch, "cpu") or "")
