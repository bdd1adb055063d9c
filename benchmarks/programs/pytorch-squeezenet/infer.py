"""Classify images with a SqueezeNet 1.1: random weights, synthetic images."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn


class Fire(nn.Module):
    """A squeezing convolution, then two that expand, side by side."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.squeeze(x))
        return torch.cat([self.relu(self.expand1(x)), self.relu(self.expand3(x))], 1)


def squeezenet(classes: int = 1000) -> nn.Sequential:
    """Return the network: 1,235,496 weights."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(128, 32, 128),
        Fire(256, 32, 128),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        Fire(512, 64, 256),
        nn.Conv2d(512, classes, 1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100, help="batches")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = squeezenet().eval()
    images = torch.randn(options.batch, 3, options.size, options.size)
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
