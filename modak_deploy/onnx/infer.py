"""The command ``modak infer``, apart from how it is called."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.answers import answer
from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import DEFAULT, read_arrays, write_npz
from modak_deploy.onnx.bundle import Bundle, read_bundle
from modak_deploy.onnx.compare import close
from modak_deploy.onnx.hardware import available, has_device
from modak_deploy.onnx.manifest import Manifest, TensorSpec, Timing
from modak_deploy.onnx.packages import require
from modak_deploy.onnx.runner import Arrays, Runner, cast
from modak_deploy.outputs import check_output, write_output
from modak_deploy.terminal import visible

SUFFIXES = (".npz", ".npy", ".csv", ".parquet")
_MOST_PRINTED = 10_000
"""Values that are printed; more belong into a file."""
_CLOSE = 1e-2
"""Largest relative difference between providers: TF32 keeps 10 bits. More is a wrong result, whatever its speed."""


def infer_command(
    folder: Path,
    input_: Path | None,
    output: Path | None,
    *,
    provider: str,
    batch: int | None,
    threads: int | None,
    convert: bool,
    only: Sequence[str] = (),
) -> None:
    """Run the bundle with the arrays of a file; write the outputs to a file, or print them as JSON."""
    if output is not None and output.suffix not in SUFFIXES:
        raise InputError(f"{output}: the suffix must be {', '.join(SUFFIXES)}")
    if output is not None and input_ is not None:
        check_output(output, [input_])
    bundle = read_bundle(folder)
    if input_ is None:
        bundle.verify()
        answer(bundle.manifest, describe(bundle.manifest))
        return
    if provider == "measure":
        inputs = load_inputs(input_, Runner(bundle, provider="cpu").inputs, convert=convert)
        provider = measure(bundle, inputs, threads=threads)
    runner = Runner(bundle, provider=provider, threads=threads, batch=batch or 1, report=_tell)
    inputs = load_inputs(input_, runner.inputs, convert=convert)
    outputs = runner.run(inputs, batch=batch, origin=str(input_))
    if unknown := next((name for name in only if name not in outputs), None):
        raise InputError(f"--only {unknown}: output not found; the model gives {', '.join(outputs)}")
    outputs = {name: outputs[name] for name in only} if only else outputs
    _tell(f"{runner.providers[0]}: {runner.choice.reason}")
    if output is not None:
        save(output, outputs)
        answer({"written": output, "provider": runner.providers[0], "outputs": list(outputs)})
    else:
        text = as_json(outputs)
        answer(json.loads(text), text)


def load_inputs(path: Path, specs: Sequence[TensorSpec], *, convert: bool = False) -> Arrays:
    """Return the arrays of a file by the names of the graph's inputs.

    An array without a name of its own, or alone in its file, is the only input. Numbers of a table have no type, and
    get the input's.
    """
    table = path.suffix in (".csv", ".parquet")
    if table and len(specs) > 1:
        arrays = read_arrays(path, columns=True, dtype="float64")
    else:
        arrays = read_arrays(path, dtype="float64") if table and specs[0].dtype != "string" else read_arrays(path)
    if len(specs) == 1 and len(arrays) == 1 and (DEFAULT in arrays or specs[0].name not in arrays):
        arrays = {specs[0].name: next(iter(arrays.values()))}
    if table:
        arrays = {name: _fit(array, name, specs) for name, array in arrays.items()}
    return cast(arrays, specs, str(path)) if convert or table else arrays


def _fit(array: Any, name: str, specs: Sequence[TensorSpec]) -> Any:
    """Return a column as an input of one dimension, where the graph wants that."""
    spec = next((spec for spec in specs if spec.name == name), None)
    return array[:, 0] if spec is not None and len(spec.shape) == 1 and array.shape[1:] == (1,) else array


def measure(bundle: Bundle, inputs: Arrays, *, threads: int | None = None, seconds: float = 2.0) -> str:
    """Time all execution providers of this machine with these inputs, and return the name of the fastest.

    One whose results differ from the processor's is left out, whatever its speed.
    """
    timings: list[tuple[str, Timing]] = []
    expected: Arrays | None = None
    # The processor first: it is what the others are compared with.
    for entry in reversed([entry for entry in available() if has_device(entry)]):
        try:
            runner = Runner(bundle, provider=entry.name, threads=threads)
            answer = runner.run(inputs)
        except InputError as error:
            _tell(f"{entry.name}: {error}")
            continue
        expected = expected or answer
        if different := next((name for name in answer if not close(expected[name], answer[name], _CLOSE)), None):
            _tell(f"{entry.name}: not used: its output '{different}' differs from the processor's")
            continue
        timing = runner.time(inputs, seconds=seconds)
        _tell(f"{entry.name}: {timing.median * 1e3:.3g} ms for {timing.batch} samples, {timing.runs} runs")
        timings.append((entry.name, timing))
    if not timings:
        raise InputError("no execution provider of this machine can run the bundle")
    return min(timings, key=lambda pair: pair[1].median)[0]


def save(path: Path, outputs: Arrays) -> None:
    """Write the outputs to a file, whole or not at all."""
    write_output(path, _encoded(path, outputs))


def _encoded(path: Path, outputs: Arrays) -> bytes:
    plain = {name: array.astype(str) if array.dtype == object else array for name, array in outputs.items()}
    content = io.BytesIO()
    if path.suffix == ".npz":
        named = {name.replace("/", "."): array for name, array in plain.items()}
        if len(named) < len(plain):
            raise InputError(f"{path}: two outputs would have one name; use --only")
        write_npz(content, named)
        return content.getvalue()
    if path.suffix == ".npy":
        if len(plain) > 1:
            raise InputError(f"{path}: .npy holds one array, the model gives {', '.join(plain)}; use .npz or --only")
        np.save(content, next(iter(plain.values())), allow_pickle=False)
        return content.getvalue()
    columns = _columns(path, plain)
    if path.suffix == ".parquet":
        pyarrow = require("pyarrow", "pyarrow", purpose=f"{path}: a .parquet file")
        require("pyarrow.parquet", "pyarrow", purpose=f"{path}: a .parquet file").write_table(
            pyarrow.table(columns), content
        )
        return content.getvalue()
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return text.getvalue().encode()


def _columns(path: Path, outputs: Arrays) -> Arrays:
    """Return the outputs as columns of a table: ``score.0``, ``score.1`` for an output of two columns."""
    columns: Arrays = {}
    for name, array in outputs.items():
        if array.ndim not in (1, 2):
            raise InputError(f"{path}: '{name}' has {array.ndim} dimensions, which no table has; use .npz or --only")
        if array.ndim == 1 or array.shape[1] == 1:
            columns[name] = array.reshape(-1)
        else:
            columns.update({f"{name}.{at}": array[:, at] for at in range(array.shape[1])})
    return columns


def as_json(outputs: Arrays) -> str:
    """Return the outputs as JSON; InputError where they are too many to be printed."""
    count = sum(array.size for array in outputs.values())
    if count > _MOST_PRINTED:
        raise InputError(f"the outputs have {count} values, which is too many to print; use --output FILE.npz")
    plain = {name: _finite(array.tolist()) for name, array in outputs.items()}
    return visible(json.dumps(plain, allow_nan=False))


def _finite(value: Any) -> Any:
    """Return a list with ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` as text: JSON has no such numbers."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def describe(manifest: Manifest) -> str:
    """Return what a bundle is, as text for a terminal."""
    graph = manifest.ensemble or manifest.models[0].graph
    lines = [f"{manifest.name}: {manifest.combination.rule} of {len(manifest.models)}"]
    if manifest.licence:
        lines.append(f"licence: {manifest.licence}")
    for model in manifest.models:
        checked = model.validation
        worst = max((output.max_absolute or 0.0 for output in checked.outputs), default=None)
        detail = checked.reason or (f"largest difference {worst:.3g}" if worst is not None else "")
        lines.append(
            f"model {model.name}: {model.origin.framework}, {checked.status}{f' ({detail})' if detail else ''}"
        )
    if manifest.ensemble or len(manifest.models) == 1:
        lines += [f"input  {spec}" for spec in graph.inputs]
        lines += [f"output {spec}" for spec in graph.outputs]
    for timing in manifest.timings or manifest.models[0].timings:
        lines.append(f"{timing.provider or timing.engine}, batch {timing.batch}: {timing.median * 1e3:.3g} ms")
    return visible("\n".join(lines))


def _tell(line: str) -> None:
    print(visible(line), file=sys.stderr)
