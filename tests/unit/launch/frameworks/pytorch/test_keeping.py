"""What is not a number stays so in the operations that are said to keep it, and is lost in others."""

import importlib.util
from typing import Any

import pytest

from modak_deploy.launch.frameworks.pytorch import exported
from modak_deploy.launch.frameworks.pytorch.keeping import KEEPING
from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.frameworks.pytorch.openvino import Converted
from modak_deploy.launch.frameworks.pytorch.values import Reading

pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
ONNX = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("onnxruntime", "onnxscript"))),
    reason="ONNX Runtime and onnxscript are not installed; 'pip install .[onnx,convert]' installs them",
)
ENGINES = {"openvino": lambda torch, model: Converted(torch, model, "f32"), "onnxruntime": InSession}
BOTH = pytest.mark.parametrize("engine", ["openvino", pytest.param("onnxruntime", marks=ONNX)])


def images(x: Any) -> Any:
    return x.reshape(1, 3, 3, 7)


FORWARDS = {
    "_adaptive_avg_pool2d": lambda torch, x: torch.nn.functional.adaptive_avg_pool2d(images(x), (2, 3)),
    "_prelu_kernel": lambda torch, x: torch.nn.functional.prelu(x, torch.tensor([0.2])),
    "_to_copy": lambda torch, x: x.to(torch.float16),
    "_unsafe_view": lambda torch, x: x.t().reshape(3, 21),
    "abs": lambda torch, x: x.abs(),
    "add": lambda torch, x: x + x.flip(0),
    "addcmul": lambda torch, x: torch.addcmul(x, torch.ones(7), torch.ones(7)),
    "addmm": lambda torch, x: torch.nn.functional.linear(x, torch.ones(3, 7), torch.ones(3)),
    "alias": lambda torch, x: torch.ops.aten.alias(x) * 1,
    "all": lambda torch, x: (x < 0).all(-1),
    "any": lambda torch, x: (x < 0).any(-1),
    "atan": lambda torch, x: x.atan(),
    "avg_pool2d": lambda torch, x: torch.nn.functional.avg_pool2d(images(x), 2),
    "bmm": lambda torch, x: torch.bmm(x[None], torch.ones(1, 7, 4)),
    "cat": lambda torch, x: torch.cat([x, x], dim=1),
    "ceil": lambda torch, x: x.ceil(),
    "clone": lambda torch, x: x.clone(),
    "constant_pad_nd": lambda torch, x: torch.nn.functional.pad(x, (1, 2)),
    "convolution": lambda torch, x: torch.nn.functional.conv2d(x[None, None], torch.ones(2, 1, 3, 3), padding=1),
    "cos": lambda torch, x: x.cos(),
    "cumsum": lambda torch, x: x.cumsum(-1),
    "detach": lambda torch, x: x.detach() * 1,
    "div": lambda torch, x: x / (x.flip(1).abs() + 1) / 3,
    "elu": lambda torch, x: torch.nn.functional.elu(x),
    "eq": lambda torch, x: x == x,
    "erf": lambda torch, x: x.erf(),
    "expand": lambda torch, x: x[None].expand(2, 9, 7),
    "flip": lambda torch, x: x.flip(1),
    "floor": lambda torch, x: x.floor(),
    "gather": lambda torch, x: x.gather(1, torch.zeros(9, 2, dtype=torch.int64)),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu of products": lambda torch, x: torch.nn.functional.gelu(torch.nn.functional.linear(x, torch.ones(8, 7))),
    "glu": lambda torch, x: torch.nn.functional.glu(x[:, :6], -1),
    "hardswish": lambda torch, x: torch.nn.functional.hardswish(x),
    "index": lambda torch, x: x[torch.tensor([0, 2])],
    "index_select": lambda torch, x: x.index_select(1, torch.tensor([0, 2])),
    "isnan": lambda torch, x: x.isnan(),
    "le": lambda torch, x: x <= 0,
    "leaky_relu": lambda torch, x: torch.nn.functional.leaky_relu(x),
    "linalg_vector_norm": lambda torch, x: x.norm(dim=-1),
    "log": lambda torch, x: (x.abs() + 1).log(),
    "log1p": lambda torch, x: x.abs().log1p(),
    "lt": lambda torch, x: x < 0,
    "masked_fill": lambda torch, x: x.masked_fill(torch.ones(7) > 2, 1.0).masked_fill(x < -1, 2.0),
    "mean": lambda torch, x: x.mean(-1),
    "mean of all": lambda torch, x: x.mean(),
    "mean of images": lambda torch, x: images(x).mean((2, 3)),
    "mish": lambda torch, x: torch.nn.functional.mish(x),
    "mm": lambda torch, x: x @ torch.ones(7, 3),
    "mul": lambda torch, x: x * x.flip(0) * 0.0,
    "nan_to_num": lambda torch, x: x.nan_to_num(0.5),
    "native_batch_norm": lambda torch, x: torch.nn.functional.batch_norm(images(x), torch.ones(3), torch.ones(3)),
    "native_group_norm": lambda torch, x: torch.nn.functional.group_norm(images(x), 3),
    "native_layer_norm": lambda torch, x: torch.nn.functional.layer_norm(x, (7,)),
    "ne": lambda torch, x: x != x,
    "neg": lambda torch, x: -x,
    "permute": lambda torch, x: x[None].permute(2, 0, 1),
    "pixel_shuffle": lambda torch, x: torch.nn.functional.pixel_shuffle(images(x).repeat(1, 4, 1, 1), 2),
    "pow": lambda torch, x: x**2,
    "prod": lambda torch, x: x.prod(-1),
    "reciprocal": lambda torch, x: (x.abs() + 1).reciprocal(),
    "repeat": lambda torch, x: x.repeat(2, 2),
    "roll": lambda torch, x: x.roll(1, 1),
    "round": lambda torch, x: x.round(),
    "rsqrt": lambda torch, x: (x.abs() + 1).rsqrt(),
    "rsub": lambda torch, x: 1 - x,
    "scatter": lambda torch, x: torch.zeros(9, 7).scatter(1, torch.arange(7).expand(9, 7).contiguous(), x),
    "select": lambda torch, x: x[:, 3],
    "sigmoid": lambda torch, x: x.sigmoid(),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
    "silu of a convolution": lambda torch, x: torch.nn.functional.silu(
        torch.nn.functional.conv2d(images(x), torch.ones(8, 3, 3, 3), padding=1)
    ),
    "sin": lambda torch, x: x.sin(),
    "slice": lambda torch, x: x[:, 1:6:2],
    "softplus": lambda torch, x: torch.nn.functional.softplus(x),
    "split": lambda torch, x: x.split(4, 1)[0] * 1,
    "split_with_sizes": lambda torch, x: x.split([3, 4], 1)[1] * 1,
    "sqrt": lambda torch, x: x.abs().sqrt(),
    "squeeze": lambda torch, x: x[:, :1].squeeze(1),
    "stack": lambda torch, x: torch.stack([x, x]),
    "std": lambda torch, x: x.std(-1),
    "sub": lambda torch, x: x - x.flip(0),
    "sum": lambda torch, x: x.sum(-1),
    "sum of all": lambda torch, x: x.sum(),
    "t": lambda torch, x: x.t(),
    "tanh": lambda torch, x: x.tanh(),
    "transpose": lambda torch, x: x[None].transpose(1, 2),
    "tril": lambda torch, x: x.tril(),
    "unbind": lambda torch, x: x.unbind(1)[3] * 1,
    "unsqueeze": lambda torch, x: x.unsqueeze(1),
    "upsample_bilinear2d": lambda torch, x: torch.nn.functional.interpolate(images(x), scale_factor=2, mode="bilinear"),
    "upsample_nearest2d": lambda torch, x: torch.nn.functional.interpolate(images(x), scale_factor=2),
    "var": lambda torch, x: x.var(-1),
    "view": lambda torch, x: x.view(7, 9),
    "where": lambda torch, x: torch.where(x < 0, -x, x),
}
BY_ONNX_RUNTIME = {
    "_log_softmax": lambda torch, x: x.log_softmax(-1),
    "_softmax": lambda torch, x: x.softmax(-1),
    "clamp": lambda torch, x: x.clamp(-1, 1),
    "clamp_min": lambda torch, x: x.clamp_min(0.5),
    "exp": lambda torch, x: x.exp(),
    "expm1": lambda torch, x: x.expm1(),
    "ge": lambda torch, x: x >= 0,
    "gt": lambda torch, x: x > 0,
    "hardsigmoid": lambda torch, x: torch.nn.functional.hardsigmoid(x),
    "hardtanh": lambda torch, x: torch.nn.functional.relu6(x),
    "logical_not": lambda torch, x: x.logical_not(),
    "maximum": lambda torch, x: torch.maximum(x, x.flip(0)),
    "minimum": lambda torch, x: torch.minimum(x, x.flip(0)),
    "relu": lambda torch, x: x.relu(),
    "relu of a convolution": lambda torch, x: torch.nn.functional.conv2d(
        images(x), torch.ones(8, 3, 3, 3), padding=1
    ).relu(),
}
ALL = {"openvino": FORWARDS, "onnxruntime": {**FORWARDS, **BY_ONNX_RUNTIME}}


@pytest.fixture
def quotient(torch):
    """Return what makes a module of some operations on a quotient."""

    class Net(torch.nn.Module):
        def __init__(self, forwards: Any) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))
            self.forwards = forwards

        def forward(self, x: Any, divisor: Any) -> Any:
            given = x / divisor * self.weight
            return [forward(torch, given) for forward in self.forwards]

    return lambda *forwards: Net(forwards).eval()


@pytest.fixture
def arguments(torch):
    """Return a number and a divisor that are zero in a row, in a few other places, and in the last one."""
    torch.manual_seed(0)
    pair = torch.randn(9, 7), torch.ones(9, 7)
    for tensor in pair:
        tensor[4] = tensor[1, 3] = tensor[-1, -1] = 0
    return pair


@BOTH
def test_what_is_said_to_keep_it_does(torch, quotient, arguments, monkeypatch, engine):
    monkeypatch.setattr(exported, "_lacks_numbers", lambda torch, tensor: False)
    model = quotient(*ALL[engine].values())
    with torch.no_grad():
        converted = ENGINES[engine](torch, model)
        for given in ((arguments[0], torch.ones(9, 7)), arguments):
            for kind, wanted, result in zip(ALL[engine], model(*given), converted(*given), strict=True):
                assert torch.allclose(result, wanted, atol=1e-5, equal_nan=True), kind


@pytest.mark.parametrize("engine", ALL)
def test_all_that_is_said_to_keep_it_was_looked_at(torch, quotient, arguments, engine):
    model = quotient(*ALL[engine].values())
    with torch.no_grad(), Reading(torch, (), methods=False) as reading:
        model(*arguments)
    assert reading.operations >= KEEPING[engine]


@BOTH
def test_what_loses_it_is_not_converted(torch, quotient, arguments, engine):
    loses = quotient(lambda torch, x: torch.nn.functional.max_pool2d(x[None], 2))
    with torch.no_grad(), pytest.raises(TypeError, match="max_pool2d_with_indices may be given what is not a number"):
        ENGINES[engine](torch, loses)(*arguments)


@BOTH
def test_networks_with_pooling_and_masks_are_converted(torch, engine):
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            nn = torch.nn
            self.images = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
            self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

        def forward(self, images: Any, padding: Any) -> Any:
            words = self.images(images).flatten(2).transpose(1, 2)
            return self.layer(words, src_key_padding_mask=padding).amax(1)

    model, images, padding = Net().eval(), torch.randn(2, 3, 6, 6), torch.zeros(2, 4, dtype=torch.bool)
    converted = ENGINES[engine](torch, model)
    with torch.no_grad():
        for last in (False, True):
            padding[1, 2:] = last
            assert torch.allclose(converted(images, padding), model(images, padding), atol=1e-5)
        padding[0] = True
        with pytest.raises(ArithmeticError, match="hides all"):
            converted(images, padding)
        with pytest.raises(ArithmeticError, match="not numbers"):
            converted(images * float("nan"), ~padding)
