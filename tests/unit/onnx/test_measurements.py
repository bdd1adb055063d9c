"""Times of a conversion as measurements."""

from pathlib import Path

from modak.onnx.assemble import Converted
from modak.onnx.measurements import records
from modak.onnx.request import ModelRequest, TensorShape
from modak.onnx.task import Outcome
from modak.onnx.timing import Times


def test_each_engine_is_a_measurement(tmp_path: Path) -> None:
    request = ModelRequest.model_validate(
        {"name": "net", "framework": "pytorch", "class": "a:b", "example": {"x": {"shape": [1]}}, "test": {}}
    )
    assert isinstance(request.example, dict)
    assert isinstance(request.example["x"], TensorShape)
    times = Times((0.2, 0.1, 0.3, 0.2, 0.2))
    outcome = Outcome(software={"torch": "2.13.0"}, timings=[times.entry(batch=16)])
    model = Converted(request, tmp_path, outcome, timings=[times.entry(engine="onnxruntime", batch=16)])
    native, runtime = records([model])
    assert native.workload.model == runtime.workload.model == "net"
    assert (native.framework, native.configuration.framework) == ("pytorch", None)
    assert runtime.configuration.framework == "onnxruntime"
    assert runtime.workload.batch == 16
    assert list(runtime.runs[0].later) == [0.2, 0.1, 0.3, 0.2, 0.2]
