"""The bundle of all converted models: their files, what was found out about them, and the one graph of the ensemble."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modak_deploy import __version__
from modak_deploy.engines.registry import distribution_of, get
from modak_deploy.errors import InputError
from modak_deploy.launch.hardware import cores
from modak_deploy.onnx.arrays import Arrays, read_arrays
from modak_deploy.onnx.bundle import copy_into, describe_graph
from modak_deploy.onnx.combine import write_ensemble
from modak_deploy.onnx.ensembles import validate_ensemble
from modak_deploy.onnx.hardware import this_machine
from modak_deploy.onnx.manifest import Combination, Manifest, ModelEntry, Optimisation, Origin, Timing, Validation
from modak_deploy.onnx.packages import versions
from modak_deploy.onnx.processes import Report
from modak_deploy.onnx.request import ConversionRequest, ModelRequest
from modak_deploy.onnx.task import Outcome


@dataclass
class Converted:
    """One model and the folder of its files."""

    request: ModelRequest
    folder: Path
    outcome: Outcome
    file: Path | None = None
    """The optimised file; the converted one when absent."""
    optimisations: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The ONNX file that the bundle gets."""
        return self.file or self.folder / "model.onnx"

    def samples(self) -> Arrays:
        """Return some of the test data."""
        return read_arrays(self.folder / "samples.npz")


def fill(folder: Path, request: ConversionRequest, models: Sequence[Converted], report: Report) -> Manifest:
    """Put the files of all models into the folder of a bundle; return its manifest."""
    for model in models:
        report(f"{model.request.name}: {model.outcome.exporter}, {_checked(model.outcome)}")
    entries = [_entry(folder, model) for model in models]
    combination = request.combine or Combination(rule="single")
    manifest = Manifest(
        name=request.name,
        models=entries,
        combination=combination,
        target=request.target.name if request.target else request.engine,
        licence=request.licence,
        made_by=f"modak {__version__}",
    )
    graph = write_ensemble(folder, entries, combination)
    if graph is None:
        return manifest
    stochastic = next((model.request.name for model in models if model.request.stochastic), None)
    if stochastic is not None:
        reason = f"the model '{stochastic}' is stochastic, and each of its runs gives other values"
        validation = Validation(status="skipped", reason=reason)
    else:
        samples = {model.request.name: model.samples() for model in models}
        validation = validate_ensemble(folder, graph, entries, combination, samples)
    if validation.status == "failed":
        raise InputError(f"the ensemble is not what its models give one by one: {validation.reason}")
    report(f"ensemble: {combination.rule}, {validation.reason or f'equal on {validation.samples} samples'}")
    return manifest.model_copy(update={"ensemble": graph, "ensemble_validation": validation})


def _entry(folder: Path, model: Converted) -> ModelEntry:
    task, where = model.request, f"models/{model.request.name}"
    path = model.path
    copy_into(folder, {f"{where}/{each.name}": each for each in sorted(path.parent.glob(f"{path.name}*"))})
    return ModelEntry(
        name=task.name,
        graph=describe_graph(folder, f"{where}/model.onnx"),
        origin=Origin(
            framework=task.framework,
            source=task.file or task.class_ or "",
            sha256=_sha256(model),
            exporter=model.outcome.exporter,
            software=model.outcome.software,
        ),
        licence=task.licence,
        validation=Validation.model_validate(model.outcome.validation),
        timings=[timing(entry, model) for entry in (*model.outcome.timings, *model.timings)],
        optimisations=[Optimisation.model_validate(entry) for entry in model.optimisations],
    )


def _sha256(model: Converted) -> str | None:
    """Return the digest of the model's own file or folder."""
    task = json.loads((model.folder / "task.json").read_text())
    return task["digests"].get(task["file"]) if task["file"] else None


def timing(entry: dict[str, Any], model: Converted) -> Timing:
    """Return the manifest's entry of a timing."""
    engine = entry.get("engine", model.request.framework)
    software = model.outcome.software if engine == model.request.framework else versions((distribution_of(engine),))
    return Timing.model_validate(
        {
            **{key: value for key, value in entry.items() if key not in ("seconds", "loading")},
            "engine": engine,
            "provider": get(engine).provider,
            "threads": cores(),
            "hardware": this_machine(),
            "software": software,
        }
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
