"""Running ONNX files by ONNX Runtime while they are validated and timed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modak_deploy.launch.hardware import cores
from modak_deploy.onnx.arrays import Array, Arrays


class Session:
    """An ONNX file on one execution provider."""

    def __init__(
        self,
        path: Path,
        *,
        optimise: bool = True,
        providers: Sequence[Any] = ("CPUExecutionProvider",),
        threads: int | None = None,
    ) -> None:
        """``optimise`` is off where each operator is to run as the file has it."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads or cores()
        # Threads that spin for the next call take the processor from the engine that is timed next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(str(path), options, providers=list(providers))
        self.inputs = [entry.name for entry in self._session.get_inputs()]
        self.outputs = [entry.name for entry in self._session.get_outputs()]
        self._strings = {entry.name for entry in self._session.get_inputs() if "string" in entry.type}

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        """Return the outputs for one batch by name."""
        feed = {name: _text(inputs[name]) if name in self._strings else inputs[name] for name in self.inputs}
        return dict(zip(self.outputs, self._session.run(None, feed), strict=True))


def _text(array: Any) -> Any:
    return array.astype(str).astype(object)
