"""Train one of several small networks, or infer with it: random weights, synthetic data, a new batch for each unit.

The networks differ in what they spend their time on, and in how much they do at a time.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

CLASSES = 10


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm2(self.second(torch.relu(self.norm1(self.first(x)))))
        return torch.relu(inner + self.shortcut(x))


class Encoder(nn.Module):
    """Layers of attention over rows of numbers, or over patches of an image."""

    def __init__(self, inputs: int, width: int, layers: int, patch: int | None = None) -> None:
        super().__init__()
        self.embedding = nn.Conv2d(inputs, width, patch, patch) if patch else nn.Linear(inputs, width)
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(x)
        rows = rows.flatten(2).transpose(1, 2) if rows.dim() == 4 else rows
        return self.head(self.layers(rows).mean(1))


class Gated(nn.Module):
    """Two layers of GRU and a dense one."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(x)[0][:, -1])


def perceptron(width: int, layers: int) -> nn.Sequential:
    """Return dense layers alone."""
    inner = [part for _ in range(layers - 1) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), *inner, nn.Linear(width, CLASSES))


def vgg(*widths: int) -> nn.Sequential:
    """Return blocks of two convolutions each, with half the height and width after each."""
    parts: list[nn.Module] = []
    for before, width in zip((3, *widths), widths, strict=False):
        parts += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        parts.append(nn.MaxPool2d(2))
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))


def mobile(*widths: int) -> nn.Sequential:
    """Return convolutions by channel, each followed by one of single points."""
    parts: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 2, 1), nn.ReLU6()]
    for number, (before, width) in enumerate(itertools.pairwise(widths)):
        parts += [nn.Conv2d(before, before, 3, 1 + number % 2, 1, groups=before), nn.BatchNorm2d(before), nn.ReLU6()]
        parts += [nn.Conv2d(before, width, 1), nn.BatchNorm2d(width), nn.ReLU6()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))


def residual(*widths: int) -> nn.Sequential:
    """Return two residual blocks of each width."""
    parts: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, padding=1), nn.ReLU()]
    for before, width in zip((widths[0], *widths), widths, strict=False):
        parts += [Residual(before, width, 1 + (before != width)), Residual(width, width, 1)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (lambda: perceptron(1024, 4), (784,)),
    "vgg": (lambda: vgg(32, 64, 128), (3, 32, 32)),
    "large-vgg": (lambda: vgg(64, 128, 256, 512), (3, 112, 112)),
    "mobile": (lambda: mobile(32, 64, 128, 128, 256, 256, 512, 512), (3, 128, 128)),
    "residual": (lambda: residual(32, 64, 128), (3, 32, 32)),
    "gru": (lambda: Gated(64, 256), (48, 64)),
    "encoder": (lambda: Encoder(64, 256, 4), (64, 64)),
    "patches": (lambda: Encoder(3, 384, 6, patch=16), (3, 224, 224)),
}
"""What makes each network, and the shape of a sample."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100, help="batches")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--network", choices=NETWORKS, default="residual")
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(0)
    make, shape = NETWORKS[options.network]
    model = make().train(options.train)
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss()
    times, results = [], []
    for _ in range(options.units):
        start = time.perf_counter()
        samples = torch.randn(options.batch, *shape)
        if options.train:
            optimizer.zero_grad()
            loss = criterion(model(samples), torch.randint(CLASSES, (options.batch,)))
            loss.backward()
            optimizer.step()
            results.append(loss.item())
        else:
            with torch.inference_mode():
                results.append(model(samples).double().abs().sum().item())
        times.append(time.perf_counter() - start)
    steady, result = statistics.median(times[len(times) * 2 // 3 :]), statistics.mean(results[-10:])
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))
    print(f"{options.units} batches in {sum(times):.1f} s, result {result:.4f}")


if __name__ == "__main__":
    main()
