"""The process that makes one ONNX file faster: ``python -P -m modak_deploy.onnx.optimise TASK OUTCOME``.

Sequences of passes are searched from the best found so far: each result is compared with what the original model gave,
timed beside the file as it was converted, and kept only if it is faster.
"""

import hashlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.engines.base import Run
from modak_deploy.engines.registry import get
from modak_deploy.errors import InputError, ModakError
from modak_deploy.onnx.arrays import Array, Arrays, read_arrays, read_outputs
from modak_deploy.onnx.compare import Difference, compare, same_shape
from modak_deploy.onnx.deviation import deviation_of_files
from modak_deploy.onnx.engines import OnnxRuntime
from modak_deploy.onnx.passes import FINAL, INEXACT, PASSES
from modak_deploy.onnx.sessions import Session
from modak_deploy.onnx.task import PROGRESS
from modak_deploy.onnx.timing import Times, faster, interleaved
from modak_deploy.util.files import write_atomically

BEAM = 2
"""Sequences that are extended at each length."""


@dataclass
class OptimiseTask:
    """One converted model and how it may be changed; all paths are absolute."""

    folder: str
    """With model.onnx, samples.npz and expected.npz; the optimised file replaces model.onnx."""
    passes: list[str]
    engines: list[str]
    batches: list[int]
    budget: float
    accuracy_loss: float
    minimal_gain: float
    longest: int
    tolerance: dict[str, list[float]] = field(default_factory=dict)
    trials: int = 0
    """Of an engine that tunes itself, such as TVM."""

    def to_json(self) -> str:
        """Return the task as JSON, the same for the same task."""
        return json.dumps(asdict(self), sort_keys=True, indent=1)


@dataclass
class Variant:
    """A sequence of passes and the file that it gave."""

    passes: tuple[str, ...]
    path: Path
    digest: str
    validation: dict[str, Any] = field(default_factory=dict)
    times: Times | None = None
    gain: float = 0.0
    reason: str | None = None

    def entry(self, kept: bool) -> dict[str, Any]:
        """Return the manifest's ``Optimisation``, its timing left to the caller."""
        return {
            "passes": list(self.passes),
            "kept": kept,
            "reason": self.reason,
            "validation": self.validation or None,
        }


class Search:
    """The search for one model."""

    def __init__(self, task: OptimiseTask) -> None:
        self.task = task
        self.folder = Path(task.folder)
        self.samples = read_arrays(self.folder / "samples.npz")
        self.expected = read_outputs(self.folder / "expected.npz")
        self.end = time.monotonic() + task.budget
        self.base = Variant((), self.folder / "model.onnx", _digest(self.folder / "model.onnx"))
        self.batch = _first(self.samples, task.batches[0])
        self.tried: list[Variant] = []
        self.seen = {self.base.digest: self.base}

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return time.monotonic() > self.end

    def run(self) -> Variant:
        """Try sequences until the budget is spent; return the one to keep, which may be the file as it is."""
        frontier = [self.base]
        for _ in range(self.task.longest):
            candidates = [
                candidate
                for parent in frontier
                for name in self._next(parent)
                if not self.over and (candidate := self._try(parent, name)) is not None
            ]
            if not candidates or self.over:
                break
            frontier = sorted(candidates, key=lambda candidate: candidate.gain, reverse=True)[:BEAM]
        return self._choose()

    def _next(self, parent: Variant) -> list[str]:
        if set(parent.passes) & FINAL:
            return []
        reduced = set(parent.passes) & INEXACT
        return [name for name in self.task.passes if name not in parent.passes and not (reduced and name in INEXACT)]

    def _try(self, parent: Variant, name: str) -> Variant | None:
        """Apply one more pass; return the candidate if it is right, with its time."""
        passes = (*parent.passes, name)
        print(f"{PROGRESS}optimise: {' + '.join(passes)}", flush=True)
        folder = self.folder / "passes" / "-".join(passes)
        folder.mkdir(parents=True, exist_ok=True)
        candidate = Variant(passes, folder / "model.onnx", "")
        self.tried.append(candidate)
        try:
            PASSES[name](parent.path, candidate.path, self.samples)
            candidate.digest = _digest(candidate.path)
            if (same := self.seen.get(candidate.digest)) is not None:
                candidate.reason = f"gives the same file as {' + '.join(same.passes) or 'no pass'}"
                return None
            self.seen[candidate.digest] = candidate
            session = Session(candidate.path)
        except Exception as error:  # each pass raises types of its own
            candidate.reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return None
        candidate.validation = self._validate(session.run, relaxed=bool(set(passes) & INEXACT))
        if candidate.validation["status"] == "failed":
            candidate.reason = candidate.validation["reason"]
            deviation = None if set(passes) & INEXACT else self._deviation(candidate.path)
            candidate.validation["first_deviation"] = deviation
            return None
        self._time(candidate, session)
        return candidate

    def _deviation(self, path: Path) -> str | None:
        try:
            return deviation_of_files(self.base.path, path, _first(self.samples, 4))
        except Exception as error:  # of ONNX Runtime; the candidate has failed already
            return f"its operators cannot be traced: {' '.join(str(error).split())[:200]}"

    def _time(self, candidate: Variant, session: Session) -> None:
        base = Session(self.base.path)
        left = max(0.2, min(3.0, self.end - time.monotonic()))
        times = interleaved({"base": lambda: base.run(self.batch), "new": lambda: session.run(self.batch)}, budget=left)
        candidate.times = times["new"]
        candidate.gain = 1 - times["new"].median / times["base"].median
        if not faster(times["new"], times["base"], self.task.minimal_gain):
            candidate.reason = f"not faster: {-candidate.gain:+.1%} of the time"

    def _validate(self, run: Run, *, relaxed: bool) -> dict[str, Any]:
        """Return the manifest's ``Validation`` against what the original model gave."""
        # In one batch, as the original has had them: it may be fixed, and an output's first axis be another.
        actual = run(self.samples)
        differences = compare(self.expected, actual, self.task.tolerance)
        warnings = []
        if relaxed:
            for difference in differences:
                loss, what = accuracy_loss(difference, self.expected, actual)
                difference.passed = loss <= self.task.accuracy_loss
                text = f"{what} of {loss:.3g}" if np.isfinite(loss) else what
                difference.problem = None if difference.passed else text
                warnings.append(f"'{difference.name}': {text}, {self.task.accuracy_loss:g} permitted")
        failed = [f"output '{d.name}': {d.problem}" for d in differences if not d.passed]
        return {
            "status": "failed" if failed else "passed",
            "method": "elementwise",
            "samples": len(next(iter(self.samples.values()))),
            "reason": "; ".join(failed) or None,
            "outputs": [difference.entry() for difference in differences],
            "warnings": warnings,
        }

    def _choose(self) -> Variant:
        """Time the fastest candidates once more side by side, with the unchanged file among them."""
        right = [candidate for candidate in self.tried if candidate.times is not None and candidate.reason is None]
        if not right:
            return self.base
        finalists = sorted(right, key=lambda candidate: candidate.gain, reverse=True)[:3]
        sessions = {" + ".join(each.passes): Session(each.path) for each in (self.base, *finalists)}
        times = interleaved({name: partial(session.run, self.batch) for name, session in sessions.items()}, budget=5.0)
        best = self.base
        for candidate in finalists:
            name = " + ".join(candidate.passes)
            candidate.gain = 1 - times[name].median / times[""].median
            if not faster(times[name], times[""], self.task.minimal_gain):
                candidate.reason = f"not faster in a second comparison: {-candidate.gain:+.1%} of the time"
            elif best is self.base or candidate.gain > best.gain:
                best = candidate
        for candidate in finalists:
            if candidate is not best and candidate.reason is None:
                candidate.reason = f"{' + '.join(best.passes)} is faster"
        if best is not self.base:
            best.reason = f"{best.gain:.1%} less time"
        return best


def accuracy_loss(difference: Difference, expected: Arrays, actual: Arrays) -> tuple[float, str]:
    """Return how much accuracy an output lost: other classes, or the error over the spread of the values."""
    name = difference.name
    if name not in actual or not same_shape(expected[name], actual[name]):
        return float("inf"), "an output of another shape"
    if _turned_into_nan(expected[name], actual[name]):
        # The place of the largest value is the first for a row of NaN, which may be the original's, too.
        return float("inf"), "NaN where the original has numbers"
    if difference.top1_agreement is not None:
        return 1 - difference.top1_agreement, "a share of other classes"
    a, b = (values[name].reshape(-1).astype(np.float64) for values in (actual, expected))
    spread = float(b.std()) or float(np.abs(b).max()) or 1.0
    return float(np.sqrt(np.mean((a - b) ** 2))) / spread, "an error over the spread of values"


def _turned_into_nan(expected: Array, actual: Array) -> bool:
    if expected.dtype.kind not in "fiub" or actual.dtype.kind != "f":
        return False
    return bool((np.isnan(actual) & ~np.isnan(expected.reshape(actual.shape))).any())


def engines(
    search: Search, path: Path, begin: Callable[[str], None]
) -> Iterator[tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
    """Yield for each engine the optimisation's entry, and the timings of all engines that are right.

    ``begin`` is called with an engine's name before its code runs.
    """
    task = search.task
    runs: dict[str, dict[int, Run]] = {}
    loading: dict[tuple[str, int], float] = {}
    reference = OnnxRuntime.name
    for name in [reference, *task.engines]:
        print(f"{PROGRESS}engine: {name}", flush=True)
        begin(name)
        entry: dict[str, Any] = {"passes": [name], "kept": False, "reason": None, "validation": None}
        try:
            runs[name] = {}
            for batch in task.batches:
                example = _first(search.samples, batch)
                began = time.perf_counter()
                run = get(name).load(path, example, trials=task.trials)
                loading[name, batch] = time.perf_counter() - began
                if name != reference:
                    entry["validation"] = _single_batch(search, run, example)
                    if entry["validation"]["status"] == "failed":
                        raise InputError(entry["validation"]["reason"])
                runs[name][batch] = run
            entry["reason"] = "an engine beside ONNX Runtime; its times are among the timings"
        except Exception as error:  # each engine raises types of its own
            entry["reason"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            runs.pop(name, None)
        if name != reference:
            yield entry, []
    begin(", ".join(runs))
    for batch in task.batches:
        example = _first(search.samples, batch)
        calls = {name: partial(each[batch], example) for name, each in runs.items() if batch in each}
        times = interleaved(calls, budget=max(2.0, min(10.0, search.end - time.monotonic())))
        yield (
            None,
            [
                measured.entry(engine=name, batch=batch, loading=loading[name, batch])
                for name, measured in times.items()
            ],
        )


def _single_batch(search: Search, run: Run, example: Arrays) -> dict[str, Any]:
    count = len(next(iter(example.values())))
    rows = min(count, len(next(iter(search.expected.values()))))
    actual = {name: array[:rows] for name, array in run(example).items()}
    differences = compare(
        {name: array[:rows] for name, array in search.expected.items()}, actual, search.task.tolerance
    )
    failed = [f"output '{d.name}': {d.problem}" for d in differences if not d.passed]
    return {
        "status": "failed" if failed else "passed",
        "method": "elementwise",
        "samples": rows,
        "reason": "; ".join(failed) or None,
        "outputs": [difference.entry() for difference in differences],
    }


def _first(arrays: Arrays, count: int) -> Arrays:
    """Return ``count`` samples, repeated where there are fewer."""
    return {name: np.concatenate([array] * -(-count // len(array)))[:count] for name, array in arrays.items()}


def _digest(path: Path) -> str:
    """Return the SHA-256 of an ONNX file and its external data."""
    sha = hashlib.sha256()
    for each in sorted(path.parent.glob(f"{path.name}*")):
        sha.update(each.read_bytes() if each.stat().st_size < 2**28 else str(each.stat().st_size).encode())
    return sha.hexdigest()


def main(arguments: list[str]) -> int:
    """Optimise the model of a task file; the outcome is written whatever happens.

    It is also written before each engine, with its name: a compiler that crashes ends this process.
    """
    outcome: dict[str, Any] = {"error": None, "optimisations": [], "timings": []}

    def begin(engine: str) -> None:
        write_atomically(Path(arguments[1]), json.dumps({**outcome, "engine": engine}))

    try:
        task = OptimiseTask(**json.loads(Path(arguments[0]).read_text()))
        search = Search(task)
        best = search.run()
        outcome["optimisations"] = [each.entry(each is best) for each in search.tried]
        outcome["file"] = str(best.path)
        for entry, timings in engines(search, best.path, begin):
            outcome["optimisations"] += [entry] if entry is not None else []
            outcome["timings"] += timings
    except ModakError as error:
        outcome["error"] = str(error)
    except Exception as error:
        traceback.print_exc()
        outcome["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}"
    write_atomically(Path(arguments[1]), json.dumps(outcome, indent=1))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if outcome["error"] else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
