"""Classify batches of images with a ResNet50: plain PyTorch, random weights, synthetic images."""

import argparse
import json
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


def resnet(blocks: tuple[int, ...], classes: int = 1000) -> nn.Sequential:
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
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--blocks", type=int, nargs="+", default=[3, 4, 6, 3])
    options = parser.parse_args()

    torch.manual_seed(0)
    model = resnet(tuple(options.blocks)).eval()
    images = torch.randn(options.batch, 3, options.size, options.size)
    total, start = 0.0, time.perf_counter()
    with torch.inference_mode():
        for _batch in range(options.batches):
            total += model(images).double().sum().item()
    seconds = time.perf_counter() - start
    Path("metrics.json").write_text(json.dumps({"seconds": seconds, "sum": total}), encoding="utf-8")
    print(f"{options.batches} batches in {seconds:.1f} s, sum of all results {total:.4f}")


if __name__ == "__main__":
    main()
