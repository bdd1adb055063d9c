"""The ONNX file that a converter wrote: made the same for the same model, checked, and split from its weights."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from modak_deploy.errors import InputError

WEIGHTS = "model.onnx.data"
"""Name of the external data."""
_SMALL = 1024
"""Bytes of a tensor that stays in the ONNX file."""


def rename_outputs(model: Any, names: Sequence[str]) -> None:
    """Give the outputs of a graph these names, in their order."""
    if len(model.graph.output) != len(names):
        raise InputError(f"the converted model has {len(model.graph.output)} outputs, the original {len(names)}")
    taken = _names(model)
    for output, name in zip(model.graph.output, names, strict=True):
        if output.name == name:
            continue
        if name in taken:
            _rename(model, name, _free(f"{name}_value", taken))
        _rename(model, output.name, name)
        taken.add(name)


def rename_inputs(model: Any, names: Sequence[str]) -> None:
    """Give the inputs of a graph these names, in their order."""
    inputs = real_inputs(model)
    if len(inputs) != len(names):
        raise InputError(f"the converted model has {len(inputs)} inputs, the original {len(names)}")
    taken = _names(model)
    for value, name in zip(inputs, names, strict=True):
        if value.name != name:
            if name in taken:
                _rename(model, name, _free(f"{name}_value", taken))
            _rename(model, value.name, name)
            taken.add(name)


def real_inputs(model: Any) -> list[Any]:
    """Return the inputs that are no initialisers."""
    given = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _names(model: Any) -> set[str]:
    graph = model.graph
    names = {value.name for values in (graph.input, graph.output, graph.initializer) for value in values}
    return names | {name for node in graph.node for name in (*node.input, *node.output)}


def _rename(model: Any, old: str, new: str) -> None:
    for graph in _graphs(model.graph):
        for node in graph.node:
            for names in (node.input, node.output):
                for index, name in enumerate(names):
                    if name == old:
                        names[index] = new
        for values in (graph.input, graph.output, graph.value_info, graph.initializer):
            for value in values:
                if value.name == old:
                    value.name = new


def _graphs(graph: Any) -> Iterable[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def normalise(path: Path, name: str, *, batch: bool, inputs: Sequence[str], outputs: Sequence[str], limit: int) -> int:
    """Rewrite a converter's file: checked, without times, paths and stack traces in it; return its opset.

    Weights of more than ``limit`` bytes go into a file of external data beside it.
    """
    import onnx

    model = onnx.load(path)
    for stale in _data_files(path):
        stale.unlink()
    if unknown := unknown_operators(model):
        raise InputError(
            f"the converted model has operators that are not in ONNX: {', '.join(unknown[:5])}; "
            "a custom operator has no counterpart on other machines: express it by operators of the framework"
        )
    rename_inputs(model, inputs)
    rename_outputs(model, outputs)
    _clean(model, name)
    if batch:
        _free_batch(model)
    _lower_ir(model)
    _save(model, path, limit)
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # ValidationError, and C++ exceptions of shape inference
        raise InputError(f"the converted model is not valid ONNX: {' '.join(str(error).split())[:500]}") from None
    return max((int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def unknown_operators(model: Any) -> list[str]:
    """Return the operators that ONNX has not, each with the name of its node; functions of the model are known."""
    import onnx

    versions = {entry.domain or "": entry.version for entry in model.opset_import}
    functions = {(function.domain, function.name) for function in model.functions}
    missing: dict[str, str] = {}
    for graph in _graphs(model.graph):
        for node in graph.node:
            domain = "" if node.domain == "ai.onnx" else node.domain
            if (node.domain, node.op_type) in functions or domain.startswith("com.microsoft"):
                continue
            try:
                exists = onnx.defs.has(node.op_type, versions.get(domain, 1), domain)
            except onnx.defs.SchemaError:
                exists = False
            if not exists:
                missing.setdefault(f"{domain}::{node.op_type}" if domain else node.op_type, node.name)
    return [f"{operator} (node '{name}')" for operator, name in missing.items()]


def _data_files(path: Path) -> list[Path]:
    return [each for each in path.parent.glob(f"{path.name}*") if each != path and each.is_file()]


def _clean(model: Any, name: str) -> None:
    """Remove what differs between two conversions of the same model: stack traces and paths, random graph names."""
    for field in ("doc_string", "producer_version", "domain"):
        model.ClearField(field)
    model.ClearField("metadata_props")
    for graph in (*_graphs(model.graph), *model.functions):
        graph.ClearField("doc_string")
        graph.ClearField("metadata_props")
        for node in graph.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        value.ClearField("doc_string")
        value.ClearField("metadata_props")
    model.graph.name = name


def _free_batch(model: Any) -> None:
    """Name the first axis of inputs and outputs 'batch' where the converter left it without a number."""
    for value in (*real_inputs(model), *model.graph.output):
        sizes = value.type.tensor_type.shape.dim
        if len(sizes) and not sizes[0].HasField("dim_value"):
            sizes[0].dim_param = "batch"


def _lower_ir(model: Any) -> None:
    """Lower the IR version to the first that has these operator sets: older runtimes read it, too."""
    from onnx import helper

    least = helper.find_min_ir_version_for(list(model.opset_import), True)
    least = max(least, 8)
    if model.ir_version > least and not any(tensor.data_type > 16 for tensor in model.graph.initializer):
        model.ir_version = least


def _save(model: Any, path: Path, limit: int) -> None:
    import onnx

    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size <= limit and model.ByteSize() < 2**31:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return
    onnx.save_model(
        model,
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=WEIGHTS,
        size_threshold=_SMALL,
    )
