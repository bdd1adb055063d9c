"""Measure what it costs to make a module ready for ONNX Runtime and OpenVINO: conversion_cost.py [--case NAME...].

Each conversion is made in a process of its own, by the code that live trials use, and read once more from what it
leaves for later runs. Processor time tells more than wall time where others use the machine. Memory is what the
process's peak grows by.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from lever_table import CASES, Bench
from markdown_table import markdown

from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks.pytorch.exported import Content, form_of_call

ENGINES = ("pytorch-onnxruntime", "pytorch-openvino")
USUAL = ("squeezenet-b1", "alexnet-b1", "resnet50-b1", "bert-b1")


def measure(case: str, engine: str, threads: int) -> dict[str, Any]:
    """Return what one conversion costs in this process."""
    import torch

    torch.set_num_threads(threads)
    bench = Bench(torch, case, "cpu")
    (lever,) = bench.variants([engine], [])[1].levers
    args, kwargs = bench.args
    with torch.inference_mode():
        for _ in range(2):
            bench.root(*args, **kwargs)
        before, wall, processor = hardware.peak_memory(), time.perf_counter(), time.process_time()
        converted: Any = lever.compiled(torch, bench.root)
        converted(*args, **kwargs)
        found = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
        found["memory"] = (hardware.peak_memory() or 0) - (before or 0)
        content = lever.compiled(torch, bench.root).content(args, kwargs)
        later: Any = lever.compiled(torch, bench.root)
        later.take(Content(form_of_call(torch, args, kwargs), content))
        processor = time.process_time()
        later(*args, **kwargs)
        found |= {"kept": len(content), "again": time.process_time() - processor}
    return {"weights": sum(w.numel() * w.element_size() for w in bench.root.parameters()), **found}


def apart(case: str, engine: str, threads: int) -> dict[str, Any]:
    """Return the same, measured in a process of its own."""
    command = [sys.executable, __file__, "--threads", str(threads), "--one", case, engine]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", action="append", choices=CASES, metavar="NAME", help="may be repeated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.threads)))
        return
    head = ("case", "weights, MB", "engine", "ready, s", "of processors, s", "memory, MB", "kept, MB", "read again, s")
    lines: list[tuple[str, ...]] = [head]
    for case in options.case or USUAL:
        for engine in ENGINES:
            found = apart(case, engine, options.threads)
            sizes = {name: f"{found[name] / 1e6:.3g}" for name in ("weights", "memory", "kept")}
            times = {name: f"{found[name]:.2f}" for name in ("wall", "processor", "again")}
            cells = (times["wall"], times["processor"], sizes["memory"], sizes["kept"], times["again"])
            lines.append((case, sizes["weights"], engine, *cells))
    print(markdown(lines), end="")


if __name__ == "__main__":
    main()
