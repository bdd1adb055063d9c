"""``modak convert``: every model in a process of its own, then one bundle of all.

What is finished is kept beside the bundle in ``.NAME.convert``, by the digest of all that it depends on, so that a run
that was killed, or one after a change of one model, converts only what is missing.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak import __version__
from modak.errors import InputError, ModakError
from modak.onnx.bundle import Bundle, copy_into, describe_graph, write_bundle
from modak.onnx.manifest import Combination, Manifest, ModelEntry, Origin, Validation
from modak.onnx.request import ConversionRequest, DataFile, Generated, ModelRequest, TensorShape
from modak.onnx.task import PROGRESS, Data, Outcome, Task

Report = Callable[[str], None]
"""Takes a line on the progress."""
_TOP = Path(__file__).resolve().parents[2]
_TAIL = 15
"""Lines of a failed process that are repeated."""


class ConvertError(ModakError):
    """At least one model was not converted, or is not what its original is."""

    exit_code = 5


@dataclass(frozen=True)
class Converted:
    """One model and the folder of its files."""

    request: ModelRequest
    folder: Path
    outcome: Outcome
    again: bool
    """It was converted by an earlier run."""


def convert(
    request: ConversionRequest,
    output: Path,
    *,
    base: Path,
    replace: bool = False,
    jobs: int = 1,
    report: Report = lambda _: None,
) -> Bundle:
    """Convert, compare and optimise all models, and write the bundle ``output``.

    Paths of the request start at ``base``. ConvertError names each model that failed; those that did not are kept for
    the next run.
    """
    if output.exists() and not replace:
        raise InputError(f"{output}: exists; remove it or use --replace")
    state = output.absolute().with_name(f".{output.name}.convert")
    state.mkdir(parents=True, exist_ok=True)
    tasks = [(model, task_of(request, model, base, state / model.name)) for model in request.models]
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        results = list(pool.map(lambda pair: _attempt(pair[0], pair[1], report), tasks))
    if faults := [result for result in results if isinstance(result, str)]:
        raise ConvertError("\n".join(faults))
    done = [result for result in results if isinstance(result, Converted)]
    return write_bundle(output, lambda folder: _fill(folder, request, done, report), replace=replace)


def _attempt(model: ModelRequest, task: Task, report: Report) -> Converted | str:
    try:
        return convert_model(model, task, report)
    except ModakError as error:
        return f"{model.name}: {error}"


def task_of(request: ConversionRequest, model: ModelRequest, base: Path, folder: Path) -> Task:
    """Return what the process of one model is given; InputError for a file that is not there."""
    example = _data(model.example, base, f"{model.name}: example")
    test = _data(model.test, base, f"{model.name}: test")
    if isinstance(model.test, Generated) and example.shapes:
        test.shapes = example.shapes
    task = Task(
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
    )
    for path in filter(None, (task.file, task.code, example.file, test.file)):
        task.digests[path] = digest(Path(path))
    return task


def _path(given: str | None, base: Path, what: str) -> str | None:
    if given is None:
        return None
    path = (base / Path(given).expanduser()).absolute()
    if not path.exists():
        raise InputError(f"{what}: {path}: there is no such file or folder")
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
        return Converted(model, folder, outcome, again=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "task.json").write_text(task.to_json())
    tail, code = _run(model, folder, report)
    try:
        outcome = Outcome.read(folder / "outcome.json")
    except (OSError, ValueError):
        raise ConvertError(f"the process that converts the model {_end(code, model)}{_quoted(tail)}") from None
    if outcome.error is not None:
        raise ConvertError(outcome.error)
    if outcome.validation.get("status") == "failed":
        raise ConvertError(_deviation(outcome.validation))
    (folder / "key").write_text(key)
    return Converted(model, folder, outcome, again=False)


def _finished(folder: Path, key: str) -> Outcome | None:
    try:
        if (folder / "key").read_text() != key or not (folder / "model.onnx").is_file():
            return None
        return Outcome.read(folder / "outcome.json")
    except (OSError, ValueError):
        return None


def _start(model: ModelRequest, folder: Path) -> subprocess.Popen[str]:
    # modak comes last on the path: the interpreter's own packages are the model's.
    start = f"import sys; sys.path.append({str(_TOP)!r}); from modak.onnx.worker import main; main(sys.argv[1:])"
    files = [str(folder / name) for name in ("task.json", "outcome.json")]
    command = [model.python or sys.executable, "-P", "-c", start, *files]
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"python: {command[0]}: cannot be run: {error.strerror}") from None


def _run(model: ModelRequest, folder: Path, report: Report) -> tuple[list[str], int]:
    """Run the process; return the end of its output and its status: below 0 a signal, 124 when it took too long."""
    process = _start(model, folder)
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(model.timeout, end)
    timer.start()
    tail: deque[str] = deque(maxlen=_TAIL)
    try:
        assert process.stdout is not None  # noqa: S101
        with (folder / "log").open("w") as log:
            for line in process.stdout:
                if line.startswith(PROGRESS):
                    report(f"{model.name}: {line.removeprefix(PROGRESS).strip()}")
                    continue
                log.write(line)
                tail.append(line.rstrip()[:500])
        code = process.wait()
    except BaseException:
        _kill(process)
        raise
    finally:
        timer.cancel()
    return list(tail), 124 if late.is_set() else code


def _environment() -> dict[str, str]:
    """Return the environment of a conversion: fixed seeds and one way of computing, no GPU, no download."""
    return {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "HF_HUB_OFFLINE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # oneDNN's kernels add in an order that depends on the number of threads.
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _end(code: int, model: ModelRequest) -> str:
    if code == 124:
        return f"took longer than {model.timeout} s and was ended"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit status {code}"


def _quoted(tail: Sequence[str]) -> str:
    return "".join(f"\n    {line}" for line in tail)


def _deviation(validation: dict[str, Any]) -> str:
    text = f"the converted model is not equal: {validation.get('reason') or 'no reason given'}"
    first = validation.get("first_deviation")
    return f"{text}; the first operator that deviates is {first}" if first else text


def _fill(folder: Path, request: ConversionRequest, models: Sequence[Converted], report: Report) -> Manifest:
    """Put the files of all models into the folder of a bundle; return its manifest."""
    entries = []
    for model in models:
        report(f"{model.request.name}: {model.outcome.exporter}, {_checked(model.outcome)}")
        entries.append(_entry(folder, model))
    combination = request.combine or Combination(rule="single")
    return Manifest(
        name=request.name,
        models=entries,
        combination=combination,
        target=request.target.name if request.target else request.engine,
        licence=request.licence,
        made_by=f"modak {__version__}",
    )


def _entry(folder: Path, model: Converted) -> ModelEntry:
    where = f"models/{model.request.name}"
    files = {f"{where}/{path.name}": path for path in sorted(model.folder.glob("model.onnx*"))}
    copy_into(folder, files)
    task = model.request
    source = model.folder / "task.json"
    digests = json.loads(source.read_text())["digests"]
    file = next((value for path, value in digests.items() if task.file and path.endswith(Path(task.file).name)), None)
    return ModelEntry(
        name=task.name,
        graph=describe_graph(folder, f"{where}/model.onnx"),
        origin=Origin(
            framework=task.framework,
            source=task.file or task.class_ or "",
            sha256=file,
            exporter=model.outcome.exporter,
            software=model.outcome.software,
        ),
        licence=task.licence,
        validation=Validation.model_validate(model.outcome.validation),
    )


def _checked(outcome: Outcome) -> str:
    validation = outcome.validation
    if validation["status"] == "skipped":
        return f"not compared: {validation['reason']}"
    outputs = validation["outputs"]
    if validation["method"] == "distribution":
        return "distributions equal: " + ", ".join(
            f"'{entry['name']}' p = {entry['p_value']:.2f}, power {entry['power']:.2f}"
            for entry in outputs
            if entry.get("p_value") is not None
        )
    largest = max((entry["max_absolute"] or 0.0 for entry in outputs), default=0.0)
    return f"equal on {validation['samples']} samples, largest difference {largest:.3g}"
