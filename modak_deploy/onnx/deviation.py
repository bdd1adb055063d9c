"""Which operator is the first whose result differs between the original and the converted model.

Converters rename, fuse, split and transpose, so that values are matched by what they hold: two arrays are the same
where their sorted elements are close. An operator of the ONNX graph is in order where its result, or that of an
operator after it, is one of the original's; the first that is not is where the models part.
"""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modak_deploy.onnx.arrays import Array, Arrays
from modak_deploy.onnx.compare import tolerance_of
from modak_deploy.onnx.frameworks.base import Original, Value
from modak_deploy.onnx.sessions import Session

MOST_BYTES = 512 * 1024**2
"""Of intermediate results that are kept of one model."""


@dataclass(frozen=True)
class _Node:
    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.operator} '{self.name or self.outputs[0]}'"


def first_deviation(original: Original, path: Path, inputs: Arrays) -> str | None:
    """Return a sentence on the first operator of the file that deviates; None where nothing can be said."""
    try:
        reference = _limited(original.trace(inputs))
    except Exception as error:  # whatever the framework raises: the comparison has failed already
        return f"the original's operators cannot be traced: {type(error).__name__}: {str(error)[:200]}"
    if not reference:
        return None
    return describe_deviation(reference, path, inputs)


def deviation_of_files(reference: Path, path: Path, inputs: Arrays) -> str | None:
    """Return a sentence on the first operator of ``path`` that deviates from the ONNX file ``reference``."""
    nodes, values = trace_file(reference, inputs)
    traced = [Value(name, node.operator, values[name]) for node in nodes for name in node.outputs if name in values]
    return describe_deviation(traced, path, inputs)


def describe_deviation(reference: Sequence[Value], path: Path, inputs: Arrays) -> str | None:
    """Return a sentence on the first operator of the file without a counterpart in ``reference``."""
    nodes, values = trace_file(path, inputs)
    index = _Index([*reference, *(Value(name, "input", array) for name, array in inputs.items())])
    matched = {name: position for name, array in values.items() if (position := index.find(array)) is not None}
    explained = _explained(nodes, set(matched))
    dynamic = _dependent(nodes, set(inputs))
    candidates = [
        node
        for node in nodes
        if not explained & set(node.outputs)
        and dynamic & set(node.outputs)
        and any(name in values for name in node.outputs)
    ]
    floats = [node for node in candidates if any(values[n].dtype.kind == "f" for n in node.outputs if n in values)]
    if not (floats or candidates):
        return None
    first = (floats or candidates)[0]
    source = _counterpart(first, nodes, matched, reference)
    return f"{first}" + (f", converted from {source}" if source is not None else "")


def trace_file(path: Path, inputs: Arrays) -> tuple[list[_Node], Arrays]:
    """Return the operators of an ONNX file in their order, and what each of them gives, without optimisation."""
    import onnx

    model = onnx.load(path)
    nodes = [
        _Node(node.op_type, node.name, tuple(filter(None, node.input)), tuple(filter(None, node.output)))
        for node in model.graph.node
    ]
    present = {output.name for output in model.graph.output}
    for node in nodes:
        for name in node.outputs:
            if name not in present:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
                present.add(name)
    with tempfile.TemporaryDirectory(prefix="modak-trace-") as folder:
        file = Path(folder) / "trace.onnx"
        large = model.ByteSize() >= 2**31 - 1
        onnx.save_model(model, file, save_as_external_data=large, location="weights" if large else None)
        values = Session(file, optimise=False).run(inputs)
    return nodes, {name: array for name, array in values.items() if isinstance(array, np.ndarray)}


class _Index:
    """Values by their number of elements."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._by_size: dict[int, list[tuple[int, Array]]] = {}
        for position, value in enumerate(values):
            if (flat := _sorted(value.array)) is not None:
                self._by_size.setdefault(flat.size, []).append((position, flat))

    def find(self, array: Array) -> int | None:
        """Return the place of a value with the same elements."""
        flat = _sorted(array)
        if flat is None or not flat.size:
            return None
        absolute, relative = tolerance_of(array.dtype.name)
        for position, other in self._by_size.get(flat.size, []):
            # Sums in another order: the tolerance of a whole tensor is that of its largest element.
            limit = max(absolute, 1e-6) + max(relative, 1e-4) * np.abs(other)
            if bool((np.abs(flat - other) <= limit).all()):
                return position
        return None


def _sorted(array: Array) -> Array | None:
    if array.dtype.kind not in "fiub":
        return None
    flat = np.nan_to_num(array.reshape(-1).astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    return np.sort(flat)


def _limited(values: Iterable[Value]) -> list[Value]:
    kept: list[Value] = []
    size = 0
    for value in values:
        size += value.array.nbytes
        if size > MOST_BYTES:
            break
        kept.append(Value(value.name, value.operator, value.array.copy()))
    return kept


def _explained(nodes: Sequence[_Node], matched: set[str]) -> set[str]:
    """Return the values that are matched, and those from which only matched ones come."""
    explained = set(matched)
    for node in reversed(nodes):
        if explained & set(node.outputs):
            explained |= set(node.inputs)
    return explained


def _dependent(nodes: Sequence[_Node], inputs: set[str]) -> set[str]:
    """Return the values that depend on the inputs."""
    dependent = set(inputs)
    for node in nodes:
        if dependent & set(node.inputs):
            dependent |= set(node.outputs)
    return dependent


def _counterpart(
    first: _Node, nodes: Sequence[_Node], matched: dict[str, int], reference: Sequence[Value]
) -> Value | None:
    """Return the original operator after the last one whose result went into ``first``."""
    producer = {name: node for node in nodes for name in node.outputs}
    pending, seen, last = list(first.inputs), set(), -1
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in matched:
            position = matched[name]
            last = max(last, position if position < len(reference) else -1)
        elif name in producer:
            pending += producer[name].inputs
    return reference[last + 1] if last + 1 < len(reference) else None


def summary(entry: Any) -> str:
    """Return one output's difference as text."""
    parts = [f"output '{entry['name']}'"]
    if entry.get("max_absolute") is not None:
        parts.append(f"differs by {entry['max_absolute']:.3g} at most")
    if entry.get("p_value") is not None:
        parts.append(f"p = {entry['p_value']:.3g}, power {entry['power']:.2f}")
    return ": ".join([parts[0], ", ".join(parts[1:])]) if len(parts) > 1 else parts[0]
