"""Conversions that real exporters make, kept for later runs of the program."""

import functools
import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from launch_parts import scoring_net
from modak_deploy.launch import background, estimate, hardware, store
from modak_deploy.launch.frameworks.pytorch import background as beside
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch.conversions import Conversions
from modak_deploy.launch.frameworks.pytorch.identity import Identity
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.levers.pytorch import onnxruntime as lever_module
from modak_deploy.launch.prospects import LOST
from modak_deploy.launch.session import NOT_KEPT

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed; 'pip install .[onnx]' installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; 'pip install .[convert]' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
ONNX = "pytorch-onnxruntime"
LEVERS = [
    ONNX,
    *(["pytorch-openvino", "pytorch-openvino-bf16"] if importlib.util.find_spec("openvino") else []),
]
OFFER = beside.Background.offer


@pytest.fixture
def net(torch):
    return functools.partial(scoring_net, torch)


@pytest.fixture
def images(torch):
    torch.manual_seed(1)
    return torch.randn(2, 3, 8, 8)


@pytest.fixture
def run(torch, net, images, session_of, tmp_path):
    """Return what calls a module in a run of its own, and returns the record and the results."""

    def carry_out(model=None, lever=ONNX, chosen=False, calls=300, cache=tmp_path / "cache", **trials: Any) -> Any:
        model = net() if model is None else model
        options = {"candidates": [] if chosen else [lever], "units": 200_000, "numerics": "relaxed", **trials}
        session = session_of([lever] if chosen else [], cache=cache, **options)
        calls_module.Calls(session, torch, model)
        wanted, results = [], []
        with torch.inference_mode():
            for _ in range(calls):
                wanted.append(model._call_impl(images, scale=0.5)["scores"])
                results.append(model(images, scale=0.5))
        limit = 0.1 if lever.endswith("bf16") else 1e-5
        for result, right in zip(results, wanted, strict=True):
            assert torch.allclose(result["scores"], right, atol=limit)
            assert result["hidden"][1] is None
        return session.record

    return carry_out


def entries(tmp_path):
    folder = tmp_path / "cache" / "conversions"
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def never(*_, **__):
    pytest.fail("it was exported")


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("lever", LEVERS)
def test_second_run_reads_what_the_first_has_made(run, lever, chosen, torch, tmp_path, monkeypatch):
    first = run(lever=lever, chosen=chosen)
    assert not first.of("cached") and not first.of("no_cache") and not first.of("fallback")
    assert len(entries(tmp_path)) == 1
    monkeypatch.setattr(torch.export, "export", never)
    second = run(lever=lever, chosen=chosen)
    assert [entry["lever"] for entry in second.of("cached")] == [lever]
    assert not second.of("fallback") and not second.of("no_cache")
    assert len(entries(tmp_path)) == 1  # without a mark of its being read
    if not chosen:
        assert second.of("trial")[0]["one_time"] < first.of("trial")[0]["one_time"]


def test_nothing_is_kept_without_a_folder(run, tmp_path):
    assert run(cache=None).of("trial")
    assert entries(tmp_path) == []


@pytest.mark.parametrize("other", ["weights", "versions", "threads"])
def test_conversion_of_something_else_is_not_read(run, net, other, torch, tmp_path, monkeypatch):
    lever = LEVERS[-1] if other == "threads" else ONNX
    run(lever=lever)
    if other == "versions":
        monkeypatch.setattr(lever_module.onnxruntime, "content_kind", lambda: ("onnx", "another"))
    if other == "threads" and lever == ONNX:
        pytest.skip("OpenVINO is not installed")
    if other == "threads":
        monkeypatch.setattr(hardware, "cpu_model", lambda: "another processor")
    record = run(net(3 if other == "weights" else 0), lever=lever)
    assert not record.of("cached") and record.of("trial")
    assert len(entries(tmp_path)) == 2


def spoil(torch, net, images, tmp_path, content=None):
    """Put a conversion of another network, or something else, where that of the module's is."""
    (name,) = entries(tmp_path)
    kept = store.Store(str(tmp_path / "cache"), "conversions", pytest.fail)
    if content is None:
        content = InSession(torch, net(shift=1.0)).content((images,), {"scale": 0.5})
    kept.remove(name)
    kept.put(name, content)
    return name


@pytest.mark.parametrize("content", [None, b"no model at all"])
@pytest.mark.parametrize("chosen", [False, True])
def test_wrong_conversion_is_made_anew(run, net, images, torch, tmp_path, content, chosen):
    run(chosen=chosen)
    name = spoil(torch, net, images, tmp_path, content)
    record = run(chosen=chosen)
    assert len(record.of("cached")) == 1
    assert not record.of("fallback") and not [entry for entry in record.of("trial") if entry["failed"]]
    assert record.of("settled")[-1]["reason"] != "there was nothing to try"
    assert entries(tmp_path) == [name]
    assert len(run(chosen=chosen).of("cached")) == 1  # and is right now
    assert entries(tmp_path) == [name]


def test_wrong_conversion_that_was_just_made_is_not_kept(run, torch, net, images, tmp_path, monkeypatch):
    wrong = InSession(torch, net(shift=1.0)).content((images,), {"scale": 0.5})
    monkeypatch.setattr(InSession, "written", lambda *_: wrong)
    record = run()
    assert [entry["failed"] for entry in record.of("trial")] == [True]
    assert entries(tmp_path) == []


def test_short_job_affords_what_is_there(run, monkeypatch):
    share = 1e-9
    assert run(share=share, units=100, calls=300).of("not_tried") == []  # it is until the program's end
    run()
    monkeypatch.setattr(lever_module.OnnxRuntime, "making", lambda *_: 1e6)
    dear = run(cache=None, calls=300)
    assert not dear.of("trial")
    assert run(calls=300).of("trial")[0]["result"]


def test_what_is_gone_when_it_is_wanted_is_made(run, monkeypatch, tmp_path):
    run()
    monkeypatch.setattr(store.Store, "get", lambda *_: None)
    record = run()
    assert not record.of("cached") and not record.of("fallback")
    assert record.of("deferred") and not [entry for entry in record.of("trial") if entry["failed"]]
    assert record.of("trial")
    assert len(entries(tmp_path)) == 1


def test_what_is_too_dear_to_make_is_tried_where_it_was_kept(run, torch, tmp_path, monkeypatch):
    assert not run(kept=[ONNX]).of("trial") and entries(tmp_path) == []
    (left,) = run(kept=[ONNX]).of("not_tried")
    assert (left["lever"], left["reason"]) == (ONNX, NOT_KEPT)
    assert run().of("trial") and len(entries(tmp_path)) == 1
    monkeypatch.setattr(torch.export, "export", never)
    record = run(kept=[ONNX])
    assert [entry["lever"] for entry in record.of("cached")] == [ONNX] and record.of("trial")
    assert not record.of("not_tried") and not record.of("fallback")


@pytest.mark.parametrize("fault", ["wrong", "broken", "gone", "weights", "weights while it is tried"])
def test_what_is_too_dear_to_make_is_not_made_where_what_was_kept_is_of_no_use(
    run, images, torch, session_of, tmp_path, monkeypatch, fault
):
    net = functools.partial(scoring_net, torch, pause=0.001)  # so that the conversion is faster, and chosen
    run(net())
    if fault in ("wrong", "broken"):
        spoil(torch, net, images, tmp_path, None if fault == "wrong" else b"no model at all")
    if fault == "gone":
        monkeypatch.setattr(store.Store, "get", lambda *_: None)
    monkeypatch.setattr(torch.export, "export", never)
    model = net()
    session = session_of(candidates=[ONNX], kept=[ONNX], units=200_000, cache=tmp_path / "cache")
    calls_module.Calls(session, torch, model)
    events, left = {"weights": "settled", "weights while it is tried": "cached"}, 300
    with torch.inference_mode():
        for _ in range(3000):  # how many calls it takes until it has settled depends on the machine
            left -= fault not in events
            if not left:
                break
            if fault in events and session.record.of(events[fault]):
                del events[fault]
                with torch.inference_mode(False), torch.no_grad():
                    model.head.weight.mul_(3)
            right = model._call_impl(images, scale=0.5)["scores"]
            assert torch.allclose(model(images, scale=0.5)["scores"], right, atol=1e-5)
    session.end()
    record = session.record
    assert not record.of("fallback") and not [entry for entry in record.of("trial") if entry["failed"]]
    assert [entry["reason"] for entry in record.of("not_tried")] == [LOST]
    assert record.of("settled")[-1]["variant"] == "default" and record.of("deferred")
    assert len(entries(tmp_path)) == (0 if fault in ("wrong", "broken") else 1)


@pytest.mark.parametrize("fault", ["gone", "wrong"])
def test_what_was_kept_for_calls_of_another_shape_is_of_no_use(
    run, net, images, torch, session_of, tmp_path, monkeypatch, fault
):
    """The first shape's is in use, and goes with it: what was kept of this module cannot be relied upon."""
    others = torch.randn(3, 3, 8, 8)
    run()
    (first,) = entries(tmp_path)
    calls_module.Calls(session_of(candidates=[ONNX], units=200_000, cache=tmp_path / "cache"), torch, model := net())
    with torch.inference_mode():
        for _ in range(300):
            model(others, scale=0.5)
    (second,) = {*entries(tmp_path)} - {first}
    wrong = InSession(torch, net(shift=1.0)).content((others,), {"scale": 0.5})
    monkeypatch.setattr(torch.export, "export", never)
    session = session_of(candidates=[ONNX], kept=[ONNX], units=200_000, cache=tmp_path / "cache")
    kept = store.Store(str(tmp_path / "cache"), "conversions", pytest.fail)
    calls_module.Calls(session, torch, model := net())
    with torch.inference_mode():
        for number in range(900):
            if len(session.searches) == 2 and kept is not None:
                kept.remove(second)
                if fault == "wrong":
                    kept.put(second, wrong)
                kept = None
            call = images if number < 300 or number % 2 else others
            right = model._call_impl(call, scale=0.5)["scores"]
            assert torch.allclose(model(call, scale=0.5)["scores"], right, atol=1e-5)
    assert kept is None and session.record.of("deferred") and not session.record.of("fallback")


@pytest.mark.skipif("pytorch-openvino" not in LEVERS, reason="OpenVINO is not installed")
def test_what_was_on_from_the_start_is_used_again_where_what_was_kept_is_of_no_use(
    run, net, images, torch, session_of, tmp_path, monkeypatch
):
    run(lever="pytorch-openvino")
    run()
    monkeypatch.setattr(estimate.Estimate, "beats", lambda *_: True)
    options = {"candidates": [ONNX], "kept": [ONNX], "units": 200_000, "gain": 1.5}
    session = session_of(["pytorch-openvino"], cache=tmp_path / "cache", **options)
    calls_module.Calls(session, torch, model := net())
    with torch.inference_mode():
        for _ in range(600):
            if session.record.of("settled") and session.searches[0].best.name == ONNX:
                monkeypatch.setattr(torch.export, "export", never)
                with torch.inference_mode(False), torch.no_grad():
                    model.head.weight.mul_(3)
            right = model._call_impl(images, scale=0.5)["scores"]
            assert torch.allclose(model(images, scale=0.5)["scores"], right, atol=1e-5)
    assert session.record.of("weights_changed")
    assert session.searches[0].best.name == "pytorch-openvino"


def test_weights_that_change_leave_what_is_there(run, net, torch, images, session_of, tmp_path):
    run()
    model = net()
    session = session_of(candidates=[ONNX], units=200_000, cache=tmp_path / "cache")
    calls_module.Calls(session, torch, model)
    with torch.inference_mode():
        for call in range(300):
            if call == 150:
                with torch.inference_mode(False), torch.no_grad():
                    model.head.weight.mul_(3)
            right = model._call_impl(images)["scores"]
            assert torch.allclose(model(images)["scores"], right, atol=1e-5)
    assert not session.record.of("fallback")


def test_module_that_cannot_be_looked_into_is_converted_each_time(run, net, tmp_path):
    for _ in range(2):
        model = net()
        model.something = memoryview(b"x")
        record = run(model)
        assert len(record.of("no_cache")) == 1 and record.of("trial")
    assert entries(tmp_path) == []


def test_folder_that_cannot_be_used_is_one_entry(run, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    record = run()
    assert record.of("trial") and not record.of("fallback")
    (entry,) = record.of("no_cache")
    assert entry["reason"] == f"Refused: others may write to {tmp_path}/cache"


def test_weights_are_read_only_where_something_is_there(net, torch, images, session_of, tmp_path, monkeypatch):
    monkeypatch.setattr(Identity, "weights", property(lambda _: pytest.fail("the weights were read")))
    conversions = Conversions(session_of(cache=tmp_path / "cache"), torch, "Net")
    levers = [lever_module.LEVER, SimpleNamespace(name="other", content_kind=lambda torch: None)]
    watched: list[int] = []
    assert conversions.held(net(), levers, "form", lambda: watched.append(1)) == set()
    assert watched == []


def test_what_is_made_in_the_background_is_kept(run, net, images, torch, tmp_path, monkeypatch):
    monkeypatch.setattr(beside.Background, "offer", OFFER)
    monkeypatch.setattr(hardware, "cores", lambda: 2)
    monkeypatch.setattr(hardware, "physical_cores", lambda: 2)
    monkeypatch.setattr(hardware, "idle", lambda: None)
    monkeypatch.setattr(background, "FOREIGN", ())
    monkeypatch.setattr(background, "_notices_children", lambda: False)
    if "making" not in {entry["event"] for entry in run(calls=5000).entries}:
        pytest.skip("nothing can be made in the background here")
    assert len(entries(tmp_path)) == 1
    record = run()
    assert len(record.of("cached")) == 1 and not record.of("making")
