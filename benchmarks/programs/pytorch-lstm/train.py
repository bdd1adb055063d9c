"""Train an LSTM that predicts the next value of noisy waves, fed by a DataLoader."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    """Sine waves of random frequency with noise, each made when it is asked for."""

    def __init__(self, count: int, length: int) -> None:
        self.count, self.length = count, length

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        speed = 0.05 + 0.2 * torch.rand(1, generator=generator)
        wave = torch.sin(speed * torch.arange(self.length + 1)) + 0.05 * torch.randn(
            self.length + 1, generator=generator
        )
        return wave[:-1, None], wave[1:, None]


class Model(nn.Module):
    """Two layers of LSTM and a dense one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(waves)[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=150, help="steps")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Waves(options.units * options.batch, options.length), batch_size=options.batch)
    model = Model(options.width)
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.MSELoss()
    times, losses = [], []
    start = time.perf_counter()
    for step, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 20 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = statistics.mean(losses[-10:])
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))


if __name__ == "__main__":
    main()
