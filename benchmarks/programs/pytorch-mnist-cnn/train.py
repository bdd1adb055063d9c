"""Train the network of PyTorch's MNIST example on synthetic digits."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    """Two convolutions and two dense layers: 1,199,882 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.conv1(images))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(functional.relu(self.fc1(x)))
        return functional.log_softmax(self.fc2(x), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=300, help="steps")
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()

    torch.manual_seed(0)
    shapes = functional.interpolate(torch.rand(10, 1, 7, 7), size=(28, 28), mode="bilinear")
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    times, losses = [], []
    for step in range(options.units):
        start = time.perf_counter()
        classes = torch.randint(0, 10, (options.batch,))
        images = shapes[classes] + 0.5 * torch.randn(options.batch, 1, 28, 28)
        optimizer.zero_grad()
        loss = functional.nll_loss(model(images), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = statistics.mean(losses[-10:])
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))


if __name__ == "__main__":
    main()
