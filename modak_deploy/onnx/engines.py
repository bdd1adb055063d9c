"""The engines that run an ONNX file, one class each: the file is compiled once and gives a function of arrays.

Planning loads these classes for their attributes: NumPy and the engines are imported where a file is opened.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modak_deploy.engines.base import Engine, Run
from modak_deploy.launch.frameworks.openvino_cpu import core, unreported
from modak_deploy.launch.hardware import cores
from modak_deploy.onnx.packages import require
from modak_deploy.onnx.tuning import tuned


class OnnxRuntime(Engine):
    """ONNX Runtime's CPU provider; what a converted model is validated with, and other engines are compared with."""

    name = "onnxruntime"
    launcher_module = "onnxruntime"
    counts_units = True
    tries_live = True
    stands_in = True
    runs_onnx = True
    provider = "CPUExecutionProvider"

    def load(self, path: Path, example: Mapping[str, Any], *, trials: int) -> Run:
        """See ``Engine.load``."""
        from modak_deploy.onnx.sessions import Session

        return Session(path).run


class OpenVINO(Engine):
    """OpenVINO on the processor, for low latency, in the precision of the file."""

    name = "openvino"
    runs_onnx = True

    def load(self, path: Path, example: Mapping[str, Any], *, trials: int) -> Run:
        """See ``Engine.load``."""
        import numpy as np

        with unreported():
            require("openvino", "openvino", purpose="the engine openvino", extra="openvino")
        threads = cores()
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        compiled = core().compile_model(str(path), "CPU", settings)
        names = [port.any_name for port in compiled.outputs]

        def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
            outputs = compiled(inputs)
            return {name: np.array(outputs[port]) for name, port in zip(names, compiled.outputs, strict=True)}

        return run


class Tvm(Engine):
    """What TVM's Relax makes of the graph for the shapes of the example, fused, and tuned where there are trials."""

    name = "tvm"
    package = "apache-tvm"
    distribution = "apache-tvm"
    module = "tvm"
    runs_onnx = True

    def load(self, path: Path, example: Mapping[str, Any], *, trials: int) -> Run:
        """See ``Engine.load``."""
        if not trials:
            return self.load_tuned(path, example, trials=0, database=None)
        with tempfile.TemporaryDirectory(prefix="modak-tuning-") as folder:
            return self.load_tuned(path, example, trials=trials, database=Path(folder))

    def load_tuned(
        self,
        path: Path,
        example: Mapping[str, Any],
        *,
        trials: int,
        database: Path | None,
        at_once: int | None = None,
    ) -> Run:
        """Return the graph with the best programs in the folder ``database``, which ``trials`` are added to before.

        ``at_once`` programs of an operator are measured together; without it as many as let all operators have a turn.
        """
        import numpy as np

        compiler = require("tvm", "apache-tvm", purpose="the engine tvm", extra="tvm")
        relax = require("tvm.relax", "apache-tvm", purpose="the engine tvm", extra="tvm")
        frontend = require("tvm.relax.frontend.onnx", "apache-tvm", purpose="the engine tvm", extra="tvm")
        model = _fixed(path, example)
        outputs = [output.name for output in model.graph.output]
        shapes = {name: list(array.shape) for name, array in example.items()}
        types = {name: str(array.dtype) for name, array in example.items()}
        module = frontend.from_onnx(model, shape_dict=shapes, dtype_dict=types, keep_params_in_input=False)
        target = compiler.target.Target({"kind": "llvm", "num-cores": cores(), **_processor()})
        if database is not None:
            module = tuned(module, target, trials=trials, database=database, at_once=at_once)
        with target:
            built = compiler.compile(module, target=target)
        machine = relax.VirtualMachine(built, compiler.cpu())

        def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
            tensors = [compiler.runtime.tensor(np.ascontiguousarray(inputs[name])) for name in shapes]
            result: Any = machine["main"](*tensors)
            parts = [result] if len(outputs) == 1 and hasattr(result, "numpy") else list(result)
            return {name: part.numpy() for name, part in zip(outputs, parts, strict=True)}

        return run


def _fixed(path: Path, example: Mapping[str, Any]) -> Any:
    """Return the graph with the sizes of ``example``, its shape arithmetic folded: Relax takes no computed shapes."""
    import onnx

    from modak_deploy.onnx.passes import graph_level

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
        graph_level("graph-basic")(source, result, dict(example))
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
