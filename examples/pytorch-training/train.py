"""Train a small convolutional network on synthetic digits: plain PyTorch, as in its own MNIST example."""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """The network of PyTorch's MNIST example: 1,199,882 weights."""

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


def digits(samples: int) -> TensorDataset:
    """Return images of ten blurred shapes with noise, and their classes."""
    shapes = functional.interpolate(torch.rand(10, 1, 7, 7), size=(28, 28), mode="bilinear")
    classes = torch.randint(0, 10, (samples,))
    return TensorDataset(shapes[classes] + 0.5 * torch.randn(samples, 1, 28, 28), classes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--samples", type=int, default=15360)
    options = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(digits(options.samples), batch_size=options.batch, shuffle=True, drop_last=True)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    loss, start = torch.zeros(()), time.perf_counter()
    for epoch in range(options.epochs):
        for images, classes in loader:
            optimizer.zero_grad()
            loss = functional.nll_loss(model(images), classes)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    seconds = time.perf_counter() - start
    Path("metrics.json").write_text(json.dumps({"seconds": seconds, "loss": loss.item()}), encoding="utf-8")


if __name__ == "__main__":
    main()
