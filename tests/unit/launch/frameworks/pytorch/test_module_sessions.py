"""Modules done by sessions of real ONNX Runtime: results in the program's form, and what cannot be exported."""

import logging

import pytest

from exported_parts import Clock, module_maker
from modak_deploy.launch import hardware, structures
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import inference
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession, missing

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed; 'pip install .[onnx]' installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; 'pip install .[convert]' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
LEVER = "pytorch-onnxruntime"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    own = InSession.__call__

    def call(session, *args, **kwargs):
        result = own(session, *args, **kwargs)
        Clock.now += 0.25
        return result

    Clock.now = 0.0
    monkeypatch.setattr(InSession, "__call__", call)
    monkeypatch.setattr(inference.Inference, "now", lambda self, search: Clock.now)


@pytest.fixture(scope="module")
def net(torch):
    return module_maker(torch)


@pytest.fixture
def images(torch):
    torch.manual_seed(1)
    return torch.randn(2, 3, 8, 8)


def test_results_have_the_values_and_the_form_of_the_modules(torch, net, images):
    model = net("mapping")
    session = InSession(torch, model)
    with torch.inference_mode():
        wanted, result = model(images, scale=0.5), session(images, scale=0.5)
        before = result["scores"].clone()
        session(images * 2, scale=0.5)
    assert type(result) is type(wanted)
    assert result["name"] == "net" and result["pair"][1] is None
    assert torch.equal(result["kinds"], wanted["kinds"])
    assert torch.equal(result["scores"], before)
    assert torch.allclose(result["scores"], wanted["scores"], rtol=0.0, atol=1e-5)


def test_each_form_of_the_arguments_has_a_session_of_its_own(torch, net, images):
    model = net()
    session = InSession(torch, model)
    mask = torch.tensor([[True, False, False, True]])
    turned = images.contiguous(memory_format=torch.channels_last)
    for given in ({}, {"scale": 0.5}, {"mask": mask}, {"mask": ~mask}):
        for batch in (images, images[:1], turned, images.flip(0)):
            with torch.no_grad():
                assert torch.allclose(session(batch, **given), model(batch, **given), atol=1e-5), given


def test_the_programs_output_logging_and_warnings_stay_as_they_are(torch, net, images, monkeypatch, capfd):
    monkeypatch.setattr(logging.root, "handlers", [])
    InSession(torch, net())(images)
    assert logging.root.handlers == []
    assert logging.root.manager.disable == logging.NOTSET
    assert capfd.readouterr() == ("", "")


def test_types_that_it_is_not_given_and_too_large_weights_are_refused(torch, net, images, monkeypatch):
    with pytest.raises(structures.Unsupported, match=r"no tensors of torch\.bfloat16"):
        InSession(torch, net("bf16"))(images)
    with torch.no_grad(), pytest.raises(structures.Unsupported, match="changes its arguments"):
        InSession(torch, net("into its argument"))(images)
    monkeypatch.setattr(hardware, "free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="free"):
        InSession(torch, net())(images)
    assert missing("cpu") is None


@pytest.fixture
def follow(torch, session_of):
    def make(model):
        session = session_of(candidates=[LEVER], units=400)
        return session, calls_module.Calls(session, torch, model)

    return make


def called(torch, model, images, calls):
    with torch.inference_mode():
        return [model(images) for _ in range(calls)]


def test_it_is_tried_and_weights_that_change_are_those_of_the_next_call(torch, net, images, follow):
    model = net()
    (plain,) = called(torch, model, images, 1)
    session, _ = follow(model)
    results = called(torch, model, images, 60)
    assert session.record.of("settled")[-1]["variant"] == LEVER
    assert all(torch.allclose(result, plain, atol=1e-5) for result in results)
    with torch.no_grad():
        model.head.weight.mul_(3)
    wanted = net()
    wanted.load_state_dict(model.state_dict())
    with torch.inference_mode():
        assert torch.allclose(model(images), wanted(images), atol=1e-5)


def test_a_module_that_decides_by_values_keeps_its_own_way(torch, net, images, follow):
    model, same = net("branch"), net("branch")
    session, _ = follow(model)
    results, plain = called(torch, model, images, 40), called(torch, same, images, 1)
    assert all(torch.equal(result, plain[0]) for result in results)
    (fallback,) = session.record.of("fallback")
    assert fallback["what"] == LEVER
