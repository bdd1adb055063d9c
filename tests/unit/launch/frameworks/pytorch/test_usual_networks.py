"""Networks as programs have them are converted: what is refused is seldom."""

from typing import Any

import pytest

from modak_deploy.launch.frameworks.pytorch.onnxruntime import InSession
from modak_deploy.launch.frameworks.pytorch.openvino import Converted

pytest.importorskip("openvino", reason="OpenVINO is not installed; 'pip install openvino' installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
LOWEST = float("-inf")


def residual(torch: Any) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.norms[1](self.other(torch.relu(self.norms[0](self.one(x))))))

    first = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*first, Block(), Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def alexnet(torch: Any) -> Any:
    nn = torch.nn
    last = [nn.Dropout(), nn.Linear(32, 16), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(16, 5), nn.Softmax(-1)]
    first = [nn.Conv2d(3, 8, 11, 4, 2), nn.ReLU(inplace=True), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2)]
    return nn.Sequential(*first, nn.AdaptiveAvgPool2d(2), nn.Flatten(), *last)


def squeezenet(torch: Any) -> Any:
    nn = torch.nn

    class Fire(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.squeeze, self.one, self.three = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.squeeze(x))
            return torch.cat([torch.relu(self.one(x)), torch.relu(self.three(x))], 1)

    first = [nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    return nn.Sequential(*first, Fire(), Fire(), nn.Conv2d(8, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def mobilenet(torch: Any) -> Any:
    nn = torch.nn

    class Excited(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)

        def forward(self, x: Any) -> Any:
            scale = nn.functional.adaptive_avg_pool2d(x, 1)
            return x * nn.functional.hardsigmoid(self.up(torch.relu(self.down(scale))))

    first = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 8, 3, groups=8), nn.ReLU6()]
    return nn.Sequential(*first, Excited(), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def encoder(torch: Any, activation: str = "gelu") -> Any:
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(20, 16), nn.Embedding(8, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, activation=activation, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.pool = nn.Linear(16, 16)

        def forward(self, words: Any, mask: Any) -> Any:
            x = self.words(words) + self.places(torch.arange(words.shape[1]))
            x = self.layers(x, src_key_padding_mask=~mask.bool())
            weights = mask[..., None].float()
            mean = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
            return x, torch.tanh(self.pool(x[:, 0])), nn.functional.normalize(mean, dim=-1)

    return Encoder()


def decoder(torch: Any) -> Any:
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.all, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.scale = nn.Parameter(torch.ones(16))
            self.register_buffer("seen", torch.ones(8, 8).tril()[None, None])

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
            q, k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in self.all(x).split(width, -1))
            scores = (q @ k.mT) / 8**0.5
            scores = scores.masked_fill(self.seen[:, :, :length, :length] == 0, LOWEST).softmax(-1)
            plain = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out((scores @ v + plain).transpose(1, 2).reshape(batch, length, width))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 16)
            self.layers = nn.ModuleList(Attention() for _ in range(2))
            self.feed = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

        def forward(self, words: Any) -> Any:
            x = self.words(words)
            for layer in self.layers:
                x = x + layer(x)
                x = x + self.feed(x)
            return x @ self.words.weight.t()

    return Decoder()


def patches(torch: Any) -> Any:
    nn = torch.nn

    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut, self.head = nn.Conv2d(3, 16, 8, 8), nn.Linear(16, 5)
            self.first, self.places = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)

        def forward(self, images: Any) -> Any:
            x = self.cut(images).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
            return self.head(self.layer(x)[:, 0]).log_softmax(-1)

    return Vision()


def recurrent(torch: Any) -> Any:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.layer = torch.nn.Embedding(20, 16), torch.nn.LSTM(16, 8, 2, batch_first=True)

        def forward(self, words: Any) -> Any:
            return torch.relu(self.layer(self.words(words))[0][:, -1])

    return Recurrent()


NETWORKS = {
    "resnet": (residual, "images"),
    "alexnet": (alexnet, "images"),
    "squeezenet": (squeezenet, "images"),
    "mobilenet": (mobilenet, "images"),
    "vision transformer": (patches, "images"),
    "bert": (encoder, "masked"),
    "transformer with relu": (lambda torch: encoder(torch, "relu"), "masked"),
    "gpt": (decoder, "words"),
    "lstm": (recurrent, "words"),
}


def given(torch: Any, kind: str) -> Any:
    torch.manual_seed(1)
    words = torch.randint(0, 20, (2, 8))
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    return {"images": (torch.randn(2, 3, 32, 32),), "words": (words,), "masked": (words, mask)}[kind]


@pytest.mark.parametrize("name", NETWORKS)
def test_openvino_does_usual_networks(torch, name):
    make, kind = NETWORKS[name]
    torch.manual_seed(0)
    model, args = make(torch).eval(), given(torch, kind)
    with torch.no_grad():
        wanted, results = model(*args), Converted(torch, model, "f32")(*args)
    for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (wanted, results)), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_is_given_usual_networks(torch, name):
    make, kind = NETWORKS[name]
    model, args = make(torch).eval(), given(torch, kind)
    with torch.no_grad():
        observed = InSession(torch, model)._observed(args, {})
    assert len(observed.checks) <= 3
