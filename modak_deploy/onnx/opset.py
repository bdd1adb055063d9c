"""Which operator sets a version of ONNX Runtime executes."""

from functools import cache

from modak_deploy.errors import InputError

# onnxruntime.ai/docs/reference/compatibility.html: the highest opset of each release.
_BY_RELEASE = {
    (1, 14): 18,
    (1, 15): 19,
    (1, 16): 19,
    (1, 17): 20,
    (1, 18): 21,
    (1, 19): 21,
    (1, 20): 21,
    (1, 21): 22,
    (1, 22): 23,
    (1, 23): 23,
}
LOWEST = 13


def highest(runtime: str | None) -> int:
    """Return the highest opset of ONNX Runtime ``runtime``, such as '1.20', limited to that of the installed one."""
    installed = installed_highest()
    if runtime is None:
        return installed
    major, minor = (int(part) for part in runtime.split(".")[:2])
    if (major, minor) < min(_BY_RELEASE):
        raise InputError(f"runtime: ONNX Runtime {runtime} is not supported; 1.14 is the oldest that is")
    if (major, minor) in _BY_RELEASE:
        return min(installed, _BY_RELEASE[major, minor])
    # A release after those above has at least their opset, and one before the installed may not have that one's.
    return installed if (major, minor) >= _installed_release() else min(installed, max(_BY_RELEASE.values()))


def _installed_release() -> tuple[int, int]:
    import onnxruntime

    major, minor = (int(part) for part in onnxruntime.__version__.split(".")[:2])
    return major, minor


@cache
def installed_highest() -> int:
    """Return the highest opset that the installed onnx and ONNX Runtime have both; a model without work asks for it."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "probe", value[:1], value[1:])
    for opset in range(onnx.defs.onnx_opset_version(), LOWEST, -1):
        imports = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # noqa: S112 - onnxruntime raises its own types; the next lower opset is asked for
            continue
        return opset
    return LOWEST
