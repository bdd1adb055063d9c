"""Times of a conversion as measurements."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modak_deploy.onnx import convert
from modak_deploy.onnx.assemble import Converted
from modak_deploy.onnx.measurements import records
from modak_deploy.onnx.request import ModelRequest, TensorShape
from modak_deploy.onnx.task import Outcome
from modak_deploy.onnx.timing import Times
from modak_deploy.performance import refitting


def test_each_engine_is_a_measurement(tmp_path: Path) -> None:
    request = ModelRequest.model_validate(
        {"name": "net", "framework": "pytorch", "class": "a:b", "example": {"x": {"shape": [1]}}, "test": {}}
    )
    assert isinstance(request.example, dict)
    assert isinstance(request.example["x"], TensorShape)
    times = Times((0.2, 0.1, 0.3, 0.2, 0.2))
    outcome = Outcome(software={"torch": "2.13.0"}, timings=[times.entry(batch=16)])
    model = Converted(request, tmp_path, outcome, timings=[times.entry(engine="onnxruntime", batch=16, loading=1.5)])
    native, runtime = records([model])
    assert native.workload.model == runtime.workload.model == "net"
    assert (native.framework, native.configuration.framework) == ("pytorch", None)
    assert runtime.configuration.framework == "onnxruntime"
    assert runtime.workload.batch == 16
    assert [run.later for run in runtime.runs] == [[0.2], [0.1], [0.3], [0.2], [0.2]]
    assert runtime.runs[0].start == pytest.approx(1.5) and native.runs[0].start == pytest.approx(0, abs=1e-6)
    assert runtime.software == native.software


@pytest.mark.parametrize("count", [2, 0])
def test_the_time_model_keeps_up_with_what_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: int
) -> None:
    request = SimpleNamespace(models=[], optimise=SimpleNamespace(enabled=False))
    monkeypatch.setattr(convert, "add_to_store", lambda models: (count, "the store"))
    monkeypatch.setattr(convert, "write_bundle", lambda *arguments, **options: None)
    fitted: list[Any] = []
    monkeypatch.setattr(refitting, "keep_current", fitted.append)
    reports: list[str] = []
    convert.convert(request, tmp_path / "net.bundle", base=tmp_path, record=True, report=reports.append)  # type: ignore[arg-type]
    assert reports == [f"{count} measurements added to the store"]
    assert len(fitted) == (1 if count else 0)
