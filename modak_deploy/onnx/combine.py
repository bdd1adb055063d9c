"""An ensemble as one ONNX graph: all models and the rule that combines them, so that it is one session.

Names are made unique by the model's name, operator sets are brought to one version, initialisers that are equal are
kept once, and external data stay where they are: ``ensemble.onnx`` refers to the models' own files.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from modak_deploy.errors import InputError
from modak_deploy.onnx.bundle import describe_graph
from modak_deploy.onnx.graphs import inputs_of, messages, opsets, outputs_of, parse_graph, require_onnx, tensors
from modak_deploy.onnx.manifest import ENSEMBLE, Combination, Graph, ModelEntry, TensorSpec
from modak_deploy.onnx.rules import Tail
from modak_deploy.onnx.sharing import Inputs

if TYPE_CHECKING:
    from onnx import ModelProto

ENSEMBLE_DATA = "ensemble.data"
LARGEST_INLINE = 1536 * 1024**2
"""Bytes of an ONNX file above which initialisers go into external data; protobuf ends at 2 GiB."""
_SMALL = 1024
"""Bytes of an initialiser that stays in the ONNX file: shapes and axes, from which ONNX Runtime infers shapes."""
_PAGE = 4096
"""External data begin at a page, so that they can be mapped into memory."""
_LEAST_OPSET = 13
"""From 13 on, Squeeze and Unsqueeze take their axes as an input, which the rules use."""
_LAST_COMPATIBLE_ML = 3
"""ai.onnx.ml 1 to 3 only add attributes and types; 4 changes LabelEncoder, 5 replaces the tree operators."""


@dataclass
class Part:
    """One model, with names of its own."""

    name: str
    model: "ModelProto"
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]

    def output(self, name: str | None, rule: str) -> TensorSpec:
        """Return the output that is combined: the named one, or the only one."""
        if name is None and len(self.outputs) > 1:
            names = ", ".join(f"'{tensor.name}'" for tensor in self.outputs)
            raise InputError(f"combination.outputs.{self.name}: is required: '{rule}' needs one output of {names}")
        return next(tensor for tensor in self.outputs if name in (None, tensor.name))

    def inner(self, name: str) -> str:
        """Return the name of a tensor of this model within the ensemble."""
        return f"{self.name}/{name}"


def combine(models: dict[str, "ModelProto"], combination: Combination, origin: str = "ensemble") -> "ModelProto":
    """Return one model that gives what the rule says; InputError where the models do not fit together."""
    onnx = require_onnx()
    if combination.rule == "single":
        return next(iter(models.values()))
    models = align_opsets(models)
    parts = [
        Part(name, model, inputs_of(model, f"{origin}: {name}"), outputs_of(model, f"{origin}: {name}"))
        for name, model in models.items()
    ]
    graph = onnx.GraphProto(name="ensemble")
    merged = onnx.ModelProto(graph=graph, ir_version=max(part.model.ir_version for part in parts))
    merged.producer_name = "modak"
    inputs, tail = Inputs(combination), Tail(combination)
    for part in parts:
        _append(merged, part)
    tail.connect(parts, inputs)
    merged.graph.node.extend(inputs.nodes)
    merged.graph.node.extend(tail.nodes)
    merged.graph.initializer.extend(tail.initialisers)
    merged.graph.input.extend(inputs.declared())
    merged.graph.output.extend(tail.outputs)
    merged.opset_import.extend(_common_opsets(models))
    _check_names(merged.graph, origin)
    _sort(merged.graph, origin)
    _share_initialisers(merged)
    return merged  # type: ignore[no-any-return]


def write_ensemble(
    folder: Path, models: Sequence[ModelEntry], combination: Combination, *, inline: int = LARGEST_INLINE
) -> Graph | None:
    """Write the ensemble's graph into the folder of a bundle that is being made; None for a single model."""
    if combination.rule == "single":
        return None
    merged = combine(load_models(folder, models), combination, str(folder / ENSEMBLE))
    if inline_bytes(merged) > inline:
        _move_out(merged, folder / ENSEMBLE_DATA)
    (folder / ENSEMBLE).write_bytes(merged.SerializeToString(deterministic=True))
    require_onnx().checker.check_model(str(folder / ENSEMBLE))
    return describe_graph(folder, ENSEMBLE)


def inline_bytes(model: "ModelProto") -> int:
    """Return the bytes of the initialisers in the graph itself.

    Not ByteSize(), for which protobuf may have to encode the model: it cannot from 2 GiB on.
    """
    return sum(len(tensor.raw_data) or _packed_bytes(tensor) for tensor in model.graph.initializer)


def _packed_bytes(tensor: Any) -> int:
    return 8 * (len(tensor.float_data) + len(tensor.int32_data) + len(tensor.int64_data) + len(tensor.double_data))


def load_models(folder: Path, models: Sequence[ModelEntry]) -> dict[str, "ModelProto"]:
    """Return the models with their external data as paths from ``folder``, which are not read."""
    loaded = {}
    for entry in models:
        path = entry.graph.file.path
        model = parse_graph((folder / path).read_bytes(), str(folder / path))
        relocate(model, str(PurePosixPath(path).parent))
        loaded[entry.name] = model
    return loaded


def relocate(model: "ModelProto", folder: str) -> None:
    """Let external data be looked for in ``folder``, which is relative to where the new file lies."""
    for tensor in tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = f"{folder}/{entry.value}"


def align_opsets(models: dict[str, "ModelProto"]) -> dict[str, "ModelProto"]:
    """Return the models with one version of the default operator set: the highest."""
    onnx = require_onnx()
    versions = {name: opsets(model, name).get("ai.onnx", 1) for name, model in models.items()}
    # A model of ai.onnx.ml alone has no version of the default set, or an old one that it does not use.
    highest = max(_LEAST_OPSET, *versions.values())
    aligned = {}
    for name, model in models.items():
        if versions[name] != highest and _uses_default(model):
            try:
                model = onnx.version_converter.convert_version(model, highest)
            except (RuntimeError, ValueError, TypeError) as error:
                raise InputError(
                    f"model '{name}': cannot be brought from opset {versions[name]} to {highest}: "
                    f"{str(error).strip().splitlines()[0][:200]}; convert all models with one opset"
                ) from None
        aligned[name] = model
    return aligned


def _uses_default(model: "ModelProto") -> bool:
    return any(
        message.DESCRIPTOR.name == "NodeProto" and message.domain in ("", "ai.onnx") for message in messages(model)
    )


def _common_opsets(models: dict[str, "ModelProto"]) -> list[Any]:
    """Return the operator sets of the ensemble; InputError where models need different versions of one."""
    onnx = require_onnx()
    models_by_domain: dict[str, dict[str, int]] = {}
    for name, model in models.items():
        for domain, version in opsets(model, name).items():
            models_by_domain.setdefault(domain, {})[name] = version
    versions = {"ai.onnx": _LEAST_OPSET}
    for domain, by_model in models_by_domain.items():
        different = sorted(set(by_model.values()))
        compatible = domain == "ai.onnx" or (domain == "ai.onnx.ml" and different[-1] <= _LAST_COMPATIBLE_ML)
        if len(different) > 1 and not compatible:
            what = ", ".join(f"{name}: {version}" for name, version in by_model.items())
            raise InputError(f"the models need different versions of the operator set '{domain}' ({what})")
        versions[domain] = max(different[-1], versions.get(domain, 0))
    return [onnx.helper.make_opsetid("" if d == "ai.onnx" else d, v) for d, v in sorted(versions.items())]


def _append(merged: "ModelProto", part: Part) -> None:
    """Add a model's nodes, initialisers and functions, with the model's name before all their names."""
    model = type(part.model)()
    model.CopyFrom(part.model)
    add_prefix(model, f"{part.name}/")
    merged.graph.node.extend(model.graph.node)
    merged.graph.initializer.extend(model.graph.initializer)
    merged.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    merged.functions.extend(model.functions)


def add_prefix(model: "ModelProto", prefix: str) -> None:
    """Put ``prefix`` before the names of all tensors, nodes and functions, in subgraphs too.

    Not onnx.compose.add_prefix: in onnx 1.23 a subgraph's references to initialisers of the graph around it keep their
    names, and the result has tensors that nothing gives.
    """
    functions = {(function.domain, function.name) for function in model.functions}
    within = {id(message) for function in model.functions for message in messages(function)}
    for function in model.functions:
        for message in messages(function):
            if message.DESCRIPTOR.name == "NodeProto" and (message.domain, message.op_type) in functions:
                message.op_type = prefix + message.op_type
        function.name = prefix + function.name
    for graph in (message for message in messages(model) if message.DESCRIPTOR.name == "GraphProto"):
        if id(graph) not in within:  # what a function names is its own
            _prefix_graph(graph, prefix, functions)


def _prefix_graph(graph: Any, prefix: str, functions: set[tuple[str, str]]) -> None:
    """Put ``prefix`` before the names of one graph, and not of those within it."""
    # Symbols such as 'unk__12' mean another size in each model, and ONNX Runtime infers the shapes again.
    del graph.value_info[:]
    del graph.quantization_annotation[:]
    sparse = [tensor.values for tensor in graph.sparse_initializer]
    for tensor in (*graph.input, *graph.output, *graph.initializer, *sparse):
        tensor.name = prefix + tensor.name
    for node in graph.node:
        node.name = prefix + node.name if node.name else ""
        for names in (node.input, node.output):
            names[:] = [prefix + name if name else "" for name in names]
        if (node.domain, node.op_type) in functions:
            node.op_type = prefix + node.op_type


def _check_names(graph: Any, origin: str) -> None:
    """Refuse names of the user's that the models' tensors have: a graph gives each tensor once."""
    seen: set[str] = set()
    for name in (*(tensor.name for tensor in (*graph.input, *graph.initializer)), *_made(graph)):
        if name and name in seen:
            raise InputError(f"{origin}: two tensors are named '{name[:100]}'; use another name in combination.inputs")
        seen.add(name)


def _made(graph: Any) -> Iterator[str]:
    return (name for node in graph.node for name in node.output)


def _sort(graph: Any, origin: str) -> None:
    """Put the nodes into an order in which each comes after those that it needs."""
    made = {tensor.name for tensor in (*graph.input, *graph.initializer)}
    made |= {tensor.values.name for tensor in graph.sparse_initializer} | {""}
    pending, done = list(graph.node), []
    while pending:
        ready, later = [], []
        for node in pending:
            # One pass for what is sorted already, as each model's own nodes are.
            if needed(node) <= made:
                ready.append(node)
                made.update(node.output)
            else:
                later.append(node)
        if not ready:
            missing = sorted(needed(later[0]) - made)[0]
            raise InputError(f"{origin}: the tensor '{missing[:100]}' is used and nothing gives it")
        done += ready
        pending = later
    del graph.node[:]
    graph.node.extend(done)


def needed(node: Any) -> set[str]:
    """Return the tensors of the graph that a node needs, those used in its subgraphs included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {tensor.name for tensor in (*graph.input, *graph.initializer)}
            own |= {name for inner in graph.node for name in inner.output}
            for inner in graph.node:
                names |= needed(inner) - own
            names |= {tensor.name for tensor in graph.output if graph.node or graph.initializer} - own
    return names


@dataclass
class _Kept:
    """Initialisers by content, and the names that others of the same content are replaced by."""

    by_content: dict[bytes, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)


def _share_initialisers(model: "ModelProto") -> None:
    """Keep one of all initialisers with the same type, shape and content."""
    kept, outputs = _Kept(), {tensor.name for tensor in model.graph.output}
    remaining = []
    for tensor in model.graph.initializer:
        name = tensor.name
        tensor.name = ""
        content = hashlib.sha256(tensor.SerializeToString(deterministic=True)).digest()
        tensor.name = name
        first = kept.by_content.setdefault(content, name)
        if first == name or name in outputs:
            remaining.append(tensor)
        else:
            kept.renamed[name] = first
    if not kept.renamed:
        return
    remaining = [_copy(tensor) for tensor in remaining]
    del model.graph.initializer[:]
    model.graph.initializer.extend(remaining)
    for message in messages(model.graph):
        if message.DESCRIPTOR.name == "NodeProto":
            for at, name in enumerate(message.input):
                message.input[at] = kept.renamed.get(name, name)


def _copy(tensor: Any) -> Any:
    copied = type(tensor)()
    copied.CopyFrom(tensor)
    return copied


def _move_out(model: "ModelProto", path: Path) -> None:
    """Move initialisers into external data, one after the other, each at the beginning of a page."""
    onnx = require_onnx()
    with path.open("wb") as file:
        for tensor in model.graph.initializer:
            if tensor.data_location == tensor.EXTERNAL or tensor.data_type == onnx.TensorProto.STRING:
                continue
            if not tensor.HasField("raw_data"):
                _make_raw(tensor)
            if len(tensor.raw_data) < _SMALL:
                continue
            file.seek(-(-file.tell() // _PAGE) * _PAGE)
            offset, data = file.tell(), tensor.raw_data
            file.write(data)
            tensor.ClearField("raw_data")
            tensor.data_location = tensor.EXTERNAL
            for key, value in (("location", path.name), ("offset", offset), ("length", len(data))):
                tensor.external_data.add(key=key, value=str(value))


def _make_raw(tensor: Any) -> None:
    onnx = require_onnx()
    raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
    tensor.CopyFrom(raw)
