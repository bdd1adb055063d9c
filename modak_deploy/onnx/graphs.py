"""ONNX graphs as data: what a file takes and gives, which files it refers to, and what it must not contain.

``onnx`` is imported when it is used: reading a manifest does not need it.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modak_deploy.errors import InputError
from modak_deploy.onnx.manifest import DataType, TensorSpec, check_path
from modak_deploy.terminal import excerpt

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

INSTALL = "pip install 'modak-deploy[onnx]'"
# Operators that load files or code named in an attribute when the session is made. EPContext (ONNX Runtime,
# docs/execution-providers/EP-Context-Design.md): ep_cache_context with embed_mode=0 is a path that the provider opens,
# and a TensorRT engine is machine code in both modes. PyOp, PythonOp: run Python code by its name.
_REFUSED = frozenset({"EPContext", "PyOp", "PythonOp", "PythonOpGrad"})
_DTYPES: dict[str, DataType] = {
    "BOOL": "bool",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "STRING": "string",
}


def require_onnx() -> Any:
    """Return the package onnx; InputError with the command that installs it where it is absent."""
    try:
        import onnx
    except ImportError:
        raise InputError(f"the Python package 'onnx' is required; {INSTALL}") from None
    return onnx


def parse_graph(data: bytes, origin: str) -> "ModelProto":
    """Return an ONNX file's content, its external data unread; InputError where it is none or refers to other code."""
    onnx = require_onnx()
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RecursionError):  # protobuf itself allows 100 levels
        raise InputError(f"{origin}: not an ONNX file") from None
    if not model.HasField("graph") or not model.opset_import:
        raise InputError(f"{origin}: not an ONNX file: it has no graph or no operator set")
    for message in messages(model):
        if message.DESCRIPTOR.name == "NodeProto" and message.op_type in _REFUSED:
            raise InputError(
                f"{origin}: the operator {excerpt(message.op_type)} (node '{excerpt(message.name, 80)}') loads code "
                "and is not supported in a bundle"
            )
    return model  # type: ignore[no-any-return]


def messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all within it: graphs of If, Loop and Scan, functions, training information."""
    pending = [message]
    while pending:
        current = pending.pop()
        yield current
        for field, value in current.ListFields():
            if field.message_type is not None:
                # A single message has no length of its own; protobuf 7 has neither LABEL_REPEATED nor maps in ONNX.
                pending.extend(value if hasattr(value, "__len__") else (value,))


def tensors(model: "ModelProto") -> Iterator["TensorProto"]:
    """Yield every tensor of a model, wherever it is."""
    return (message for message in messages(model) if message.DESCRIPTOR.name == "TensorProto")


def external_files(model: "ModelProto", origin: str) -> dict[str, int]:
    """Return the files of external data, relative to the model's folder, with the least size that each must have.

    InputError for a path that is absolute or leaves the folder, which older versions of onnx open (CVE-2022-25882,
    CVE-2024-27318), and for offsets that are no numbers.
    """
    sizes: dict[str, int] = {}
    for tensor in tensors(model):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_location != tensor.EXTERNAL and not entries:
            continue
        where = f"{origin}: tensor '{excerpt(tensor.name, 80)}'"
        try:
            location = check_path(entries.get("location", ""))
        except ValueError as error:
            raise InputError(f"{where}: external data: {error}") from None
        offset, length = (_bytes(entries.get(key, "0"), where) for key in ("offset", "length"))
        sizes[location] = max(sizes.get(location, 0), offset + length)
    return sizes


def _bytes(text: str, where: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InputError(f"{where}: external data: {excerpt(text, 40)!r} is not a number of bytes")
    return int(text)


def opsets(model: "ModelProto", origin: str) -> dict[str, int]:
    """Return the versions of the operator sets by domain; the default domain is ``ai.onnx``."""
    by_domain: dict[str, int] = {}
    for entry in model.opset_import:
        domain = entry.domain or "ai.onnx"
        if by_domain.setdefault(domain, entry.version) != entry.version:
            raise InputError(f"{origin}: the operator set '{excerpt(domain, 80)}' is imported in two versions")
    return by_domain


def inputs_of(model: "ModelProto", origin: str) -> list[TensorSpec]:
    """Return what a caller must give; initialisers that older files list as inputs are none."""
    given = {tensor.name for tensor in model.graph.initializer}
    return [_spec(value, origin) for value in model.graph.input if value.name not in given]


def outputs_of(model: "ModelProto", origin: str) -> list[TensorSpec]:
    """Return what the graph gives."""
    return [_spec(value, origin) for value in model.graph.output]


def _spec(value: "ValueInfoProto", origin: str) -> TensorSpec:
    onnx = require_onnx()
    where = f"{origin}: '{excerpt(value.name, 80)}'"
    if value.type.WhichOneof("value") != "tensor_type":
        raise InputError(f"{where}: is a map, a sequence or optional; only tensors are supported (zipmap=False)")
    tensor = value.type.tensor_type
    # Not TensorProto.DataType.Name: it raises ValueError for a number of a later version.
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    dtype = _DTYPES.get(names.get(tensor.elem_type, ""))
    if dtype is None:
        raise InputError(f"{where}: the data type {names.get(tensor.elem_type, tensor.elem_type)} is not supported")
    # No shape at all is any rank, which no batch can be cut from.
    if not tensor.HasField("shape"):
        raise InputError(f"{where}: has no shape; give the number of dimensions when exporting")
    shape: list[int | str | None] = []
    for size in tensor.shape.dim:
        kind = size.WhichOneof("value")
        if kind == "dim_value":
            # Exporters of TensorFlow write -1 for an unknown size.
            shape.append(size.dim_value if size.dim_value >= 0 else None)
        else:
            shape.append(size.dim_param or None if kind == "dim_param" else None)
    return TensorSpec(name=value.name, dtype=dtype, shape=shape)
