"""Modules in evaluation mode done by OpenVINO: exported as graphs, converted, compiled for the processor."""

from typing import Any, Callable, ContextManager, List, Optional, Tuple

from ... import hardware, structures
from .. import openvino_cpu
from .conversions import version
from .exported import Exported, Keep, results_of
from .traced import trace
from .values import Reading


def content_kind(torch: Any, precision: str) -> Tuple[str, ...]:
    """Return what a compiled model depends on beside the module: it holds weights in the order of this processor."""
    features = " ".join(sorted(hardware.cpu_features()))
    threads = str(torch.get_num_threads())
    return ("openvino", version("openvino"), precision, threads, hardware.cpu_model(), features)


class Converted(Exported):
    """Does what a module does by OpenVINO."""

    def __init__(self, torch: Any, module: Any, precision: str) -> None:
        """``precision`` is that of OpenVINO's kernels: ``f32`` or ``bf16``."""
        super().__init__(torch, module)
        self._precision = precision
        self._reading: Optional[Reading] = None

    def content(self, args: Any, kwargs: Any) -> bytes:
        with openvino_cpu.silent():
            return super().content(args, kwargs)

    def _program(self, args: Any, kwargs: Any, form: Any) -> Any:
        with openvino_cpu.silent():
            return super()._program(args, kwargs, form)

    def made(self, graph: Any, tensors: List[Any], keep: Keep = None) -> Callable[[List[Any]], List[Any]]:
        model = self._compiled(graph)
        if keep is not None:
            keep(openvino_cpu.written(model))
        return _inferring(self._torch, model.create_infer_request())

    def written(self, graph: Any, tensors: List[Any]) -> bytes:
        return openvino_cpu.written(self._compiled(graph))

    def read(self, data: bytes, tensors: List[Any], results: List[Any]) -> Callable[[List[Any]], List[Any]]:
        model = openvino_cpu.read(data, self._precision, self._torch.get_num_threads())
        _check(model, len(tensors), len(results))
        return _inferring(self._torch, model.create_infer_request())

    def _looking(self, flat: Any, tensors: List[Any]) -> ContextManager[Any]:
        self._reading = Reading(self._torch, [*tensors, *flat.parameters(), *flat.buffers()])
        return self._reading

    def _graph(self, flat: Any, tensors: List[Any]) -> Any:
        """Return the module as a model of OpenVINO: traced, where no value decides what is done, which is quick."""
        reading, self._reading = self._reading, None
        model = None if reading is None else _from_trace(self._torch, flat, tensors, reading)
        if model is None:
            exported = super()._graph(flat, tensors)
            model = _from_exported(exported)
            _check(model, len(tensors), len(results_of(exported)))
        model.reshape({number: list(tensor.shape) for number, tensor in enumerate(tensors)})
        return model

    def _compiled(self, model: Any) -> Any:
        return openvino_cpu.compiled_model(model, self._precision, self._torch.get_num_threads())


def _check(model: Any, arguments: int, results: int) -> None:
    if len(model.inputs) != arguments or len(model.outputs) != results:
        raise structures.Unsupported("OpenVINO's model has other arguments or results than the module")


def _inferring(torch: Any, request: Any) -> Callable[[List[Any]], List[Any]]:
    def infer(given: List[Any]) -> List[Any]:
        # Arguments are copied, as OpenVINO may write into what it shares; so are results, which the next call is
        # not to write into.
        arrays = [tensor.contiguous().numpy() for tensor in given]
        for array in arrays:
            openvino_cpu.check_range(array)
        return [torch.from_numpy(array) for array in request.infer(arrays).values()]

    return infer


def _from_exported(exported: Any) -> Any:
    """Return OpenVINO's model of an exported program."""
    decoders = openvino_cpu.module("openvino.frontend.pytorch.fx_decoder")
    return _converted(decoders.TorchFXPythonDecoder.from_exported_program(exported))


def _from_trace(torch: Any, flat: Any, tensors: List[Any], reading: Reading) -> Any:
    """Return OpenVINO's model of a module as it is traced; None where that does not work, for it to be exported."""
    reading.used(flat.likes)
    traced = trace(torch, flat, tensors, reading.numbers) if reading.what is None else None
    if traced is None:
        return None
    results = len(flat.likes)
    try:
        decoders = openvino_cpu.module("openvino.frontend.pytorch.ts_decoder")
        model = _converted(decoders.TorchScriptPythonDecoder(traced, example_input=tuple(tensors)))
        _check(model, len(tensors), results)
    except Exception:  # an operation that this front end does not know, or a result that it leaves out
        return None
    return model


def _converted(decoder: Any) -> Any:
    """Return the model that a decoder reads; ``openvino.convert_model`` would ask to report what is used."""
    openvino_cpu.module()
    frontend = openvino_cpu.module("openvino.frontend").FrontEndManager().load_by_framework("pytorch")
    return frontend.convert(frontend.load(decoder))
