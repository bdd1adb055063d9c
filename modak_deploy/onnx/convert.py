"""``modak convert``: every model in a process of its own, then one bundle of all.

What is finished is kept beside the bundle in ``.NAME.convert``, by the digest of all that it depends on, so that a run
that was killed, or one after a change of one model, converts only what is missing.
"""

import hashlib
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from modak_deploy import __version__
from modak_deploy.errors import InputError, ModakError
from modak_deploy.onnx.assemble import Converted, fill
from modak_deploy.onnx.bundle import Bundle, write_bundle
from modak_deploy.onnx.measurements import add_to_store
from modak_deploy.onnx.optimising import optimise_model
from modak_deploy.onnx.processes import Report, run_module
from modak_deploy.onnx.request import ConversionRequest, DataFile, Generated, ModelRequest, TensorShape
from modak_deploy.onnx.task import Data, Outcome, Task
from modak_deploy.paths import expanded
from modak_deploy.util.files import locked
from modak_deploy.util.text import plural


class ConvertError(ModakError):
    """At least one model was not converted, or is not what its original is."""

    exit_code = 5


def convert(
    request: ConversionRequest,
    output: Path,
    *,
    base: Path,
    replace: bool = False,
    jobs: int = 1,
    record: bool = False,
    report: Report = lambda _: None,
) -> Bundle:
    """Convert, compare and optimise all models, and write the bundle ``output``.

    Paths of the request start at ``base``. ConvertError names each model that failed; those that did not are kept for
    the next run. What was timed is added to the user's measurements with ``record``. Where another process converts
    to the same place, it is waited for: each would remove what the other one keeps of a model.
    """
    _check_absent(output, replace)
    state = output.absolute().with_name(f".{output.name}.convert")
    for model in request.models:  # a missing file is an error before anything is made
        _described(request, model, base, state / model.name)
    make_state(state)
    with locked(state):
        _check_absent(output, replace)
        bundle, done = _converted(request, output, state, base, replace, jobs, report)
    if record:
        count, store = add_to_store(done)
        report(f"{plural(count, 'measurement')} added to {store}")
        if count:
            from modak_deploy.performance.refitting import keep_current

            keep_current(report)
    return bundle


def make_state(folder: Path) -> None:
    """Make the folder of what a conversion keeps; InputError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", source=folder) from None


def _check_absent(output: Path, replace: bool) -> None:
    if output.exists() and not replace:
        raise InputError(f"{output}: exists; remove it or use --replace")


def _converted(
    request: ConversionRequest, output: Path, state: Path, base: Path, replace: bool, jobs: int, report: Report
) -> tuple[Bundle, list[Converted]]:
    tasks = [(model, task_of(request, model, base, state / model.name)) for model in request.models]
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        results = list(pool.map(lambda pair: _attempt(pair[0], pair[1], report), tasks))
    if faults := [result for result in results if isinstance(result, str)]:
        raise ConvertError("\n".join(faults))
    done = [result for result in results if isinstance(result, Converted)]
    if request.optimise.enabled:
        for model in done:
            optimise_model(request, model, report)
    return write_bundle(output, lambda folder: fill(folder, request, done, report), replace=replace), done


def _attempt(model: ModelRequest, task: Task, report: Report) -> Converted | str:
    try:
        return convert_model(model, task, report)
    except ModakError as error:
        return f"{model.name}: {error}"


def task_of(request: ConversionRequest, model: ModelRequest, base: Path, folder: Path) -> Task:
    """Return what the process of one model is given; InputError for a file that is not there."""
    task = _described(request, model, base, folder)
    for path in filter(None, (task.file, task.code, task.example.file, task.test.file)):
        task.digests[path] = digest(Path(path))
    return task


def _described(request: ConversionRequest, model: ModelRequest, base: Path, folder: Path) -> Task:
    """Return the task without the digests of its files, which take long where these are large."""
    example = _data(model.example, base, f"{model.name}: example")
    test = _data(model.test, base, f"{model.name}: test")
    if isinstance(model.test, Generated) and example.shapes:
        test.shapes = example.shapes
    return Task(
        name=model.name,
        framework=model.framework,
        example=example,
        test=test,
        folder=str(folder),
        file=_path(model.file, base, f"{model.name}: file"),
        reference=model.class_,
        arguments=model.arguments,
        code=_path(model.code, base, f"{model.name}: code"),
        trust=model.trust,
        axes=model.axes,
        batch=model.batch,
        method=model.method,
        outputs=model.outputs,
        tolerance={name: [each.absolute, each.relative] for name, each in model.tolerance.items()},
        stochastic=model.stochastic,
        skip_validation=model.skip_validation,
        frozen_branches=model.frozen_branches,
        opset=model.opset,
        runtime=request.runtime,
        external_data=request.external_data,
        batches=request.optimise.batches if request.optimise.enabled else [],
    )


def _path(given: str | None, base: Path, what: str) -> str | None:
    if given is None:
        return None
    path = (base / expanded(given)).absolute()
    if not path.exists():
        raise InputError(f"{what}: {path}: file or folder not found")
    return str(path)


def _data(given: str | DataFile | Generated | dict[str, TensorShape], base: Path, what: str) -> Data:
    if isinstance(given, Generated):
        return Data(samples=given.samples, seed=given.seed + 1)
    if isinstance(given, dict):
        return Data(shapes={name: shape.model_dump() for name, shape in given.items()})
    file = DataFile(file=given) if isinstance(given, str) else given
    return Data(file=_path(file.file, base, what), drop=file.drop, columns=file.columns, dtype=file.dtype)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder with their names."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    sha = hashlib.sha256()
    for each in sorted(part for part in path.rglob("*") if part.is_file() and "__pycache__" not in part.parts):
        sha.update(f"{each.relative_to(path)}\0{digest(each)}\n".encode())
    return sha.hexdigest()


def convert_model(model: ModelRequest, task: Task, report: Report) -> Converted:
    """Convert one model in a process of its own, unless an earlier run has; ModakError says what is wrong."""
    folder = Path(task.folder)
    key = hashlib.sha256(f"{__version__}\n{model.python or sys.executable}\n{task.to_json()}".encode()).hexdigest()
    if (outcome := _finished(folder, key)) is not None:
        report(f"{model.name}: converted before")
        return Converted(model, folder, outcome)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "task.json").write_text(task.to_json())
    ended = run_module(
        "modak_deploy.onnx.worker",
        folder,
        python=model.python,
        timeout=model.timeout,
        report=lambda line: report(f"{model.name}: {line}"),
    )
    try:
        outcome = Outcome.read(folder / "outcome.json")
    except (OSError, ValueError):
        raise ConvertError(f"the process that converts the model {ended or 'left no outcome'}") from None
    if outcome.error is not None:
        raise ConvertError(outcome.error)
    if outcome.validation.get("status") == "failed":
        raise ConvertError(_deviation(outcome.validation))
    (folder / "key").write_text(key)
    return Converted(model, folder, outcome)


def _finished(folder: Path, key: str) -> Outcome | None:
    try:
        if (folder / "key").read_text() != key or not (folder / "model.onnx").is_file() or changed_source(folder):
            return None
        return Outcome.read(folder / "outcome.json")
    except (OSError, ValueError):
        return None


def changed_source(folder: Path) -> str | None:
    """Return a file of an installed package, which the model in ``folder`` was converted from, that has changed since.

    ``Task.digests`` are made before anything is imported, and have the request's own files alone.
    """
    try:
        sources = Outcome.read(folder / "outcome.json").sources
    except (OSError, ValueError):
        return None
    return next((p for p, sha in sources.items() if not Path(p).is_file() or digest(Path(p)) != sha), None)


def _deviation(validation: dict[str, Any]) -> str:
    text = f"the converted model is not equal: {validation.get('reason') or 'no reason given'}"
    first = validation.get("first_deviation")
    return f"{text}; the first operator that deviates is {first}" if first else text
