"""What a run of a session consists of, by ONNX Runtime's own profile of one run in a second, plain session.

The profile has the shapes of each node's inputs and outputs, weights included (since ONNX Runtime 1.11).
"""

import json
import math
import os
import shutil
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ...files import open_file
from ..operations import Tally
from .nodes import draws
from .sessions import Sessions, Source

LIMIT = 256 << 20
"""Bytes of a profile that are read at most."""
Shapes = List[Tuple[int, ...]]


def features(
    sessions: Sessions, source: Source, options: Any, names: Optional[Sequence[str]], feed: Mapping[str, Any]
) -> Dict[str, Any]:
    """Return what a model of performance may want to know about a run.

    The options are changed. It takes a session's loading and a run, and their memory. A model that draws random numbers
    is left alone: ONNX Runtime has one generator in a process, and the program's own draws would be others.
    """
    if draws(source.model):
        return {}
    folder = _folder()
    try:
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "run")
        options.graph_optimization_level = sessions.module.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")  # packed weights are no inputs any more
        session = sessions.second(source, options, ["CPUExecutionProvider"])
        sessions.run(session, list(names or ()) or None, dict(feed))
        path = session.end_profiling()
        with open_file(path, encoding="utf-8") as file:
            profiled = [
                event["args"]
                for event in json.loads(file.read(LIMIT))
                if event.get("cat") == "Node" and "op_name" in event.get("args", ())
            ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return described([node for node in profiled if "output_type_shape" in node], feed)


def _folder() -> str:
    """Return a new folder for a profile; where such folders are made is still the program's to choose."""
    chosen = tempfile.tempdir
    try:
        return tempfile.mkdtemp(prefix="modak-")
    finally:
        tempfile.tempdir = chosen


def described(nodes: Sequence[Mapping[str, Any]], feed: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the features of nodes as the profile has them."""
    tally = Tally()
    moved, parameters, complete = 0, 0.0, True
    # Weights that reach a product through another node, of a quantised model or tied to an embedding.
    indirect = any(node["op_name"] in _PASSED and int(node["parameter_size"]) for node in nodes)
    for node in nodes:
        name, weights = str(node["op_name"]), int(node["parameter_size"])
        given, result = _shapes(node["input_type_shape"]), _shapes(node["output_type_shape"])
        parameters += weights / _width(name, node["input_type_shape"])
        formula = _FORMULAS.get(name)
        if formula is None:
            complete = complete and not any(part in name for part in _PRODUCTS)
            continue
        of_results = formula[0] == "dense" and not weights and not indirect
        kind = "attention" if of_results else formula[0]
        tally.add(kind, formula[1](given, result))
        moved += weights + int(node["activation_size"]) + int(node["output_size"])
    values: Dict[str, Any] = {}
    batch = next((int(value.shape[0]) for value in feed.values() if len(getattr(value, "shape", ()))), None)
    if batch:
        values["batch"] = batch
    if round(parameters):
        values["parameters"] = round(parameters)
    return {**values, **tally.features(batch, moved)} if complete else values


def _shapes(typed: Sequence[Mapping[str, Any]]) -> Shapes:
    return [tuple(int(number) for number in shape) for each in typed for shape in each.values()]


def _width(operation: str, typed: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes of an element of the widest input that weights may be of: others are indices or scales."""
    if operation in ("Gather", "DequantizeLinear"):
        typed = typed[:1]
    return max((_WIDTHS.get(name, 4) for each in typed for name in each), default=4)


_WIDTHS = {"float": 4, "float16": 2, "bfloat16": 2, "double": 8, "int8": 1, "uint8": 1, "int64": 8}


def _general(given: Shapes, result: Shapes) -> float:
    """Return the operations of Gemm: each element of the first matrix meets each column of the result."""
    return 2.0 * math.prod(given[0]) * result[0][-1]


def _product(given: Shapes, result: Shapes) -> float:
    return 2.0 * math.prod(result[0]) * given[0][-1]


def _convolution(given: Shapes, result: Shapes) -> float:
    return 2.0 * math.prod(result[0]) * math.prod(given[1][1:])


def _transposed(given: Shapes, result: Shapes) -> float:
    return 2.0 * math.prod(given[0]) * math.prod(given[1][1:])


def _recurrent(given: Shapes, result: Shapes) -> float:
    """Return the operations of steps x batch samples with both matrices, of each direction."""
    return 2.0 * math.prod(given[0][:2]) * (math.prod(given[1]) + math.prod(given[2]))


_FORMULAS: Dict[str, Tuple[str, Callable[[Shapes, Shapes], float]]] = {
    "Conv": ("convolution", _convolution),
    "ConvInteger": ("convolution", _convolution),
    "ConvTranspose": ("convolution", _transposed),
    "FusedConv": ("convolution", _convolution),
    "FusedGemm": ("dense", _general),
    "GRU": ("recurrent", _recurrent),
    "Gemm": ("dense", _general),
    "LSTM": ("recurrent", _recurrent),
    "MatMul": ("dense", _product),
    "MatMulInteger": ("dense", _product),
    "RNN": ("recurrent", _recurrent),
}
_PASSED = ("Cast", "DequantizeLinear", "Transpose")
_PRODUCTS = (
    "Attention",
    "CDist",
    "Conv",
    "DFT",
    "Einsum",
    "GRU",
    "Gemm",
    "If",
    "LSTM",
    "LinearClassifier",
    "LinearRegressor",
    "Loop",
    "MatMul",
    "MoE",
    "RNN",
    "SVM",
    "Scan",
    "Tree",
)
"""Parts of the names of operations that hold products of their own: what has one is left out."""
