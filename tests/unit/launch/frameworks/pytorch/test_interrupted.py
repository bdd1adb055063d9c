"""Calls done once that a handler of the program's for a signal interrupts, wherever it raises: nothing stays on."""

import sys

import pytest

from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks import settings as settings_module
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import once as once_module
from modak_deploy.launch.levers.pytorch import onednn_products
from modak_deploy.launch.variants import Variant
from module_parts import counting

NAME = onednn_products.LEVER.name


@pytest.fixture
def module(torch, monkeypatch):
    """Return a module with a state, on a processor that has what the lever needs."""
    if not hasattr(torch._C, "_get_fp32_precision_getter"):
        pytest.skip("this version of PyTorch has no precision of products for oneDNN alone")
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx512bw",)))
    monkeypatch.setattr(onednn_products, "_in_single", lambda torch: True)
    return counting(torch)


def interrupted(step, files, names, call):
    """Do a call that ends before the line ``step`` of some functions; return whether it has."""
    left = [step]

    def trace(frame, event, _):
        if frame.f_code.co_filename not in files or (names and frame.f_code.co_name not in names):
            return None
        if event == "line":
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def state(torch):
    functions = (torch.nn.functional.linear, torch._C._get_float32_matmul_precision)
    return (*functions, torch.backends.mkldnn.matmul.fp32_precision)


FILES = (settings_module.__file__, onednn_products.__file__)


def test_what_is_switched_on_goes(torch, module):
    plain, lever = state(torch), onednn_products.OnednnProducts()
    with torch.no_grad():
        for step in range(1, 200):
            settings = settings_module.Settings(torch)
            ended = interrupted(step, FILES, (), lambda settings=settings: settings.follow(Variant((lever,))))
            settings.rest()
            assert state(torch) == plain
            if not ended:
                break
    assert 10 < step < 199


def test_what_is_switched_off_is_switched_off_again(torch, module):
    plain, lever = state(torch), onednn_products.OnednnProducts()
    with torch.no_grad():
        for step in range(1, 200):
            settings = settings_module.Settings(torch)
            settings.follow(Variant((lever,)))
            assert state(torch)[2] == "bf16"
            ended = interrupted(step, FILES, (), settings.rest)
            settings.rest()
            assert state(torch) == plain
            if not ended:
                break
    assert 10 < step < 199


def test_after_a_call_nothing_is_on_and_the_next_is_done_as_before(torch, module, session_of):
    session = session_of(levers=[NAME])
    calls_module.Calls(session, torch, module)
    plain, x = state(torch), torch.rand(1, 300)
    files = (*FILES, once_module.__file__, calls_module.__file__)
    names = ("_evaluation", "_rest", "follow", "rest", "_off", "switch", "_begin", "_end")
    with torch.no_grad():
        for _ in range(60):
            module(x)
        (search,) = session.searches
        for step in range(1, 300):
            ended = interrupted(step, files, names, lambda: module(x))
            assert state(torch) == plain
            if not ended:
                break
    assert 20 < step < 299
    assert search.best.name == NAME
    assert not session.record.of("no_trials") and not session.record.of("fallback")


def test_with_a_timer_of_the_programs_what_was_chosen_is_on(torch, module, session_of, monkeypatch):
    monkeypatch.setattr(once_module, "timed", lambda: True)
    session = session_of(levers=[NAME])
    calls_module.Calls(session, torch, module)
    own, seen = module.forward, []

    def forward(x):
        seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        return own(x)

    module.forward = forward
    with torch.no_grad():
        for _ in range(8):
            module(torch.rand(1, 300))
    assert seen[1:] == ["bf16"] * 7
