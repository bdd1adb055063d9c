"""Print what networks take in their framework and other engines: the HiT report's Table 3 for this machine.

    onnx_table.py [--models alexnet squeezenet resnet50 bert candle] [--batches 1 16 64] [--budget 7200]
        [--tuning 300] [--olive VENV/bin/olive] [--results onnx_table.json]

All engines take part in every round, one after the other, so that what the machine does meets all alike. A time is the
median with an interval that holds it in about 95 % of cases; beside it is the largest difference from the framework.
Weights are random: what a network takes does not depend on them.

Each model and batch size is a cell, measured in a process of its own and kept in --results at once: the same command
goes on where it was ended, or where the --budget was spent. TVM tunes each cell for --tuning seconds, and keeps what it
measured in the folder beside the results, whatever ends it; with --tuning 0 its programs are those of its rules. An
engine whose call takes longer than --cell is called once. Olive,
where it is named, gets as long; what it writes is run by ONNX Runtime. --print shows what was measured.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP), str(TOP / "benchmarks")]

import engine_table  # noqa: E402 - beside this program

from modak_deploy.engines.registry import get, is_installed, running_onnx  # noqa: E402
from modak_deploy.onnx.arrays import Arrays, generate  # noqa: E402
from modak_deploy.onnx.engines import OnnxRuntime, Tvm  # noqa: E402
from modak_deploy.onnx.frameworks import framework  # noqa: E402
from modak_deploy.onnx.modelfile import normalise  # noqa: E402
from modak_deploy.onnx.opset import highest  # noqa: E402
from modak_deploy.onnx.packages import versions  # noqa: E402
from modak_deploy.onnx.task import Data, Task  # noqa: E402
from modak_deploy.onnx.timing import interleaved  # noqa: E402
from modak_deploy.util.files import write_atomically  # noqa: E402

FRAMEWORK, TVM, OLIVE = engine_table.FRAMEWORK, Tvm.name, "olive"
PACKAGES = ("torch", "onnxruntime", "openvino", "apache-tvm", "apache-tvm-ffi")
TOGETHER = 4
"""Programs of an operator that TVM measures at once: as few as let every operator have its turn in a short time."""
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
Row = dict[str, Any]


def original_of(name: str) -> Any:
    """Return the network in its framework."""
    reference, shapes = MODELS[name]
    task = Task(
        name=name,
        framework=FRAMEWORK,
        example=Data(),
        test=Data(),
        folder="",
        reference=f"onnx_networks:{reference}",
        code=str(TOP / "tests" / "support" / "onnx_networks.py"),
    )
    return framework(FRAMEWORK).load(task, generate(shapes, samples=2))


def converted(original: Any, name: str, folder: Path) -> Path:
    """Return the network's ONNX file, which is written once."""
    path = folder / name / "model.onnx"
    if not path.exists():
        example = generate(MODELS[name][1], samples=2)
        outputs = list(original.run(example))
        made = folder / name / "making"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        original.convert(made / path.name, highest(None))
        normalise(made / path.name, name, batch=True, inputs=list(example), outputs=outputs, limit=2**31 - 1)
        for file in sorted(made.iterdir(), key=lambda one: one.name == path.name):
            file.replace(path.parent / file.name)
        made.rmdir()
    return path


def inputs_of(name: str, batch: int) -> Arrays:
    """Return the data of a cell, which are the same every time."""
    return generate(MODELS[name][1], samples=batch, seed=batch)


def database(folder: Path, name: str, batch: int) -> Path:
    """Return where TVM keeps the programs that it measured for a cell."""
    return folder / name / f"tvm-{batch}"


def loaders(given: argparse.Namespace, path: Path, name: str, batch: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what loads each engine."""
    inputs = inputs_of(name, batch)
    for engine in given.engines:
        tuned = database(given.folder, name, batch)
        if engine == TVM and tuned.exists():
            yield engine, partial(Tvm().load_tuned, path, inputs, trials=0, database=tuned)
        else:
            yield engine, partial(get(engine).load, path, inputs, trials=0)
    if given.olive:
        yield OLIVE, lambda: OnnxRuntime().load(olives(path.parent / f"olive-{batch}"), inputs, trials=0)


def olives(folder: Path) -> Path:
    """Return the file that Olive wrote; FileNotFoundError with its last words where it wrote none."""
    found = sorted(folder.glob("**/*.onnx"))
    if not found:
        log = folder.with_suffix(".log")
        words = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        raise FileNotFoundError(f"Olive wrote no model in its time: {' '.join(words) or 'it said nothing'}")
    return found[0]


def measure(given: argparse.Namespace, name: str, batch: int) -> list[Row]:
    """Return a row for each engine: measured in this process, all in every round."""
    original = original_of(name)
    path = converted(original, name, given.folder)
    inputs = inputs_of(name, batch)
    expected = original.run(inputs)
    calls: dict[str, Any] = {FRAMEWORK: partial(original.run, inputs)}
    facts: dict[str, Row] = {FRAMEWORK: {"difference": 0.0}}
    rows: list[Row] = []
    for engine, load in loaders(given, path, name, batch):
        try:
            began = time.perf_counter()
            run = load()
            loaded = time.perf_counter()
            facts[engine] = {"loading": loaded - began, "difference": difference(expected, run(inputs))}
            first = time.perf_counter() - loaded
            if first > given.cell:  # else a cell would take an hour
                rows.append({"engine": engine, "seconds": [first], **facts.pop(engine)})
            else:
                calls[engine] = partial(run, inputs)
        except Exception as error:  # each engine raises types of its own
            rows.append({"engine": engine, "error": " ".join(str(error).split())[:160]})
    times = interleaved(calls, budget=given.cell, rounds=given.rounds)
    rows[:0] = [{"engine": e, "seconds": list(t.seconds), **facts[e]} for e, t in times.items()]
    for row in rows:
        if row["engine"] == TVM and "seconds" in row:
            row["programs"] = programs(database(given.folder, name, batch))
    return rows


def programs(folder: Path) -> int:
    """Return how many programs TVM measured for a cell."""
    file = folder / "database_tuning_record.json"
    return sum(1 for _ in file.open()) if file.exists() else 0


def difference(expected: Arrays, found: Arrays) -> float:
    """Return the largest difference over all outputs."""
    return max(float(np.abs(array - found[name]).max()) for name, array in expected.items())


def limited(words: list[str], seconds: float, log: Path, *, folder: Path | None = None) -> str | None:
    """Run a command with all of its processes for so long at most; return what went wrong, if anything."""
    environment = {**os.environ, "OLIVE_DISABLE_TELEMETRY": "1"}
    with log.open("ab") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True, env=environment, cwd=folder)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also the builders and runners of TVM, which outlive it
            process.wait()
    return f"ended with {code}; see {log}" if code else None


class Table:
    """All cells, and the file that keeps them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.setting = {
            "versions": {**versions(PACKAGES), **({"olive-ai": olives_version(given.olive)} if given.olive else {})},
            "cores": len(os.sched_getaffinity(0)),
            "tuning": given.tuning,
            "engines": given.engines,
        }
        self.cells: dict[str, Row] = {}
        if given.results.exists():
            kept = json.loads(given.results.read_text())
            self.cells = kept["cells"]

    def pending(self) -> list[tuple[str, int]]:
        """Return the cells that were not measured with these settings."""
        cells = [(name, batch) for name in self.given.models for batch in self.given.batches]
        return [one for one in cells if self.cells.get(key(*one), {}).get("setting") != self.setting]

    def keep(self, name: str, batch: int, rows: list[Row]) -> None:
        """Write a cell down."""
        load = round(os.getloadavg()[0], 1)
        self.cells[key(name, batch)] = {"setting": self.setting, "load": load, "rows": rows}
        write_atomically(self.given.results, json.dumps({"cells": self.cells}, indent=1).encode())

    def cell(self, name: str, batch: int, left: float) -> list[Row]:
        """Tune and measure a cell in processes of its own."""
        given, words = self.given, [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        place = ["--only", name, str(batch)]
        (given.folder / name).mkdir(parents=True, exist_ok=True)
        log = given.folder / name / f"cell-{batch}.log"
        first = limited([*words, *place, "convert"], left, log)
        if first is None and given.tuning and TVM in given.engines:
            progress(f"{name} {batch}: TVM tunes for up to {min(given.tuning, left):.0f} s")
            limited([*words, *place, "tune"], min(given.tuning, left), log)
        if first is None and given.olive:
            out = given.folder / name / f"olive-{batch}"
            shutil.rmtree(out, ignore_errors=True)
            progress(f"{name} {batch}: Olive")
            limited(olive_words(given.olive, given.folder / name / "model.onnx", out), max(given.tuning, 60),
                    out.with_suffix(".log"), folder=out.parent)  # fmt: skip
        answer = given.folder / name / f"cell-{batch}.json"
        answer.unlink(missing_ok=True)
        progress(f"{name} {batch}: measure")
        problem = first or limited([*words, *place, "measure"], 20 * given.cell + 300, log)
        without: list[Row] = []
        others = [engine for engine in given.engines if engine != TVM]
        if first is None and (problem or "").startswith("stopped") and others and others != given.engines:
            # Operators that it did not tune run without a schedule: one call can take an hour.
            without = [{"engine": TVM, "error": f"with all engines the cell was {problem}, without it it was not"}]
            progress(f"{name} {batch}: measure without TVM")
            problem = limited([*words, "--engines", *others, *place, "measure"], 20 * given.cell + 300, log)
        if problem is not None or not answer.exists():
            return [{"engine": "all", "error": problem or f"no result; see {log}"}]
        rows: list[Row] = json.loads(answer.read_text())
        return rows + without


def olives_version(program: str) -> str:
    """Return the version of Olive, by the Python of its environment."""
    asked = [str(Path(program).parent / "python"), "-c", "import importlib.metadata as m; print(m.version('olive-ai'))"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def olive_words(program: str, model: Path, out: Path) -> list[str]:
    """Return the command by which Olive optimises a file for this processor without another precision."""
    options = ["--device", "cpu", "--provider", "CPUExecutionProvider", "--precision", "fp32", "--disable_telemetry"]
    return [program, "optimize", "-m", str(model), *options, "-o", str(out)]


def key(name: str, batch: int) -> str:
    """Return the name of a cell in the file."""
    return f"{name} {batch}"


def progress(text: str) -> None:
    """Say what is done, apart from the table."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def part(given: argparse.Namespace) -> None:
    """Do one part of a cell in this process."""
    name, batch, what = given.only[0], int(given.only[1]), given.only[2]
    if what == "convert":
        converted(original_of(name), name, given.folder)
    elif what == "tune":
        folder = database(given.folder, name, batch)
        folder.mkdir(exist_ok=True)
        path = given.folder / name / "model.onnx"
        Tvm().load_tuned(path, inputs_of(name, batch), trials=10**6, database=folder, at_once=TOGETHER)
    else:
        rows = measure(given, name, batch)
        write_atomically(given.folder / name / f"cell-{batch}.json", json.dumps(rows).encode())


def arguments() -> argparse.Namespace:
    """Return what was asked."""
    installed = [name for name in running_onnx() if is_installed(get(name))]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--engines", nargs="+", choices=running_onnx(), default=installed)
    parser.add_argument("--rounds", type=int, default=15, help="calls of each engine at most")
    parser.add_argument("--cell", type=float, default=60, help="seconds for the calls of a cell, after five rounds")
    parser.add_argument("--tuning", type=float, default=300, help="seconds in which TVM tunes a cell; 0 for none")
    parser.add_argument("--olive", help="the program olive, of an environment of its own")
    parser.add_argument("--budget", type=float, default=7200, help="seconds after which no cell is begun")
    parser.add_argument("--results", type=Path, default=Path("onnx_table.json"), help="what was measured")
    parser.add_argument("--print", action="store_true", help="measure nothing, print what was measured")
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.results = given.results.resolve()
    given.folder = given.results.with_suffix(".parts")
    return given


def main() -> int:
    """Measure what is left, and print the table."""
    given = arguments()
    if given.only:
        part(given)
        return 0
    table, end = Table(given), time.monotonic() + given.budget
    pending = [] if given.print else table.pending()
    durations: list[float] = []
    while pending and time.monotonic() < end:
        expected = statistics.fmean(durations) * len(pending) if durations else None
        more = f", about {expected / 60:.0f} min" if expected else ""
        progress(f"{len(pending)} cells left{more}; load {os.getloadavg()[0]:.1f}")
        began = time.monotonic()
        name, batch = pending.pop(0)
        table.keep(name, batch, table.cell(name, batch, end - began))
        durations.append(time.monotonic() - began)
    wanted = [key(name, batch) for name in given.models for batch in given.batches]
    print(engine_table.table({name: table.cells[name] for name in wanted if name in table.cells}), end="")
    if pending:
        progress(f"the budget is spent: {len(pending)} cells are left; the same command goes on with them")
    return 3 if pending else 0


if __name__ == "__main__":
    sys.exit(main())
