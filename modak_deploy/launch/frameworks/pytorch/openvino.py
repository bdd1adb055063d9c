"""Modules in evaluation mode done by OpenVINO: as graphs, converted, compiled for the processor."""

from typing import Any, Callable, List, Tuple

from ... import hardware, structures
from ...handlers import let_through
from .. import openvino_cpu
from .conversions import version
from .exported import Exported, Keep, results_of


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

    def _from_trace(self, traced: Any, tensors: List[Any], results: List[Any]) -> Any:
        try:
            decoders = openvino_cpu.module("openvino.frontend.pytorch.ts_decoder")
            model = _converted(decoders.TorchScriptPythonDecoder(traced, example_input=tuple(tensors)))
            _give_forms(model, tensors, results)
        except Exception as error:  # an operation that this front end does not know, or a result that it leaves out
            let_through(error)
            return None
        return _checked(model)

    def _from_exported(self, exported: Any, tensors: List[Any]) -> Any:
        decoders = openvino_cpu.module("openvino.frontend.pytorch.fx_decoder")
        model = _converted(decoders.TorchFXPythonDecoder.from_exported_program(exported))
        _give_forms(model, tensors, results_of(exported))
        return _checked(model)

    def _compiled(self, model: Any) -> Any:
        return openvino_cpu.compiled_model(model, self._precision, self._torch.get_num_threads())


def _check(model: Any, arguments: int, results: int) -> None:
    if len(model.inputs) != arguments or len(model.outputs) != results:
        raise structures.Unsupported("OpenVINO's model has other arguments or results than the module")


def _inferring(torch: Any, request: Any) -> Callable[[List[Any]], List[Any]]:
    def infer(given: List[Any]) -> List[Any]:
        # Arguments are copied, as OpenVINO may write into what it shares; so are results, which the next call is
        # not to write into, and the program may resize.
        arrays = [tensor.contiguous().numpy() for tensor in given]
        for array in arrays:
            openvino_cpu.check_range(array)
        return [torch.tensor(array, device="cpu") for array in request.infer(arrays, share_outputs=True).values()]

    return infer


def _give_forms(model: Any, tensors: List[Any], results: List[Any]) -> None:
    """Have a model take tensors like the given ones and nothing else."""
    _check(model, len(tensors), len(results))
    model.reshape({number: list(tensor.shape) for number, tensor in enumerate(tensors)})


def _checked(model: Any) -> Any:
    """Return a model; Unsupported where it does not do what PyTorch does."""
    if _divides_whole_numbers(model):
        raise structures.Unsupported("OpenVINO rounds quotients of whole numbers in another way")
    return model


def _divides_whole_numbers(model: Any) -> bool:
    """Tell whether whole numbers that depend on the arguments' values are divided: towards zero, always (2026.4)."""
    by_values = set()
    for operation in model.get_ordered_ops():
        kind = operation.get_type_name()
        given = [operation.input_value(number).get_node() for number in range(operation.get_input_size())]
        if kind == "Parameter" or (kind != "ShapeOf" and any(node.get_name() in by_values for node in given)):
            by_values.add(operation.get_name())
            if kind == "Divide" and operation.output(0).get_element_type().is_integral():
                return True
    return False


def _converted(decoder: Any) -> Any:
    """Return the model that a decoder reads; ``openvino.convert_model`` would ask to report what is used."""
    openvino_cpu.module()
    frontend = openvino_cpu.module("openvino.frontend").FrontEndManager().load_by_framework("pytorch")
    return frontend.convert(frontend.load(decoder))
