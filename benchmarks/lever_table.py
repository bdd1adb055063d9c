"""Measure the launcher's levers on networks of the programs, in turns within one process: what each gains and changes.

    python benchmarks/lever_table.py                              # on the GPU where there is one, else on the processor
    python benchmarks/lever_table.py --case bert-b1 --seconds 0.2 --out levers.jsonl

Where a deployment measures a job with all that belongs to it, this measures calls alone, so that all levers and some
sets of them (``lever_sets.yaml``) can be compared in the time of a few jobs. In each round all ways to do a call are
measured once, in random order; a gain is the median over rounds of the default's time by the way's in the same round.
A result that differs from the default's by more than its number format explains counts for nothing.
"""

import argparse
import importlib.util
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lever_sets import read_sets

from modak_deploy.errors import InputError
from modak_deploy.launch import lever as levers_table
from modak_deploy.launch.frameworks.pytorch import outputs
from modak_deploy.launch.frameworks.pytorch.kinds import TRAINING, Subject
from modak_deploy.launch.frameworks.pytorch.runner import Runner
from modak_deploy.launch.frameworks.settings import Settings
from modak_deploy.launch.variants import DEFAULT, Variant

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Case:
    """A network and what it is called with."""

    folder: str
    make: Callable[[Any], Any]
    arguments: Callable[[Any], Mapping[str, Any]]


def _images(batch: int, size: int = 224) -> Callable[[Any], Mapping[str, Any]]:
    return lambda torch: {"images": torch.randn(batch, 3, size, size)}


def _words(batch: int, length: int) -> Callable[[Any], Mapping[str, Any]]:
    def make(torch: Any) -> Mapping[str, Any]:
        words = torch.randint(0, 30522, (batch, length))
        return {"input_ids": words, "attention_mask": torch.ones_like(words)}

    return make


def _resnet(program: Any) -> Any:
    return program.resnet((3, 4, 6, 3), 1000)


def _alexnet(program: Any) -> Any:
    return program.AlexNet()


def _squeezenet(program: Any) -> Any:
    return program.squeezenet()


def _bert(program: Any) -> Any:
    return program.Bert(30522, 768, 12)


CASES = {
    **{f"resnet50-b{batch}": Case("pytorch-resnet50", _resnet, _images(batch)) for batch in (1, 16, 96)},
    **{f"alexnet-b{batch}": Case("pytorch-alexnet", _alexnet, _images(batch)) for batch in (1, 16)},
    **{f"squeezenet-b{batch}": Case("pytorch-squeezenet", _squeezenet, _images(batch)) for batch in (1, 16)},
    **{f"bert-b{batch}": Case("pytorch-bert", _bert, _words(batch, 128)) for batch in (1, 16, 64)},
}


@dataclass
class Way:
    """One way to do a call, and what was measured of it."""

    variant: Variant
    call: Callable[[], Any]
    made: float
    difference: float | None
    times: list[float] = field(default_factory=list)


def program(folder: str, script: str) -> Any:
    """Return a program's script as a module."""
    spec = importlib.util.spec_from_file_location(folder.replace("-", "_"), PROGRAMS / folder / script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Bench:
    """All ways to do one case's call."""

    def __init__(self, torch: Any, name: str, device: str) -> None:
        case = CASES[name]
        self._torch, self._device = torch, device
        torch.manual_seed(0)
        self.root = case.make(program(case.folder, "infer.py")).to(device).eval()
        given = {key: value.to(device) for key, value in case.arguments(torch).items()}
        images = given.pop("images", None)
        self.args = (() if images is None else (images,), given)
        self.settings = Settings(torch)
        self.failed: dict[str, str] = {}

    def variants(self, only: Sequence[str], sets: Sequence[Sequence[str]]) -> list[Variant]:
        """Return the default, and what applies of single levers and sets, or of those that alone are asked for."""
        subject = Subject(self._torch, self.root)
        usable = {}
        for lever in levers_table.levers("pytorch"):
            reason = lever.unusable(str(self._torch.__version__)) or _refusal(lever, subject)
            if reason is None:
                usable[lever.name] = lever
            else:
                self.failed[lever.name] = reason
        names = [one.split("+") for one in only] if only else [*([name] for name in usable), *sets]
        chosen = [[], *(one for one in names if set(one) <= set(usable))]
        return [Variant(tuple(usable[name] for name in one)) for one in chosen]

    def way(self, variant: Variant, wanted: Any) -> Way | None:
        """Return a way made ready and compared; None where it fails."""
        try:
            self.settings.follow(variant)
            start = self._now()
            runner = Runner(self._torch, self.root, variant)
            runner.form = outputs.form(self._torch, wanted)
            result = runner.same_form(self.args)
            made = self._now() - start
            difference, reason = outputs.difference(self._torch, wanted, runner.same_form(self.args))
            own = outputs.own_format(self._torch, self.root)
            limit = max(
                [outputs.TOLERANCE[own], *(outputs.TOLERANCE[getattr(lever, "format", "")] for lever in variant.levers)]
            )
            problem = outputs.problem(difference, reason, limit)
            del result
        except Exception as error:  # whatever a lever makes of the network
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            self.failed[variant.name] = " ".join(problem.split())[:300]
            return None
        return Way(variant, lambda: runner.same_form(self.args), made, difference)

    def measure(self, ways: Sequence[Way], seconds: float, rounds: int) -> None:
        """Measure all ways in turns."""
        calls = {}
        for way in ways:
            self._timed(way, 2)
            calls[way.variant.name] = max(3, min(2000, int(seconds / max(self._timed(way, 3), 1e-6))))
        for _ in range(rounds):
            for way in random.sample(list(ways), len(ways)):
                self._timed(way, 2)  # what is switched settles
                way.times.append(self._timed(way, calls[way.variant.name]))

    def _timed(self, way: Way, calls: int) -> float:
        self.settings.follow(way.variant)
        start = self._now()
        for _ in range(calls):
            way.call()
        return (self._now() - start) / calls

    def _now(self) -> float:
        if self._device == "cuda":
            self._torch.cuda.synchronize()
        return time.perf_counter()


def _refusal(lever: Any, subject: Subject) -> str | None:
    if not lever.live or getattr(lever, "use", TRAINING) == TRAINING:
        return "it is not for calls of a module"
    reason: str | None = lever.applies(subject)
    return reason


def run(
    torch: Any, name: str, device: str, options: argparse.Namespace, sets: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return what was measured of a case."""
    bench = Bench(torch, name, device)
    with torch.inference_mode():
        wanted = bench.root(*bench.args[0], **bench.args[1])
        ways = []
        for variant in bench.variants(options.levers, sets):
            way = bench.way(variant, wanted)
            print(f"{name} {variant.name}: {'failed' if way is None else f'{way.made:.1f} s'}", file=sys.stderr)
            ways += [] if way is None else [way]
        bench.measure(ways, options.seconds, options.rounds)
        bench.settings.follow(DEFAULT)
    base = ways[0].times
    rows = [
        {
            "levers": [lever.name for lever in way.variant.levers],
            "seconds": statistics.median(way.times),
            "gain": statistics.median(one / other for one, other in zip(base, way.times, strict=True)),
            "low": min(one / other for one, other in zip(base, way.times, strict=True)),
            "high": max(one / other for one, other in zip(base, way.times, strict=True)),
            "made": way.made,
            "difference": way.difference,
            "exact": all(lever.numerics == "exact" for lever in way.variant.levers),
        }
        for way in ways
    ]
    return {"case": name, "device": _device(torch, device), "torch": str(torch.__version__), "rows": rows,
            "failed": bench.failed, "rounds": options.rounds}  # fmt: skip


def _device(torch: Any, device: str) -> str:
    return str(torch.cuda.get_device_name()) if device == "cuda" else f"{torch.get_num_threads()} threads"


def table(result: Mapping[str, Any]) -> str:
    """Return a case's table as Markdown."""
    lines = [
        f"{result['case']}, {result['device']}, PyTorch {result['torch']}",
        "",
        "| Levers | ms | Gain | Lowest to highest | Made in s | Difference |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(result["rows"], key=lambda row: row["seconds"]):
        name = ", ".join(one.removeprefix("pytorch-") for one in row["levers"]) or "default"
        lines.append(
            f"| {name} | {1000 * row['seconds']:.3g} | {row['gain']:.2f} | {row['low']:.2f} to {row['high']:.2f} "
            f"| {row['made']:.1f} | {row['difference']:.1e} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(CASES), help="may be repeated; all if not given")
    parser.add_argument("--levers", nargs="*", default=[], help="sets such as pytorch-tf32+pytorch-compile; all usual")
    parser.add_argument("--seconds", type=float, default=0.15, help="of calls of each way in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("levers.jsonl"))
    options = parser.parse_args()
    try:
        sets = read_sets()
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in options.case or CASES:
        result = run(torch, name, device, options, sets)
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(table(result), flush=True)
        for lever, reason in result["failed"].items():
            print(f"  {lever}: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
