"""Modules in evaluation mode done by OpenVINO: as graphs, converted, compiled for the processor."""

from typing import Any, Callable, List, Optional, Set, Tuple

from ... import hardware, structures
from ...handlers import let_through
from .. import openvino_cpu
from ..openvino_rows import CONSTANTS, inexact, wraps
from .arrays import array_of
from .conversions import version
from .exported import Exported, Keep, results_of
from .keeping import KEEPING
from .otherwise import OPENVINO
from .written import writes_views

REMAINDERS = ("Mod", "FloorMod")
PRODUCTS = ("ReduceProd", "CumProd")


def content_kind(torch: Any, precision: str) -> Tuple[str, ...]:
    """Return what a compiled model depends on beside the module: it holds weights in the order of this processor."""
    features = " ".join(sorted(hardware.cpu_features()))
    threads = str(torch.get_num_threads())
    return ("openvino", version("openvino"), precision, threads, hardware.cpu_model(), features)


class Converted(Exported):
    """Does what a module does by OpenVINO."""

    keeping = KEEPING["openvino"]
    otherwise = OPENVINO

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
        if writes_views(traced.inlined_graph):  # which this front end follows in some cases only (2026.4)
            return None
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
        kept = [tensor.contiguous().resolve_neg() for tensor in given]
        arrays = [array_of(tensor) for tensor in kept]
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
    reason = _other_numbers(model)
    if reason is not None:
        raise structures.Unsupported(reason)
    return model


def _other_numbers(model: Any) -> Optional[str]:
    """Return which numbers a model computes of the arguments in another way than PyTorch (2026.4); None where none."""
    by_values: Set[str] = set()
    whole: Set[str] = set()
    """Whole numbers that may be large: those of arguments, and what is made of them or of others that are not whole."""
    for operation in model.get_ordered_ops():
        kind, name = operation.get_type_name(), operation.get_name()
        given = [operation.input_value(number).get_node().get_name() for number in range(operation.get_input_size())]
        if kind != "Parameter" and (kind == "ShapeOf" or by_values.isdisjoint(given)):
            continue
        by_values.add(name)
        element = operation.output(0).get_element_type().get_type_name()
        if element == "f64":
            return "OpenVINO computes in single precision what is in double precision"
        if inexact(operation, kind):
            return CONSTANTS
        if kind in REMAINDERS and operation.output(0).get_element_type().is_real():
            return "OpenVINO computes remainders from rounded quotients"
        if kind == "Log" and operation.input_value(0).get_node().get_type_name() == "Sigmoid":
            return "OpenVINO computes logarithms of numbers that it has rounded to none"
        if element[0] in "iu" and kind == "Divide":
            return "OpenVINO rounds quotients of whole numbers in another way"
        if element[0] in "iu" and _is_large(operation, given, whole):
            whole.add(name)
            if kind in PRODUCTS or (kind not in REMAINDERS and wraps(operation, kind)):
                return "OpenVINO computes whole numbers that may not fit their type"
        for body in _bodies(operation):
            reason = _other_numbers(body)
            if reason is not None:
                return reason
    return None


def _is_large(operation: Any, given: List[str], whole: Set[str]) -> bool:
    """Tell whether an operation's whole numbers may be large: not those of comparisons, nor of rows that are chosen."""
    kind = operation.get_type_name()
    if kind == "Convert" and operation.input_value(0).get_element_type().is_real():
        return True
    return kind == "Parameter" or not whole.isdisjoint(given[:1] if kind == "Gather" else given)


def _bodies(operation: Any) -> List[Any]:
    """Return the models that an operation holds."""
    kind = operation.get_type_name()
    if kind == "If":
        return [operation.get_then_body(), operation.get_else_body()]
    return [operation.get_function()] if kind in ("Loop", "TensorIterator") else []


def _converted(decoder: Any) -> Any:
    """Return the model that a decoder reads; ``openvino.convert_model`` would ask to report what is used."""
    openvino_cpu.module()
    frontend = openvino_cpu.module("openvino.frontend").FrontEndManager().load_by_framework("pytorch")
    return frontend.convert(frontend.load(decoder))
