"""Whether an ensemble's one graph gives what its models give one by one, combined with NumPy."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.onnx.arrays import Array, Arrays
from modak_deploy.onnx.compare import compare
from modak_deploy.onnx.manifest import ENSEMBLE, Combination, Graph, ModelEntry, Validation
from modak_deploy.onnx.sessions import Session

SAMPLES = 16


def validate_ensemble(
    folder: Path,
    graph: Graph,
    entries: Sequence[ModelEntry],
    combination: Combination,
    samples: Mapping[str, Arrays],
) -> Validation:
    """Return how ``ensemble.onnx`` in the folder of a bundle compares with its models, on data of each of them."""
    taken = _taken_by(folder, entries)
    feed = _feed(graph, taken, samples)
    if feed is None:
        return Validation(status="skipped", reason="the models' test data do not fit the inputs of the ensemble")
    values = _traced(folder, entries, feed)
    expected: Arrays = {}
    actual: Arrays = {}
    for entry in entries:
        given = {spec.name: values[f"{entry.name}/{spec.name}"] for spec in entry.graph.inputs}
        own = Session(folder / entry.graph.file.path).run(given)
        for spec in entry.graph.outputs:
            expected[f"{entry.name}/{spec.name}"] = own[spec.name]
            actual[f"{entry.name}/{spec.name}"] = values[f"{entry.name}/{spec.name}"]
    combined = _combined(entries, combination, expected)
    names = [spec.name for spec in graph.outputs]
    for name, array in zip(names, combined, strict=False):
        expected[name], actual[name] = array, values[name]
    differences = compare(expected, actual)
    passed = all(difference.passed for difference in differences)
    reasons = "; ".join(f"'{d.name}': {d.problem}" for d in differences if d.problem)
    return Validation.model_validate(
        {
            "status": "passed" if passed else "failed",
            "method": "elementwise",
            "samples": len(next(iter(feed.values()))),
            "outputs": [difference.entry() for difference in differences],
            "reason": reasons or None,
        }
    )


def _load(folder: Path) -> Any:
    import onnx

    return onnx.load(folder / ENSEMBLE, load_external_data=False)


def _taken_by(folder: Path, entries: Sequence[ModelEntry]) -> dict[str, list[tuple[str, str]]]:
    """Return the models' inputs, as model and name, that each input of the ensemble is."""
    ours = {f"{entry.name}/{spec.name}": (entry.name, spec.name) for entry in entries for spec in entry.graph.inputs}
    taken_by: dict[str, list[tuple[str, str]]] = {}
    for node in _load(folder).graph.node:
        if node.op_type == "Identity" and node.output[0] in ours:
            taken_by.setdefault(node.input[0], []).append(ours[node.output[0]])
    return taken_by


def _feed(graph: Graph, taken: Mapping[str, Any], samples: Mapping[str, Arrays]) -> Arrays | None:
    feed: Arrays = {}
    for spec in graph.inputs:
        pairs = [pair for pair in taken.get(spec.name, []) if pair[1] in samples.get(pair[0], {})]
        if not pairs:
            return None
        model, name = pairs[0]
        fixed = spec.shape[0] if spec.shape and isinstance(spec.shape[0], int) else None
        feed[spec.name] = samples[model][name][: fixed or SAMPLES]
        if fixed is not None and len(feed[spec.name]) != fixed:
            return None
    free = [spec.name for spec in graph.inputs if spec.batch]
    least = min((len(feed[name]) for name in free), default=0)
    return feed | {name: feed[name][:least] for name in free}


def _traced(folder: Path, entries: Sequence[ModelEntry], feed: Arrays) -> Arrays:
    """Run the ensemble with all that goes into and comes out of its models as outputs."""
    import onnx

    model = _load(folder)
    present = {output.name for output in model.graph.output}
    for entry in entries:
        for spec in (*entry.graph.inputs, *entry.graph.outputs):
            if (name := f"{entry.name}/{spec.name}") not in present:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    # Beside the ensemble, where its external data are looked for.
    with tempfile.NamedTemporaryFile(dir=folder, prefix="trace-", suffix=".onnx") as file:
        file.write(model.SerializeToString())
        file.flush()
        return Session(Path(file.name)).run(feed)


def _combined(entries: Sequence[ModelEntry], combination: Combination, values: Arrays) -> list[Array]:
    """Return the first outputs of the ensemble by the rule."""
    meta = combination.meta
    base = [entry for entry in entries if entry.name != meta]
    last = next((entry for entry in entries if entry.name == meta), entries[-1])
    if combination.rule in ("pipeline", "stacking"):
        return [values[f"{last.name}/{spec.name}"] for spec in last.graph.outputs]
    members = [values[f"{e.name}/{combination.outputs.get(e.name, e.graph.outputs[0].name)}"] for e in base]
    weights = np.array([combination.weights.get(entry.name, 1.0) for entry in base])
    if combination.rule in ("mean", "weighted"):
        total = sum(w * m.astype(np.float64) for w, m in zip(weights / weights.sum(), members, strict=True))
        return [np.asarray(total).astype(np.result_type(*members))]
    labels = np.stack([_label(member) for member in members], axis=1)
    return [np.array([_vote(row, weights) for row in labels])]


def _label(member: Array) -> Array:
    is_score = member.dtype.kind == "f" and member.ndim == 2 and member.shape[1] > 1
    return np.asarray(member.argmax(axis=1) if is_score else member.reshape(-1)).astype(np.int64)


def _vote(row: Array, weights: Array) -> int:
    counts = {int(label): weights[row == label].sum() for label in row}
    most = max(counts.values())
    return min(label for label, count in counts.items() if count >= most * (1 - 1e-6))
