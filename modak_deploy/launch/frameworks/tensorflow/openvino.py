"""Functions of TensorFlow that change nothing, done by OpenVINO, which converts their graphs as they were traced."""

import importlib
import os
from typing import Any, Dict, List, NamedTuple, Optional, Set

from ... import clock, hardware, structures
from .. import openvino_cpu, openvino_rows, openvino_signs
from ..rows import Rows
from .calls import bytes_of
from .tables import check_products, given_to, numbered

COPIES = 3
"""Times the weights that are held: OpenVINO's own, reordered for its kernels, and those that later ones are compared
with."""


class Argument(NamedTuple):
    """A tensor among the arguments of a function that the model wants."""

    number: int
    """Its place among them."""
    port: int
    """Its place among the model's."""
    shape: List[int]
    rows: Optional[Rows]
    """The numbers of rows that it may hold; None where it numbers none."""


class Converted:
    """Does what one traced form of a function does, from the tensors among its arguments to its result.

    The weights become constants. TensorFlow keeps no count of a variable's changes, so that whoever calls says when
    they may have changed: they are then compared, and from the first change on each call raises ``WeightsChanged``.
    """

    def __init__(self, tensorflow: Any, concrete: Any, precision: str) -> None:
        """``concrete`` is the traced form; ``precision`` is that of OpenVINO's kernels: ``f32`` or ``bf16``."""
        self._tensorflow = tensorflow
        self._structure = concrete.structured_outputs
        self._variables = list(concrete.variables)
        _check_room(bytes_of(self._variables))
        self._weights = [_value(variable).copy() for variable in self._variables]
        self._changed = False
        self.comparing = (0.0, 0.0)
        """Seconds that the last call took to compare weights, and those that a comparison takes."""
        given = given_to(concrete)
        check_products(concrete, given)
        with openvino_cpu.silent():
            model = _model(concrete)
        openvino_cpu.check_precision(model)
        openvino_rows.check_constants(model)
        reason = openvino_signs.loses(model)
        if reason is not None:
            raise structures.Unsupported(reason)
        self._count = len(given)
        self._arguments = _arguments(given, model, numbered(tensorflow, concrete, given))
        self._results = _results(tensorflow, concrete, model)
        model.reshape({argument.port: argument.shape for argument in self._arguments})
        self._request = openvino_cpu.compiled(model, precision, _threads(tensorflow))

    def __call__(self, arguments: Any, check: bool) -> Any:
        """Return the function's result; ``check`` is whether the weights may have changed since the last call."""
        self._compare(check)
        leaves = self._tensorflow.nest.flatten(arguments)
        if len(leaves) != self._count or not all(hasattr(leaf, "dtype") for leaf in leaves):
            raise structures.Unsupported("the arguments are not tensors alone")
        feed: Dict[int, Any] = {}
        for argument in self._arguments:
            # Arguments are copied, as OpenVINO may write into what it shares; so are results, which the next call is
            # not to write into.
            array = importlib.import_module("numpy").asarray(leaves[argument.number])
            openvino_cpu.check_range(array)
            openvino_cpu.check_finite(array)
            if argument.rows is not None:
                argument.rows.check(array)
            feed[argument.port] = array
        results = list(self._request.infer(feed).values())
        tensors = [self._tensorflow.convert_to_tensor(results[number]) for number in self._results]
        return self._tensorflow.nest.pack_sequence_as(self._structure, tensors)

    def _compare(self, check: bool) -> None:
        start = clock.now()
        equal = importlib.import_module("numpy").array_equal
        pairs = zip(self._variables, self._weights)
        if self._changed or (check and not all(equal(_value(variable), value) for variable, value in pairs)):
            self._changed = True
            raise WeightsChanged("the weights have changed since the model was converted")
        seconds = clock.now() - start
        self.comparing = (seconds, seconds) if check else (0.0, self.comparing[1])


class WeightsChanged(RuntimeError):
    """What was converted has other weights than the function has now."""


def _value(variable: Any) -> Any:
    """Return a variable's value as an array, which shares the variable's memory where TensorFlow lets it."""
    return importlib.import_module("numpy").asarray(variable.read_value_no_copy())


def _check_room(size: int) -> None:
    free, wanted = hardware.free_memory(), 2 * COPIES * size  # the program wants some as well
    if free is not None and wanted > free:
        raise MemoryError("a conversion wants {} MiB and {} MiB are free".format(wanted >> 20, free >> 20))


def _threads(tensorflow: Any) -> int:
    """Return the threads that TensorFlow has for an operation, set by the program or by its user."""
    text = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    stated = int(tensorflow.config.threading.get_intra_op_parallelism_threads())
    return stated or (int(text) if text.isdecimal() else 0) or hardware.cores()


def _model(concrete: Any) -> Any:
    """Return OpenVINO's model of a graph; ``openvino.convert_model`` would ask to report what is used."""
    openvino_cpu.module()
    frontends = openvino_cpu.module("openvino.frontend")
    iterators = openvino_cpu.module("openvino.frontend.tensorflow.graph_iterator")
    frontend = frontends.FrontEndManager().load_by_framework("tf")
    # The weights are copied: what is shared would follow the program's assignments until it is reordered for a kernel.
    iterator = iterators.GraphIteratorTFGraph(concrete.graph, False)  # it must live until all is converted
    return frontend.convert(frontend.load(iterator))


def _arguments(given: List[Any], model: Any, rows: Dict[str, Rows]) -> List[Argument]:
    ports = _ports(model.inputs)
    wanted = []
    for number, tensor in enumerate(given):
        port = _port(ports, tensor.name)
        if port is not None:
            wanted.append(Argument(number, port, list(tensor.shape), rows.get(tensor.name)))
        elif tensor.consumers():
            raise structures.Unsupported("OpenVINO's model has no input '{}'".format(tensor.name))
    if sorted(argument.port for argument in wanted) != list(range(len(model.inputs))):
        raise structures.Unsupported("OpenVINO's model has other arguments than the function")
    return wanted


def _results(tensorflow: Any, concrete: Any, model: Any) -> List[int]:
    """Return the port of each tensor of the result."""
    if len(tensorflow.nest.flatten(concrete.structured_outputs)) != len(concrete.outputs):
        raise structures.Unsupported("the result is not of tensors alone")
    ports = _ports(model.outputs)
    results: List[int] = []
    for tensor in concrete.outputs:
        port = _port(ports, tensor.name)
        if port is None:
            raise structures.Unsupported("OpenVINO's model has no output '{}'".format(tensor.name))
        results.append(port)
    return results


def _ports(ends: Any) -> Dict[str, int]:
    """Return the places of a model's inputs or outputs by their names, without names that several have."""
    ports: Dict[str, int] = {}
    several: Set[str] = set()
    for number, end in enumerate(ends):
        for name in end.get_names():
            several.update([name] if name in ports else [])
            ports[name] = number
    return {name: number for name, number in ports.items() if name not in several}


def _port(ports: Dict[str, int], name: str) -> Optional[int]:
    """Return where a tensor of the graph is: OpenVINO names it as TensorFlow does, or by its operation alone."""
    port = ports.get(name)
    return ports.get(name.partition(":")[0]) if port is None and name.endswith(":0") else port
