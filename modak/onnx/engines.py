"""Other engines that run an ONNX file: OpenVINO and TVM; each compiles once and gives a function of arrays."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from modak.onnx.arrays import Arrays
from modak.onnx.packages import require
from modak.onnx.passes import graph_level
from modak.onnx.sessions import Session

Run = Callable[[Arrays], Arrays]


def onnxruntime(path: Path, _example: Arrays) -> Run:
    """Return ONNX Runtime's CPU provider."""
    return Session(path).run


def openvino(path: Path, _example: Arrays) -> Run:
    """Return OpenVINO on the processor, for low latency, in the precision of the file."""
    vino = require("openvino", "openvino", purpose="the engine openvino", extra="openvino")
    threads = len(os.sched_getaffinity(0))
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    compiled = vino.Core().compile_model(str(path), "CPU", settings)
    names = [port.any_name for port in compiled.outputs]

    def run(inputs: Arrays) -> Arrays:
        found = compiled(inputs)
        return {name: np.array(found[port]) for name, port in zip(names, compiled.outputs, strict=True)}

    return run


def tvm(path: Path, example: Arrays, *, trials: int = 0) -> Run:
    """Return what TVM's Relax makes of the graph for the shapes of ``example``, fused; tuned with ``trials``."""
    compiler = require("tvm", "apache-tvm", purpose="the engine tvm", extra="tvm")
    relax = require("tvm.relax", "apache-tvm", purpose="the engine tvm", extra="tvm")
    frontend = require("tvm.relax.frontend.onnx", "apache-tvm", purpose="the engine tvm", extra="tvm")
    model = _fixed(path, example)
    outputs = [output.name for output in model.graph.output]
    shapes = {name: list(array.shape) for name, array in example.items()}
    types = {name: str(array.dtype) for name, array in example.items()}
    module = frontend.from_onnx(model, shape_dict=shapes, dtype_dict=types, keep_params_in_input=False)
    target = compiler.target.Target({"kind": "llvm", "num-cores": len(os.sched_getaffinity(0)), **_processor()})
    if trials:
        pipeline = relax.get_pipeline("static_shape_tuning", total_trials=trials, target=target)
        module = pipeline(module)
    with target:
        built = compiler.compile(module, target=target)
    machine = relax.VirtualMachine(built, compiler.cpu())

    def run(inputs: Arrays) -> Arrays:
        given = [compiler.runtime.tensor(np.ascontiguousarray(inputs[name])) for name in shapes]
        found: Any = machine["main"](*given)
        parts = [found] if len(outputs) == 1 and hasattr(found, "numpy") else list(found)
        return {name: part.numpy() for name, part in zip(outputs, parts, strict=True)}

    return run


def _fixed(path: Path, example: Arrays) -> Any:
    """Return the graph with the sizes of ``example``, its shape arithmetic folded: Relax takes no computed shapes."""
    import onnx

    model = onnx.load(path)
    for value in model.graph.input:
        if value.name in example:
            for size, given in zip(value.type.tensor_type.shape.dim, example[value.name].shape, strict=True):
                size.dim_value = given
    del model.graph.value_info[:]
    with tempfile.TemporaryDirectory(prefix="modak-fixed-") as folder:
        source, result = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        large = model.ByteSize() >= 2**31 - 1
        onnx.save_model(model, source, save_as_external_data=large, location="weights" if large else None)
        graph_level("graph-basic")(source, result, example)
        return onnx.load(result)


def _processor() -> dict[str, str]:
    """Return LLVM's name of this processor."""
    import archspec.cpu

    features = archspec.cpu.host()
    return {
        "mcpu": {"zen5": "znver5", "zen4": "znver4", "zen3": "znver3", "zen2": "znver2"}.get(
            features.name, features.name.replace("_", "-")
        )
    }


ENGINES: dict[str, Callable[..., Run]] = {"onnxruntime": onnxruntime, "openvino": openvino, "tvm": tvm}
