"""Measure levers of training on the programs' networks, in turns within one process: what each gains in a step.

    python benchmarks/training_table.py                                  # all networks, two minutes on an idle machine
    python benchmarks/training_table.py --case gpt --rounds 40 --out training.jsonl

Whole jobs differ by what else the machine does, often by more than one lever gains. Here all ways to do a step are
done in each round, in random order and each twice, of which the second counts; a gain is the median over rounds of the
time that the default takes by the way's own.
"""

import argparse
import contextlib
import importlib
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lever_table import program

from modak_deploy.launch import lever as levers_table
from modak_deploy.launch import memory
from modak_deploy.launch.frameworks.pytorch import gradients
from modak_deploy.launch.frameworks.pytorch.kinds import Subject

AUTOCAST = "pytorch-autocast-bf16"
ATTENTION = "pytorch-autocast-bf16-attention"
MASKS = "pytorch-dropout-masks"
WAYS = ((), (MASKS,), (AUTOCAST,), (ATTENTION,), (AUTOCAST, MASKS))
"""Sets of levers; one that does not apply to a network is left out."""


@dataclass(frozen=True)
class Case:
    """A network, a batch, and the loss of what the network makes of it."""

    folder: str
    make: Callable[[Any], Any]
    batch: Callable[[Any], Any]
    loss: Callable[[Any, Any], Any]


def _letters(torch: Any) -> Any:
    return torch.randint(0, 64, (8, 128))


def _scores(torch: Any, result: Any) -> Any:
    flat = result.flatten(0, -2)
    return torch.nn.functional.cross_entropy(flat, torch.arange(len(flat)) % flat.shape[-1])


CASES = {
    "mnist-cnn": Case("pytorch-mnist-cnn", lambda own: own.Net(), lambda torch: torch.randn(128, 1, 28, 28), _scores),
    "gpt": Case("pytorch-gpt", lambda own: own.GPT(64, 128, 384, 6, 6), _letters, _scores),
}


class Training:
    """One network that is trained, each step in the way that is asked for."""

    def __init__(self, torch: Any, case: Case) -> None:
        self._torch, self._case = torch, case
        torch.manual_seed(0)
        self._model, self._batch = case.make(program(case.folder, "train.py")), case.batch(torch)
        self._optimizer = torch.optim.Adam(self._model.parameters(), fused=True)
        self._levers = {lever.name: lever for lever in levers_table.levers("pytorch")}
        operations = gradients.operations(case.loss(torch, self._model(self._batch)))
        self._subject = Subject(torch, self._model, self._optimizer, operations)

    def ways(self) -> list[tuple[str, ...]]:
        """Return the sets of levers that all apply to the network."""
        return [way for way in WAYS if all(self._levers[name].applies(self._subject) is None for name in way)]

    def step(self, way: tuple[str, ...]) -> float:
        """Do a step; return its seconds."""
        start = time.perf_counter()
        for name in way:
            self._levers[name].step(self._torch, True)
        with contextlib.ExitStack() as stack:
            for name in way:
                stack.enter_context(self._levers[name].context(self._torch, "cpu") or contextlib.nullcontext())
            result = self._model(self._batch)
        loss = self._case.loss(self._torch, result.float())
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        for name in way:
            self._levers[name].step(self._torch, False)
        return time.perf_counter() - start


def measure(training: Training, rounds: int) -> dict[tuple[str, ...], list[float]]:
    """Return the seconds of a step in each way, round by round."""
    ways = training.ways()
    times: dict[tuple[str, ...], list[float]] = {way: [] for way in ways}
    for way in ways:
        training.step(way)
    for _ in range(rounds):
        for way in random.sample(ways, len(ways)):
            training.step(way)  # what the way before has left in caches and memory
            times[way].append(training.step(way))
    return times


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="a network; may be repeated")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of all ways")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a line of JSON for each way, added to a file")
    options = parser.parse_args()
    torch = importlib.import_module("torch")
    memory.keep(True)  # what memory costs is another lever's matter
    print("| network | levers | ms a step | times the default's speed |\n|---|---|---|---|")
    for name in options.case or CASES:
        times = measure(Training(torch, CASES[name]), options.rounds)
        default = times[()]
        for way, seconds in times.items():
            gain = statistics.median(own / other for own, other in zip(default, seconds, strict=True))
            levers = " + ".join(part.removeprefix("pytorch-") for part in way) or "default"
            print(f"| {name} | {levers} | {1e3 * statistics.median(seconds):.0f} | {gain:.2f} |", flush=True)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"case": name, "levers": list(way), "seconds": seconds, "gain": gain}) + "\n")


if __name__ == "__main__":
    main()
