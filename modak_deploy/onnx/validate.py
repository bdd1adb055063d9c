"""Whether a converted model does what its original does, on the user's own data."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modak_deploy.onnx.arrays import Array, Arrays, batches, join
from modak_deploy.onnx.compare import Difference, compare, same_shape
from modak_deploy.onnx.deviation import first_deviation
from modak_deploy.onnx.distributions import LEVEL, TEST, compare_distributions
from modak_deploy.onnx.frameworks.base import Original
from modak_deploy.onnx.sessions import Session
from modak_deploy.onnx.task import Task

BATCH = 16
Run = Callable[[Arrays], Arrays]


def validate(original: Original, path: Path, task: Task, example: Arrays, test: Arrays) -> dict[str, Any]:
    """Return the manifest's ``Validation`` of the ONNX file ``path``."""
    if task.skip_validation is not None:
        return {"status": "skipped", "reason": task.skip_validation}
    session = Session(path)
    size = BATCH if task.batch else len(next(iter(example.values())))
    if task.stochastic:
        return _distributions(original.run, session.run, _rows(test, size), task.tolerance)
    parts = [part for part in batches(test, size) if task.batch or _length(part) == size]
    if not parts:
        return {"status": "failed", "reason": f"the test data has fewer samples than the fixed batch of {size}"}
    warnings = []
    if not task.batch and (rest := _length(test) % size):
        warnings.append(f"the last {rest} samples of the test data are no whole batch of {size} and were not compared")
    differences = _differences([(original.run(part), session.run(part)) for part in parts], task.tolerance)
    warnings += [entry.warning for entry in differences if entry.warning]
    samples = sum(_length(part) for part in parts)
    result: dict[str, Any] = {
        "status": "passed" if all(entry.passed for entry in differences) else "failed",
        "method": "elementwise",
        "samples": samples,
        "outputs": [entry.entry() for entry in differences],
        "warnings": warnings,
    }
    if task.batch and result["status"] == "passed" and samples > 1:
        _check_single(original, session, _rows(parts[0], 1), task, result)
    elif result["status"] == "failed":
        result["reason"] = "; ".join(f"output '{d.name}': {d.problem}" for d in differences if d.problem)
        result["first_deviation"] = _single_line(first_deviation(original, path, _rows(test, min(size, 4))))
    return result


def _differences(pairs: list[tuple[Arrays, Arrays]], tolerance: Mapping[str, list[float]]) -> list[Difference]:
    """Return the differences over all batches; of the first alone whose shapes differ, as joined ones may not."""
    for expected, actual in pairs:
        if any(name in actual and not same_shape(array, actual[name]) for name, array in expected.items()):
            return compare(expected, actual, tolerance)
    return compare(join([expected for expected, _ in pairs]), join([actual for _, actual in pairs]), tolerance)


def _distributions(
    original: Run, converted: Run, inputs: Arrays, tolerance: Mapping[str, list[float]]
) -> dict[str, Any]:
    outputs = compare_distributions(original, converted, inputs, tolerance)
    failed = [entry["name"] for entry in outputs if not entry["passed"]]
    result: dict[str, Any] = {
        "status": "failed" if failed else "passed",
        "method": "distribution",
        "test": TEST,
        "samples": _length(inputs),
        "outputs": outputs,
    }
    if failed:
        text = f"differs at the level of {LEVEL:g}, or values that are the same in all runs are not equal"
        result["reason"] = f"the distribution of '{', '.join(failed)}' {text}"
    return result


def _check_single(original: Original, session: Session, sample: Arrays, task: Task, result: dict[str, Any]) -> None:
    """Let the validation fail where a batch of 1 cannot be run, or gives something else than the original's.

    A traced graph may hold the batch that it was given, and torch.export (2.13) takes 'x.shape[0] == 1' for false.
    """
    try:
        expected = original.run(sample)
    except Exception as error:  # of the framework: a normalisation over the batch, for instance
        result["warnings"].append(f"a batch of 1 was not compared, since the original takes none: {_reason(error)}")
        return
    try:
        actual = session.run(sample)
    except Exception as error:  # of ONNX Runtime
        problem = f"the converted model takes no batch of 1: {_reason(error)}; set 'batch: false' if the batch is fixed"
        result.update(status="failed", reason=problem)
        return
    failed = [entry for entry in compare(expected, actual, task.tolerance) if not entry.passed]
    if failed:
        problems = "; ".join(f"output '{entry.name}': {entry.problem}" for entry in failed)
        result.update(status="failed", reason=f"with a batch of 1: {problems}")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _rows(arrays: Arrays, count: int) -> Arrays:
    return {name: array[:count] for name, array in arrays.items()}


def _length(arrays: Arrays) -> int:
    first: Array = next(iter(arrays.values()))
    return len(first)


def _single_line(text: str | None) -> str | None:
    return " ".join(text.split())[:1000] if text else None
