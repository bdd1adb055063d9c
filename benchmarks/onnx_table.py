"""Print what networks take in their framework and three engines: the HiT report's Table 3 for this machine.

    onnx_table.py [--models alexnet squeezenet resnet50 bert candle] [--batches 1 16 64] [--rounds 9] [--trials 0]

All engines take part in every round, one after the other, so that what the machine does meets all alike. A time is the
median with an interval that holds it in about 95 % of cases; beside it is the largest difference from the framework.
Weights are random: what a network takes does not depend on them. --json keeps every value.
"""

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP)]

from modak.onnx.arrays import Arrays, generate  # noqa: E402
from modak.onnx.engines import ENGINES  # noqa: E402
from modak.onnx.frameworks import framework  # noqa: E402
from modak.onnx.modelfile import normalise  # noqa: E402
from modak.onnx.opset import highest  # noqa: E402
from modak.onnx.task import Data, Task  # noqa: E402
from modak.onnx.timing import Times, interleaved  # noqa: E402

IMAGE: dict[str, Any] = {"image": {"shape": [1, 3, 224, 224], "dtype": "float32"}}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "alexnet": ("AlexNet", IMAGE),
    "squeezenet": ("SqueezeNet", IMAGE),
    "resnet50": ("ResNet50", IMAGE),
    "bert": (
        "bert",
        {
            "input_ids": {"shape": [1, 128], "dtype": "int64", "low": 0, "high": 30000},
            "attention_mask": {"shape": [1, 128], "dtype": "int64", "low": 1, "high": 2},
        },
    ),
    "candle": (
        "DrugResponse",
        {
            "expression": {"shape": [1, 942], "dtype": "float32"},
            "descriptors": {"shape": [1, 1200], "dtype": "float32"},
            "dose": {"shape": [1, 1], "dtype": "float32"},
        },
    ),
}


def measure(name: str, batches: list[int], rounds: int, trials: int, engines: list[str]) -> list[dict[str, Any]]:
    """Return a row for each batch size and engine."""
    reference, shapes = MODELS[name]
    task = Task(
        name=name,
        framework="pytorch",
        example=Data(),
        test=Data(),
        folder="",
        reference=f"onnx_networks:{reference}",
        code=str(TOP / "tests" / "support" / "onnx_networks.py"),
    )
    example = generate(shapes, samples=2)
    original = framework("pytorch").load(task, example)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="modak-table-") as folder:
        path = Path(folder) / "model.onnx"
        outputs = list(original.run(example))
        original.convert(path, highest(None))
        normalise(path, name, batch=True, inputs=list(example), outputs=outputs, limit=2**31 - 1)
        for batch in batches:
            inputs = generate(shapes, samples=batch, seed=batch)
            expected = original.run(inputs)
            calls: dict[str, Any] = {"pytorch": partial(original.run, inputs)}
            differences = {"pytorch": 0.0}
            for engine in engines:
                try:
                    options = {"trials": trials} if engine == "tvm" else {}
                    run = ENGINES[engine](path, inputs, **options)
                    differences[engine] = difference(expected, run(inputs))
                    calls[engine] = partial(run, inputs)
                except Exception as error:  # each engine raises types of its own
                    reason = " ".join(str(error).split())[:100]
                    rows.append({"model": name, "batch": batch, "engine": engine, "error": reason})
            times = interleaved(calls, budget=1e9, rounds=rounds)
            rows += [row(name, batch, engine, found, differences[engine]) for engine, found in times.items()]
            show([each for each in rows if each["batch"] == batch])
    return rows


def row(name: str, batch: int, engine: str, times: Times, gap: float) -> dict[str, Any]:
    """Return one engine's result."""
    return {"model": name, "batch": batch, "engine": engine, "difference": gap, "seconds": list(times.seconds)}


def difference(expected: Arrays, found: Arrays) -> float:
    """Return the largest difference over all outputs."""
    return max(float(np.abs(array - found[name]).max()) for name, array in expected.items())


def show(rows: list[dict[str, Any]]) -> None:
    """Print the engines of one model and batch size, the fastest marked."""
    times = {each["engine"]: Times(tuple(each["seconds"])) for each in rows if "seconds" in each}
    best = min(times, key=lambda engine: times[engine].median)
    for each in rows:
        label = f"{each['model']:<11} {each['batch']:>4}  {each['engine']:<12}"
        if "error" in each:
            print(f"{label} {each['error']}", flush=True)
            continue
        found = times[each["engine"]]
        low, high = (1000 * end for end in found.interval)
        mark = "  best" if each["engine"] == best else ""
        print(
            f"{label} {1000 * found.median:9.2f} ms  [{low:.2f}, {high:.2f}]  {each['difference']:.1e}{mark}",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--trials", type=int, default=0, help="programs that TVM measures for each batch size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value there")
    given = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; milliseconds of one call")
    rows = [
        each
        for name in given.models
        for each in measure(name, given.batches, given.rounds, given.trials, given.engines)
    ]
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
