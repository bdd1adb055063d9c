"""Measure what the launcher adds to a unit of work: launch_overhead.py [--rounds N].

The units do nothing themselves, so that what is left is the launcher's own time. The module has as many weights as a
ResNet50, since following them is what costs most. Each figure is the smallest of the rounds: a neighbour's load only
adds.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from modak_deploy.launch.config import Config, Trials
from modak_deploy.launch.frameworks.pytorch.calls import Calls
from modak_deploy.launch.frameworks.pytorch.training import Training
from modak_deploy.launch.session import Session

MODULES, CALLS, LIMIT = 90, 500, 100.0


class Nothing(torch.nn.Module):
    """Returns its argument; it has the weights of a large network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(MODULES)))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(2) for _ in range(MODULES // 5))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value


def call_seconds(call: Callable[[], Any], rounds: int) -> float:
    """Return the smallest time of a call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS)
    return best


def session(levers: list[str], mode: str = "none") -> Session:
    return Session(Config(levers=levers, trials=Trials(mode=mode, tolerance=1.0)))


def inference(levers: list[str] | None, rounds: int) -> float:
    """Return the time of a call in evaluation mode; not followed when ``levers`` is None."""
    model, value = Nothing().eval(), torch.ones(2, 2)
    if levers is not None:
        Calls(session(levers), torch, model)
    with torch.inference_mode():
        for _ in range(10):
            model(value)
        return call_seconds(lambda: model(value), rounds)


def step(followed: bool, rounds: int) -> float:
    """Return the time of what is called around a step of an optimizer."""
    model = Nothing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.ones((), requires_grad=True)
    if not followed:
        return 0.0
    training = Training(session([]), torch, optimizer, lambda module: Calls(session([]), torch, module))

    def one() -> None:
        training.loss(loss)
        training.before_step(optimizer)
        training.after_step()

    return call_seconds(one, rounds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    plain = inference(None, rounds)
    rows = {
        "inference, counted": inference([], rounds) - plain,
        "inference, with a copy of the weights": inference(["pytorch-bf16-weights"], rounds) - plain,
        "training step, counted": step(True, rounds),
    }
    tensors = len(list(Nothing().parameters())) + len(list(Nothing().buffers()))
    load = os.getloadavg()[0]
    print(f"PyTorch {torch.__version__}, {tensors} weights, load average {load:.1f}")
    for name, seconds in rows.items():
        print(
            f"{name:40} {seconds * 1e6:7.1f} microseconds a unit{' (over the limit)' if seconds * 1e6 > LIMIT else ''}"
        )


if __name__ == "__main__":
    main()
