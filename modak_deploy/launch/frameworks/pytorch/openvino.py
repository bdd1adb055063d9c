"""Modules in evaluation mode done by OpenVINO: exported as graphs, converted, compiled for the processor."""

from typing import Any, Callable, List

from ... import structures
from .. import openvino_cpu
from .exported import Exported, results_of


class Converted(Exported):
    """Does what a module does by OpenVINO."""

    def __init__(self, torch: Any, module: Any, precision: str) -> None:
        """``precision`` is that of OpenVINO's kernels: ``f32`` or ``bf16``."""
        super().__init__(torch, module)
        self._precision = precision

    def _program(self, args: Any, kwargs: Any) -> Any:
        with openvino_cpu.silent():
            return super()._program(args, kwargs)

    def made(self, exported: Any, tensors: List[Any]) -> Callable[[List[Any]], List[Any]]:
        torch = self._torch
        model = _converted(exported)
        if len(model.inputs) != len(tensors) or len(model.outputs) != len(results_of(exported)):
            raise structures.Unsupported("OpenVINO's model has other arguments or results than the module")
        model.reshape({number: list(tensor.shape) for number, tensor in enumerate(tensors)})
        request = openvino_cpu.compiled(model, self._precision, torch.get_num_threads())

        def infer(given: List[Any]) -> List[Any]:
            # Arguments are copied, as OpenVINO may write into what it shares; so are results, which the next call is
            # not to write into.
            arrays = [tensor.contiguous().numpy() for tensor in given]
            for array in arrays:
                openvino_cpu.check_range(array)
            return [torch.from_numpy(array) for array in request.infer(arrays).values()]

        return infer


def _converted(exported: Any) -> Any:
    """Return OpenVINO's model of an exported program; ``openvino.convert_model`` would ask to report what is used."""
    openvino_cpu.module()
    frontends = openvino_cpu.module("openvino.frontend")
    decoders = openvino_cpu.module("openvino.frontend.pytorch.fx_decoder")
    frontend = frontends.FrontEndManager().load_by_framework("pytorch")
    decoder = decoders.TorchFXPythonDecoder.from_exported_program(exported)
    return frontend.convert(frontend.load(decoder))
