"""Tensors of the Open Inference Protocol v2, as NumPy's arrays and back; strict in what it takes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from modak_deploy.errors import InputError
from modak_deploy.onnx.manifest import DataType, Dimension, TensorSpec
from modak_deploy.onnx.runner import Array
from modak_deploy.terminal import excerpt

DATATYPES: dict[DataType, str] = {
    "bool": "BOOL",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "string": "BYTES",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
}
"""The protocol's name by the manifest's; it has none for bfloat16."""


def shape_of(shape: Sequence[Dimension]) -> list[int]:
    """Return a shape as the protocol has it: -1 for any size."""
    return [size if isinstance(size, int) else -1 for size in shape]


def array_of(spec: TensorSpec, datatype: str, shape: Sequence[int], data: Any) -> Array:
    """Return one input of a request; InputError where type, shape and data do not fit together."""
    where = f"input '{excerpt(spec.name, 80)}'"
    wanted = DATATYPES.get(spec.dtype)
    if datatype != wanted:
        raise InputError(f"{where}: has the datatype {excerpt(datatype, 20)}, the model takes {wanted}")
    if any(size < 0 for size in shape) or len(shape) > 64:
        raise InputError(f"{where}: the shape {excerpt(str(list(shape)), 80)} is not possible")
    values = _strings(where, data) if spec.dtype == "string" else _numbers(where, spec.dtype, data)
    if values.size != math.prod(shape):
        raise InputError(
            f"{where}: the shape {list(shape)} needs {math.prod(shape)} values, and there are {values.size}"
        )
    return values.reshape(list(shape))


def _strings(where: str, data: Any) -> Array:
    flat: list[str] = []
    pending = [data]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        elif isinstance(item, bytes | str):
            try:
                flat.append(item.decode() if isinstance(item, bytes) else item)
            except UnicodeDecodeError:
                raise InputError(f"{where}: text must be UTF-8") from None
        else:
            raise InputError(f"{where}: the data must be texts")
    return np.array(flat, dtype=object)


def _numbers(where: str, dtype: str, data: Any) -> Array:
    wanted = np.dtype(dtype)
    try:
        # Without a type first: numpy reads the text "1.5" as a number, and counts True as 1.
        given = np.asarray(data)
    except (ValueError, OverflowError, RecursionError):
        raise InputError(f"{where}: the data are not rows of equal length") from None
    permitted = {"f": "fiu", "b": "b"}.get(wanted.kind, "iu")
    if given.size == 0 and given.dtype.kind == "f":
        return given.astype(wanted)
    if given.dtype.kind not in permitted:
        raise InputError(f"{where}: the data must be {'true or false' if permitted == 'b' else 'numbers'} for {dtype}")
    if permitted == "iu" and given.size:
        limits = np.iinfo(wanted)
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            raise InputError(f"{where}: a number is beyond {dtype}")
    with np.errstate(over="ignore"):
        values = given.astype(wanted)
    if permitted == "fiu" and bool((np.isinf(values) & np.isfinite(given)).any()):
        raise InputError(f"{where}: a number is beyond {dtype}")
    return values
