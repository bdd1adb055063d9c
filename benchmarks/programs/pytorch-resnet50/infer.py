"""Classify images with a ResNet50: random weights, synthetic images."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn


class Bottleneck(nn.Module):
    """A residual block of three convolutions."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.relu(self.body(images) + self.shortcut(images))


def resnet(blocks: tuple[int, ...], classes: int) -> nn.Sequential:
    """Return a residual network; (3, 4, 6, 3) blocks are a ResNet50."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            layers.append(Bottleneck(inputs, width, 2 if block == 0 and stage > 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100, help="batches")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = resnet((3, 4, 6, 3), classes=1000).to(device).eval()
    images = torch.randn(options.batch, 3, options.size, options.size).to(device)
    times, total = [], 0.0
    with torch.inference_mode():
        for _ in range(options.units):
            start = time.perf_counter()
            scores = model(images)
            total += scores.double().abs().sum().item()
            times.append(time.perf_counter() - start)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = total / options.units
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))
    print(f"{options.units} batches in {sum(times):.1f} s, mean sum of scores {result:.4f}")


if __name__ == "__main__":
    main()
