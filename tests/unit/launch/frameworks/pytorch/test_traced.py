"""Modules are traced where no value of a tensor reaches Python; all others are exported, or refused."""

import contextlib
import copy
import importlib.util
import sys
from typing import Any

import pytest

from modak_deploy.launch.frameworks.pytorch import exported
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.frameworks.pytorch.openvino import Converted
from modak_deploy.launch.frameworks.pytorch.traced import trace
from modak_deploy.launch.frameworks.pytorch.values import Reading
from modak_deploy.launch.frameworks.pytorch.written import is_alike, writes_views
from modak_deploy.launch.structures import Unsupported

pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
ONNX = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("onnxruntime", "onnxscript"))),
    reason="ONNX Runtime and onnxscript are not installed; 'pip install .[onnx,convert]' installs them",
)
ENGINES = {
    "openvino": lambda torch, model: Converted(torch, model, "f32"),
    "onnxruntime": InSession,
}

OWN: dict[str, Any] = {}


def set_first(tensor: Any, column: Any) -> Any:
    tensor[:, :1] = column
    return tensor


def viewed_before(tensor: Any) -> Any:
    view = tensor.flatten()
    tensor.clamp_(-1, 1)
    return view


FORWARDS = {
    "branch": ("item", lambda torch, x: x * 2 if x.sum() > 0 else x * 3),
    "number": ("item", lambda torch, x: x * float(x.max())),
    "list": ("tolist", lambda torch, x: x * x.sum(dim=1).tolist()[0]),
    "array": ("numpy", lambda torch, x: x * torch.from_numpy(x.numpy() * 2)),
    "equal": ("equal", lambda torch, x: x if torch.equal(x, x * 2) else x * 3),
    "mask": ("index", lambda torch, x: x[x > 0].sum() + x),
    "as many as there are": ("nonzero", lambda torch, x: x * torch.nonzero(x > 0).shape[0]),
    "address": ("data_ptr", lambda torch, x: x * (1 if x.data_ptr() else 2)),
    "data": ("data", lambda torch, x: x * x.data),
    "data alone": ("data", lambda torch, x: (x * 2).data),
    "sum of data": ("data", lambda torch, x: x * x.sum().data),
    "parameter": ("", lambda torch, x: x * torch.nn.Parameter(x.sum(), requires_grad=False)),
    "copy": ("__deepcopy__", lambda torch, x: x * copy.deepcopy(x)),
    "its own tensor": ("a tensor", lambda torch, x: x * OWN["tensor"]),
    "written": ("set_", lambda torch, x: x * torch.empty(0).set_(x * 2)),
    "as often as told": ("repeat_interleave", lambda torch, x: x[0].repeat_interleave(x.argmax(0)).shape[0] * x),
    "sizes": (None, lambda torch, x: x.reshape(x.shape[0], -1) * (2 if x.shape[1] > 2 else 3)),
    "steps": (None, lambda torch, x: sum(x[:, number : number + 1] * number for number in range(x.shape[1])) + x),
    "parts": (None, lambda torch, x: torch.cat([part * 2 for part in x.chunk(2, dim=1)], dim=1)),
    "in place": (None, lambda torch, x: torch.zeros_like(x).add_(x).mul_(2)),
    "quotients": (None, lambda torch, x: x // 2),
    "slices": (None, lambda torch, x: set_first(torch.ones_like(x), x[:, :1])),
    "attention": (
        None,
        lambda torch, x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    ),
    "several": (None, lambda torch, x: {"a": (x, None, [x * 2]), "b": x.argmax(1)}),
}


@pytest.fixture
def made(torch):
    def make(kind: str) -> Any:
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.head = torch.nn.Linear(4, 4)

            def forward(self, x: Any) -> Any:
                return FORWARDS[kind][1](torch, self.head(x))

        torch.manual_seed(0)
        return Net().eval()

    return make


@pytest.fixture
def traces(monkeypatch):
    """Count what comes of tracing: a model, or None."""
    results: list[Any] = []
    own = exported.trace

    def counted(*args: Any) -> Any:
        results.append(own(*args))
        return results[-1]

    monkeypatch.setattr(exported, "trace", counted)
    return results


@pytest.mark.parametrize("kind", FORWARDS)
def test_what_reaches_python_is_seen(torch, made, kind):
    OWN["tensor"] = torch.full((1, 4), 2.0)
    expected, model, given = FORWARDS[kind][0], made(kind), torch.ones(3, 4)
    reading = Reading(torch, [given, *model.parameters()])
    with torch.no_grad(), reading:
        result = model(given)
    reading.used([result] if isinstance(result, torch.Tensor) else [result["b"]])
    assert (reading.what is None) == (expected is None), reading.what
    seen = reading.what or ""
    assert (
        expected in (None, "index", seen) or seen in ("_local_scalar_dense", "is_nonzero") or seen.startswith(expected)
    )


def test_data_is_seen_where_the_launcher_follows_it_as_well(torch, made, monkeypatch):
    original, given = torch.Tensor.data, torch.ones(3, 4)
    monkeypatch.setattr(torch.Tensor, "data", property(lambda tensor: original.__get__(tensor)))
    model = made("sum of data")
    with torch.no_grad(), Reading(torch, [given, *model.parameters()]) as reading:
        model(given)
    assert reading.what == "data"


@pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])
@pytest.mark.parametrize("kind", [kind for kind, (reads, _) in FORWARDS.items() if reads is None])
def test_what_does_not_depend_on_values_is_traced_for_each_form(torch, made, traces, kind, engine):
    model = made(kind)
    converted = ENGINES[engine](torch, model)
    with torch.inference_mode():
        for batch in (3, 5, 3):
            given = torch.randn(batch, 4)
            results, wanted = converted(given), model(given)
            if kind == "several":
                assert results["a"][1] is None and torch.allclose(results["a"][2][0], wanted["a"][2][0], atol=1e-5)
                results, wanted = results["b"], wanted["b"]
            assert torch.allclose(results, wanted, atol=1e-5)
    assert len(traces) == 2 and None not in traces


@pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])
@pytest.mark.parametrize("kind", [kind for kind, (reads, _) in FORWARDS.items() if reads is not None])
def test_what_depends_on_values_is_not_traced(torch, made, traces, kind, engine):
    OWN["tensor"] = torch.full((1, 4), 2.0)
    model, given = made(kind), torch.randn(3, 4)
    converted = ENGINES[engine](torch, model)
    try:
        for other in (given, -given):
            with torch.inference_mode():
                assert torch.allclose(converted(other), model(other), atol=1e-5)
    except AssertionError:
        raise
    except Exception as error:  # it cannot be exported either
        assert str(error)
    assert not traces


@pytest.mark.parametrize(("kind", "numbers"), [("data", {2.0}), ("sum of data", {2.0}), ("its own tensor", {2.0})])
def test_what_tensors_held_is_no_constant_of_a_trace(torch, made, kind, numbers):
    OWN["tensor"] = torch.full((1, 4), 2.0)
    with torch.no_grad():
        assert trace(torch, made(kind), [torch.randn(3, 4)], numbers) is None


def test_numbers_of_the_programs_are_constants_of_a_trace(torch, made):
    with torch.no_grad():
        assert trace(torch, made("sizes"), [torch.randn(3, 4)], {2}) is not None


@pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])
def test_what_cannot_be_traced_is_exported(torch, made, traces, monkeypatch, engine):
    monkeypatch.setattr(torch.jit, "trace", lambda *args, **kwargs: 1 / 0)
    model, given = made("sizes"), torch.randn(3, 4)
    with torch.inference_mode():
        assert torch.allclose(ENGINES[engine](torch, model)(given), model(given), atol=1e-5)
    assert traces == [None]


@ONNX
@pytest.mark.parametrize(
    ("kind", "ways"),
    [("sizes", [False]), ("in place", [False]), ("slices", [True]), ("quotients", [True]), ("branch", [])],
)
def test_a_trace_is_written_as_onnx_unless_that_does_something_else(torch, made, monkeypatch, kind, ways):
    own, asked = torch.onnx.export, []

    def export(*args: Any, **options: Any) -> Any:
        asked.append(options["dynamo"])
        return own(*args, **options)

    monkeypatch.setattr(torch.onnx, "export", export)
    refused = pytest.raises(Exception, match="data-dependent") if kind == "branch" else contextlib.nullcontext()
    session, given = InSession(torch, made(kind)), torch.randn(3, 4)
    with torch.inference_mode(), refused:
        session(given)
    assert asked == ways


@ONNX
def test_what_the_exporter_of_traces_does_not_know_is_exported_otherwise(torch, made, monkeypatch):
    own = torch.onnx.export

    def export(*args: Any, **options: Any) -> Any:
        return own(*args, **options) if options["dynamo"] else 1 / 0

    monkeypatch.setattr(torch.onnx, "export", export)
    model, given = made("sizes"), torch.randn(3, 4)
    with torch.inference_mode():
        assert torch.allclose(InSession(torch, model)(given), model(given), atol=1e-5)


@pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])
def test_quotients_of_whole_numbers_are_rounded_as_by_pytorch_or_not_at_all(torch, engine):
    class Thirds(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x // 3

    model, given = Thirds().eval(), torch.arange(12).reshape(3, 4)
    session = ENGINES[engine](torch, model)
    with torch.no_grad():
        try:
            assert torch.equal(session(given), model(given))
        except Unsupported:
            assert engine == "openvino"
        else:
            assert torch.equal(session(-given), model(-given))


WRITES = {
    "nothing": (False, lambda torch, x: x + 1),
    "what an operation has made": (False, lambda torch, x: (x + 1).relu_().mul_(2)),
    "a copy of a part": (False, lambda torch, x: x[:, 0].clone().mul_(2)),
    "what there is a view of": (True, lambda torch, x: viewed_before(x + 1)),
    "what is its argument": (True, lambda torch, x: torch.dropout(x + 1, 0.5, False).mul_(2)),
    "a slice": (True, lambda torch, x: set_first(x + 1, 1.0)),
    "a view": (True, lambda torch, x: (x + 1).flatten().add_(1)),
    "one of several parts": (True, lambda torch, x: (x + 1).chunk(2, dim=1)[0].mul_(2)),
    "its argument": (True, lambda torch, x: x.add_(1)),
    "another tensor": (True, lambda torch, x: torch.add(x, 1, out=torch.empty_like(x))),
}


@pytest.mark.parametrize("kind", WRITES)
def test_what_writes_to_parts_of_tensors_is_seen(torch, kind):
    writes, forward = WRITES[kind]
    with torch.no_grad():
        traced = torch.jit.trace(lambda x: forward(torch, x), (torch.ones(3, 4),), check_trace=False)
    assert writes_views(traced.inlined_graph) == writes


def test_tracing_leaves_the_program_as_it_is(torch, made, traces, recwarn):
    model, given = made("steps"), torch.randn(3, 4)
    before = {name: id(value) for name, value in vars(model).items()}
    with torch.inference_mode():
        Converted(torch, model, "f32")(given)
    assert None not in traces
    assert {name: id(value) for name, value in vars(model).items()} == before
    assert not torch._C._len_torch_dispatch_stack() and not torch._C._len_torch_function_stack()
    assert not recwarn.list
    assert sys.modules["torch"] is torch


@ONNX
@pytest.mark.parametrize(
    ("alike", "forward"),
    [
        (True, lambda torch, x: torch.nn.functional.softplus(x, beta=2)),
        (False, lambda torch, x: torch.nn.functional.softplus(x, threshold=1)),
        (True, lambda torch, x: torch.nn.functional.avg_pool2d(x[None], 2)),
        (False, lambda torch, x: torch.nn.functional.avg_pool2d(x[None], 2, divisor_override=3)),
    ],
)
def test_arguments_that_the_exporter_passes_over_are_seen(torch, alike, forward):
    with torch.no_grad():
        traced = torch.jit.trace(lambda x: forward(torch, x), (torch.ones(4, 4),), check_trace=False)
    assert is_alike(traced.inlined_graph) == alike


@pytest.fixture
def function(torch):
    """Return what makes a module of a function."""

    class Net(torch.nn.Module):
        def __init__(self, forward: Any) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))
            self.function = forward

        def forward(self, x: Any) -> Any:
            return self.function(torch, x * self.weight)

    return lambda forward: Net(forward).eval()


@ONNX
@pytest.mark.parametrize(
    "forward",
    [
        lambda torch, x: x.sigmoid().log(),
        lambda torch, x: torch.nn.functional.logsigmoid(x),
        lambda torch, x: x / x.sigmoid(),
    ],
)
def test_small_sigmoids_that_onnx_runtime_has_not_are_the_programs(torch, function, forward):
    with torch.no_grad(), pytest.raises(Unsupported, match="sigmoid"):
        InSession(torch, function(forward))(torch.randn(3, 4))


@pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])
def test_sizes_among_the_results_are_numbers(torch, function, engine):
    model, given = function(lambda torch, x: {"double": x * 2, "rows": x.shape[0]}), torch.randn(3, 4)
    with torch.no_grad():
        result = ENGINES[engine](torch, model)(given)
    assert type(result["rows"]) is int and result["rows"] == 3
    assert torch.allclose(result["double"], given * 2)


@pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])
@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda torch, x: x // 0.1, "before they are cut off"),
        (lambda torch, x: torch.div(x, 0.3, rounding_mode="floor"), "before they are cut off"),
        (lambda torch, x: x.topk(2)[1], "equal numbers"),
        (lambda torch, x: torch.ones(4)[x.argsort(-1)], "equal numbers"),
    ],
)
def test_what_is_done_in_another_way_for_some_values_is_the_programs(torch, function, engine, forward, reason):
    with torch.no_grad(), pytest.raises(Unsupported, match=reason):
        ENGINES[engine](torch, function(forward))(torch.ones(3, 4))
