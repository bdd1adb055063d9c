"""Passes that make an ONNX graph faster: each writes a new file, or says why it cannot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.onnx.arrays import Arrays, batches
from modak_deploy.onnx.packages import require


class PassError(InputError):
    """The pass cannot be applied to this graph or on this machine."""


GRAPH_LEVELS = {
    "graph-basic": "ORT_ENABLE_BASIC",
    "graph-extended": "ORT_ENABLE_EXTENDED",
    "graph-all": "ORT_ENABLE_ALL",
}
Pass = Callable[[Path, Path, Arrays], None]
"""Reads the first file and writes the second; the arrays are test data."""


def simplify(source: Path, result: Path, _samples: Arrays) -> None:
    """Fold constants and remove what has no effect, by onnxslim."""
    import onnx

    onnxslim = require("onnxslim", "onnxslim", purpose="simplify", extra="convert")
    slim = onnxslim.slim(onnx.load(source))
    if slim is None:
        raise PassError("onnxslim gives no graph")
    _save(slim, result)


def graph_level(level: str) -> Pass:
    """Return the pass that writes what ONNX Runtime makes of a graph before it runs it."""

    def apply(source: Path, result: Path, _samples: Arrays) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, GRAPH_LEVELS[level])
        options.optimized_model_filepath = str(result)
        if source.stat().st_size + sum(p.stat().st_size for p in source.parent.glob(f"{source.name}.*")) > 2**30:
            name = f"{result.name}.data"
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", name)
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return apply


def quantise_dynamic(source: Path, result: Path, _samples: Arrays) -> None:
    """Store weights as 8-bit whole numbers; activations are quantised as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(_prepared(source, result), result, weight_type=QuantType.QInt8)


def quantise_static(source: Path, result: Path, samples: Arrays) -> None:
    """Compute with 8-bit whole numbers, with the ranges that the test data show."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.parts = batches(samples, 8)

        def get_next(self) -> Any:
            return next(self.parts, None)

    quantize_static(
        _prepared(source, result),
        result,
        Reader(),
        quant_format=QuantFormat.QDQ,
        weight_type=QuantType.QInt8,
        activation_type=QuantType.QUInt8,
    )


def _prepared(source: Path, result: Path) -> Path:
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, bare = result.with_suffix(".pre.onnx"), result.with_suffix(".bare.onnx")
    model = onnx.load(source)
    del model.graph.value_info[:]  # shapes of transposed weights, which onnx's inference refuses
    _save(model, bare)
    try:
        quant_pre_process(str(bare), str(prepared), skip_symbolic_shape=True)
    except Exception:  # symbolic shapes of its own kind: the graph is quantised as it is
        return bare
    return prepared


def half(kind: str) -> Pass:
    """Return the pass that stores and computes with 16-bit floating-point numbers; inputs and outputs stay."""

    def apply(source: Path, result: Path, _samples: Arrays) -> None:
        import onnx

        if kind == "bfloat16":
            raise PassError("ONNX Runtime's CPU provider has no kernels for bfloat16; use OpenVINO or a GPU")
        from onnxruntime.transformers.float16 import convert_float_to_float16

        _save(convert_float_to_float16(onnx.load(source), keep_io_types=True), result)

    return apply


def _save(model: Any, path: Path) -> None:
    import onnx

    large = model.ByteSize() >= 2**31 - 1
    onnx.save_model(model, path, save_as_external_data=large, location=f"{path.name}.data" if large else None)


PASSES: dict[str, Pass] = {
    "simplify": simplify,
    **{level: graph_level(level) for level in GRAPH_LEVELS},
    "quantise-dynamic": quantise_dynamic,
    "quantise-static": quantise_static,
    "float16": half("float16"),
    "bfloat16": half("bfloat16"),
}
INEXACT = frozenset({"quantise-dynamic", "quantise-static", "float16", "bfloat16"})
"""Passes that change results beyond the order of additions."""
FINAL = frozenset(GRAPH_LEVELS)
"""Passes whose operators are ONNX Runtime's own: nothing comes after them."""


def exact() -> list[str]:
    """Return the passes that do not need relaxed numerics."""
    return [name for name in PASSES if name not in INEXACT]
