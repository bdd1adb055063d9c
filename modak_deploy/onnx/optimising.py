"""Which passes and engines are tried for a model, and what became of them."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from modak_deploy import __version__
from modak_deploy.engines.registry import get, is_installed, running_onnx
from modak_deploy.onnx.assemble import Converted
from modak_deploy.onnx.engines import OnnxRuntime
from modak_deploy.onnx.optimise import OptimiseTask
from modak_deploy.onnx.passes import INEXACT, PASSES
from modak_deploy.onnx.processes import Report, run_module
from modak_deploy.onnx.request import ConversionRequest

PORTABLE = ("simplify", "graph-basic", "graph-extended")
"""Passes that are tried unless others are named. What 'graph-all' writes runs on processors like this one alone: its
layouts are chosen by the width of the vector registers (ONNX Runtime, docs/performance/graph-optimizations)."""
_LONGEST = 300
"""Characters of a reason."""


def optimise_model(request: ConversionRequest, model: Converted, report: Report) -> None:
    """Search for a faster graph within the budget, in a process of its own; one that fails leaves the file as it is."""
    name = model.request.name
    if not (model.folder / "expected.npz").is_file():
        reason = "the original's outputs are not the same in every run, or were not compared"
        model.optimisations = [{"passes": [], "kept": False, "reason": f"not tried: {reason}"}]
        report(f"{name}: not optimised: {reason}")
        return
    folder = model.folder / "optimise"
    task = _task(request, model)
    key = hashlib.sha256(f"{__version__}\n{(model.folder / 'key').read_text()}\n{task.to_json()}".encode()).hexdigest()
    outcome = _finished(folder, key)
    if outcome is None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(model.folder / "passes", ignore_errors=True)
        folder.mkdir()
        (folder / "task.json").write_text(task.to_json())
        limit = 60 + 20 * request.optimise.budget
        ended = run_module(
            "modak_deploy.onnx.optimise",
            folder,
            python=None,
            timeout=limit,
            report=lambda line: report(f"{name}: {line}"),
        )
        outcome = _read(folder) or {"error": f"the process that optimises the model {ended or 'left no outcome'}"}
        if ended is not None and "engine" in outcome:
            reason = " ".join(f"the process {ended}".split())[:_LONGEST]
            outcome["optimisations"].append({"passes": [outcome["engine"]], "kept": False, "reason": reason})
            report(f"{name}: {outcome['engine']}: {reason}")
        elif outcome["error"] is None:
            (folder / "key").write_text(key)
    _take(model, outcome, report)


def _task(request: ConversionRequest, model: Converted) -> OptimiseTask:
    asked = request.optimise
    relaxed = request.numerics == "relaxed"
    passes = [p for p in PASSES if (p in asked.passes if asked.passes else p in PORTABLE or (relaxed and p in INEXACT))]
    engines = [
        name
        for name in running_onnx()
        if name != OnnxRuntime.name and (name in asked.passes or (not asked.passes and is_installed(get(name))))
    ]
    fixed = [len(next(iter(model.samples().values())))]
    return OptimiseTask(
        folder=str(model.folder),
        passes=passes,
        engines=engines,
        batches=asked.batches if model.request.batch else fixed,
        budget=asked.budget,
        accuracy_loss=asked.accuracy_loss,
        minimal_gain=asked.minimal_gain,
        longest=asked.longest,
        tolerance={name: [each.absolute, each.relative] for name, each in model.request.tolerance.items()},
        trials=asked.tuning_trials,
    )


def _finished(folder: Path, key: str) -> dict[str, Any] | None:
    try:
        return _read(folder) if (folder / "key").read_text() == key else None
    except OSError:
        return None


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        content = json.loads((folder / "outcome.json").read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _take(model: Converted, outcome: dict[str, Any], report: Report) -> None:
    name = model.request.name
    if outcome["error"] is not None:
        model.optimisations = [{"passes": [], "kept": False, "reason": str(outcome["error"])[:2000]}]
        report(f"{name}: not optimised: {outcome['error']}")
        return
    model.optimisations, model.timings = outcome["optimisations"], outcome["timings"]
    model.file = Path(outcome["file"])
    kept = next((entry for entry in model.optimisations if entry["kept"]), None)
    what = f"{' + '.join(kept['passes'])}: {kept['reason']}" if kept else "no pass made it faster"
    report(f"{name}: {what}")
