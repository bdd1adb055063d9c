"""Modules in evaluation mode done by OpenVINO: exported as graphs, converted, compiled for the processor."""

from typing import Any, Callable, Dict, List, NamedTuple

from ... import structures
from .. import openvino_cpu
from . import outputs


class Program(NamedTuple):
    """What was compiled for one form of arguments."""

    infer: Callable[[List[Any]], Any]
    """From arrays, in the order of the arguments' tensors, to arrays of the result's."""
    result: Any
    """The result's structure with a slot in place of each tensor."""


class Slot(int):
    """The number of a tensor of the result."""


class Converted:
    """Does what a module does; what it does is converted when arguments of a new form come.

    ``torch.export`` stands for the graph being the module's: it refuses what decides by the values of tensors, and
    what is written to a module's attributes is noticed elsewhere (``watch``).
    """

    def __init__(self, torch: Any, module: Any, precision: str) -> None:
        """``precision`` is that of OpenVINO's kernels: ``f32`` or ``bf16``."""
        self._torch = torch
        self._module = module
        self._precision = precision
        self._programs: Dict[Any, Program] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = self._torch
        is_leaf = outputs.is_tensor(torch)
        form = structures.shape((args, kwargs), _form, is_leaf)
        tensors = [tensor.detach() for tensor in structures.leaves((args, kwargs), is_leaf)]
        program = self._programs.get(form)
        if program is None:
            program = self._programs[form] = self._program(args, kwargs)
        # Arguments are copied, as OpenVINO may write into what it shares; so are results, which the next call is not to
        # write into.
        given = [tensor.contiguous().numpy() for tensor in tensors]
        for array in given:
            openvino_cpu.check_range(array)
        arrays = program.infer(given)
        return structures.replace(
            program.result, lambda slot: torch.from_numpy(arrays[slot]), lambda value: isinstance(value, Slot)
        )

    def _program(self, args: Any, kwargs: Any) -> Program:
        torch = self._torch
        is_leaf = outputs.is_tensor(torch)
        with torch.inference_mode(False), torch.no_grad(), openvino_cpu.silent():
            tensors = [tensor.detach().clone() for tensor in structures.leaves((args, kwargs), is_leaf)]
            flat = _flat(torch, self._module, args, kwargs)
            exported = torch.export.export(flat, tuple(tensors), strict=False)
            model = _converted(exported)
        if len(model.inputs) != len(tensors) or len(model.outputs) != flat.count:
            raise structures.Unsupported("OpenVINO's model has other arguments or results than the module")
        model.reshape({number: list(tensor.shape) for number, tensor in enumerate(tensors)})
        request = openvino_cpu.compiled(model, self._precision, torch.get_num_threads())

        def infer(arrays: List[Any]) -> Any:
            return list(request.infer(arrays).values())

        return Program(infer, flat.result)


def _form(tensor: Any) -> Any:
    return (tuple(tensor.shape), tensor.dtype)


def _converted(exported: Any) -> Any:
    """Return OpenVINO's model of an exported program; ``openvino.convert_model`` would ask to report what is used."""
    openvino_cpu.module()
    frontends = openvino_cpu.module("openvino.frontend")
    decoders = openvino_cpu.module("openvino.frontend.pytorch.fx_decoder")
    frontend = frontends.FrontEndManager().load_by_framework("pytorch")
    decoder = decoders.TorchFXPythonDecoder.from_exported_program(exported)
    return frontend.convert(frontend.load(decoder))


def _flat(torch: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """Return a module from the tensors among the arguments to those of the result."""
    is_leaf = outputs.is_tensor(torch)

    class Flat(torch.nn.Module):  # type: ignore[misc]
        count = 0
        result: Any = None

        def forward(self, *tensors: Any) -> Any:
            left = iter(tensors)
            given = structures.replace((args, kwargs), lambda _: next(left), is_leaf)
            result = self.module(*given[0], **given[1])
            returned: List[Any] = []

            def slot(tensor: Any) -> Slot:
                returned.append(tensor)
                return Slot(len(returned) - 1)

            Flat.result = structures.replace(result, slot, is_leaf)
            Flat.count = len(returned)
            return tuple(returned)

    flat = Flat()
    flat.module = module
    flat.training = False  # eval() would be taken for the program's
    return flat
