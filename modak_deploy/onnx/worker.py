"""The process that converts one model: ``python -P -m modak_deploy.onnx.worker TASK OUTCOME``.

A crash, a wrong package or a leak of the framework ends with it. Progress goes to standard output, one line each.
"""

import hashlib
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from modak_deploy.errors import InputError, ModakError
from modak_deploy.onnx.arrays import Arrays, batches, generate, like, read_arrays, write_npz
from modak_deploy.onnx.frameworks import framework
from modak_deploy.onnx.frameworks.base import Exported, Original, installed_sources
from modak_deploy.onnx.modelfile import normalise
from modak_deploy.onnx.opset import highest
from modak_deploy.onnx.packages import require, versions
from modak_deploy.onnx.sessions import Session
from modak_deploy.onnx.task import PROGRESS, Data, Outcome, Task
from modak_deploy.onnx.timing import interleaved
from modak_deploy.onnx.validate import validate

KEPT = 64
"""Samples that are kept."""


@contextmanager
def _step(name: str, outcome: Outcome) -> Iterator[None]:
    print(f"{PROGRESS}{name}", flush=True)
    began = time.monotonic()
    try:
        yield
    finally:
        outcome.seconds[name] = round(time.monotonic() - began, 3)


def convert(task: Task, outcome: Outcome) -> None:
    """Load, convert and validate one model; ``outcome`` is filled in as far as it comes."""
    for package in ("onnx", "onnxruntime"):
        require(package, package, purpose="conversion", extra="convert")
    with _step("import", outcome):
        source = framework(task.framework)
    outcome.software = versions((*source.distributions, "onnxruntime", "numpy"))
    with _step("load", outcome):
        example = _arrays(task.example)
        test = _arrays(task.test, example)
        _check_inputs(example, test)
        began = time.perf_counter()
        original = source.load(task, example)
        loading = time.perf_counter() - began
        outputs = _first_run(original, example)
    path = Path(task.folder) / "model.onnx"
    with _step("convert", outcome):
        exported = convert_for_runtime(original, path, task, list(example), outputs)
        outcome.exporter, outcome.notes = exported.exporter, exported.notes
    with _step("validate", outcome):
        outcome.validation = validate(original, path, task, example, test)
        first = next(batches(test, KEPT if task.batch else len(next(iter(example.values())))))
        deterministic = not task.stochastic and outcome.validation["status"] == "passed"
        _keep(Path(task.folder), first, original.run(first) if deterministic else None)
        outcome.validation["warnings"] = [*outcome.validation.get("warnings", []), *_warnings(outcome.notes)]
    outcome.sources = {str(file): _sha256(file) for file in installed_sources(task, source.packages)}
    if deterministic and task.batch and task.batches:
        with _step("time", outcome):
            outcome.timings = _time(original, path, test, task.batches, loading)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def convert_for_runtime(original: Original, path: Path, task: Task, inputs: list[str], outputs: list[str]) -> Exported:
    """Write the model with the highest opset that converter and runtime share, and for whose operators it has kernels.

    ONNX Runtime 1.31 takes models of opset 22, and has no kernels for its RandomUniformLike.
    """
    wanted = task.opset or highest(task.runtime)
    opsets = [wanted, *(each for each in (21, 20, 18, 15) if each < wanted and task.opset is None)]
    missing: list[str] = []
    for opset in opsets:
        exported = original.convert(path, opset)
        written = normalise(path, task.name, batch=task.batch, inputs=inputs, outputs=outputs, limit=task.external_data)
        try:
            Session(path)
        except Exception as error:  # onnxruntime's NotImplemented has no public name
            if "NOT_IMPLEMENTED" not in str(error):
                raise
            missing.append(" ".join(str(error).partition("implementation for ")[2].split())[:100] or str(error))
            continue
        notes = [f"opset {written} in place of {wanted}: ONNX Runtime has no {missing[0]}"] if missing else []
        return Exported(exported.exporter, [*exported.notes, *notes, f"opset {written}"])
    raise InputError(f"ONNX Runtime has no implementation of {missing[0]}; it is not supported on this runtime")


def _keep(folder: Path, inputs: Arrays, outputs: Arrays | None) -> None:
    """Keep some of the test data, and what the original makes of them, for the steps after this one."""
    for name, arrays in (("samples", inputs), ("expected", outputs)):
        if arrays is not None:
            write_npz(folder / f"{name}.npz", arrays)


def _time(original: Original, path: Path, test: Arrays, sizes: list[int], loading: float) -> list[dict[str, object]]:
    """Return how long the framework takes, measured beside ONNX Runtime."""
    session = Session(path)
    timings: list[dict[str, object]] = []
    for size in sizes:
        given = {name: np.resize(array, (size, *array.shape[1:])) for name, array in test.items()}
        calls = {"framework": partial(original.run, given), "onnxruntime": partial(session.run, given)}
        times = interleaved(calls, budget=3.0)
        timings.append(times["framework"].entry(batch=size, loading=loading))
    return timings


def _warnings(notes: list[str]) -> list[str]:
    return [note for note in notes if not note.startswith("opset ")]


def _arrays(data: Data, example: Arrays | None = None) -> Arrays:
    if data.file is not None:
        return read_arrays(Path(data.file), drop=tuple(data.drop), columns=data.columns, dtype=data.dtype)
    if data.shapes:
        return generate(data.shapes, samples=data.samples or None, seed=data.seed)
    return like(example or {}, samples=data.samples, seed=data.seed)


def _check_inputs(example: Arrays, test: Arrays) -> None:
    """Raise InputError where the test data are not of the example's names, types and shapes."""
    if set(example) != set(test):
        raise InputError(f"test: its inputs are {_list(test)}, and those of the example {_list(example)}")
    for name, array in example.items():
        other = test[name]
        if array.shape[1:] != other.shape[1:]:
            raise InputError(
                f"test: '{name}' has samples of shape {list(other.shape[1:])}, and those of the example have "
                f"{list(array.shape[1:])}"
            )
        if array.dtype != other.dtype and array.dtype.kind != "O":
            raise InputError(f"test: '{name}' is {other.dtype}, and {array.dtype} in the example; give a 'dtype'")


def _list(arrays: Arrays) -> str:
    return ", ".join(f"'{name}'" for name in arrays)


def _first_run(original: Original, example: Arrays) -> list[str]:
    """Return the names of the outputs; InputError where the model does not take the example."""
    try:
        return list(original.run(example))
    except ModakError:
        raise
    except Exception as error:  # of the user's model
        shapes = ", ".join(f"'{name}' {array.dtype}{list(array.shape)}" for name, array in example.items())
        reason = " ".join(str(error).split())[:400]
        raise InputError(f"example: the model does not take {shapes}: {type(error).__name__}: {reason}") from None


def main(arguments: list[str]) -> int:
    """Convert the model of a task file; the outcome is written whatever happens."""
    task = Task.from_json(Path(arguments[0]).read_text())
    outcome = Outcome()
    os.chdir(task.folder)
    try:
        convert(task, outcome)
    except ModakError as error:
        outcome.error = str(error)
    except Exception as error:
        traceback.print_exc()
        outcome.error = f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}"
    outcome.write(Path(arguments[1]))
    # Threads of frameworks sometimes keep an interpreter from its end, or crash in it; all is written.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if outcome.error else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
