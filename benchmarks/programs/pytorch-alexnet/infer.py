"""Classify images with an AlexNet: random weights, synthetic images."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn


class AlexNet(nn.Module):
    """Five convolutions and three dense layers: 61,100,840 weights."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        )
        self.pool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(9216, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(images)), 1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100, help="batches")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = AlexNet().eval()
    images = torch.randn(options.batch, 3, options.size, options.size)
    times, total = [], 0.0
    with torch.no_grad():
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
