"""Modules in evaluation mode done by ONNX Runtime: written as an ONNX model in memory, read as a session."""

import contextlib
import importlib
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ... import children, hardware, structures
from ...handlers import let_through
from .. import openvino_cpu
from ..onnxruntime.sessions import OWN
from . import weightless
from .arrays import array_of
from .conversions import version
from .exported import Exported, Keep, results_of
from .keeping import KEEPING
from .otherwise import ONNX_RUNTIME
from .written import is_alike

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
ELEMENTS = ("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool")
"""Types of tensors that are given to ONNX Runtime by their memory."""
LARGEST = 2**31 - 2**20
"""Bytes of weights in a model; a message of Protocol Buffers has less than 2 GiB."""
_own = False
"""Whether ONNX Runtime was imported here, and not by the program."""
COPIES = 4
"""Weights in the model, in its text, and in the session, which packs them once more."""
TRACED_COPIES = 3
"""Weights in the session, which has packed them once more: twice their size in all with AlexNet and BERT (1.32)."""


def _runtime() -> Any:
    """Return ONNX Runtime, imported if it is not yet.

    1.31 warns of each session on a GPU by its default logger, which a program that uses it may have set itself.
    """
    global _own
    imported = "onnxruntime" in sys.modules
    runtime = importlib.import_module("onnxruntime")
    if not imported:
        _own = True
        children.end_without("onnxruntime")
    return runtime


@contextlib.contextmanager
def _unlogged(runtime: Any) -> Iterator[None]:
    """Keep sessions that are made from being told by the default logger, where its severity is the usual one (2)."""
    if _own:
        runtime.set_default_logger_severity(4)
    try:
        yield
    finally:
        if _own:
            runtime.set_default_logger_severity(2)


def missing(device: str) -> Optional[str]:
    """Return why ONNX Runtime cannot do modules on a device; None when it can."""
    if device != "cuda":
        return None
    try:
        providers = _runtime().get_available_providers()
    except Exception as error:  # whatever a broken installation raises
        return "ONNX Runtime cannot be imported: {}".format(error)
    return None if CUDA in providers else "this build of ONNX Runtime is not for NVIDIA's GPUs"


def content_kind() -> Tuple[str, ...]:
    """Return what an exported model depends on beside the module: nothing of the processor."""
    return ("onnx", version("onnx"), version("onnxscript"), version("onnxruntime", "onnxruntime-gpu"))


class Model(NamedTuple):
    """A model of ONNX."""

    data: bytes
    results: List[Any]
    """Tensors that have the sizes and types of its results."""


class InSession(Exported):
    """Does what a module does by a session of ONNX Runtime, on the module's own device."""

    keeping = KEEPING["onnxruntime"]
    otherwise = ONNX_RUNTIME

    def __init__(self, torch: Any, module: Any, tf32: bool = False) -> None:
        """``tf32`` is whether products in single precision may be computed in TF32, on a GPU."""
        super().__init__(torch, module)
        self._tf32 = tf32

    def made(self, graph: Model, tensors: List[Any], keep: Keep = None) -> Callable[[List[Any]], List[Any]]:
        data = self.written(graph, tensors)
        infer = self._reading(data, tensors, graph.results)
        if keep is not None:
            keep(data)
        return infer

    def written(self, graph: Model, tensors: List[Any]) -> bytes:
        return graph.data

    def _is_traced(self, tensors: List[Any]) -> bool:
        return bool(self._device(tensors).type == "cpu")

    def _from_trace(self, traced: Any, tensors: List[Any], results: List[Any]) -> Optional[Model]:
        self._check(tensors, results, TRACED_COPIES)
        if not is_alike(traced.inlined_graph):
            return None
        try:
            with _silent():
                return Model(weightless.written(self._torch, traced, self.module, tensors), results)
        except Exception as error:  # an operation that this exporter does not know or no longer has
            let_through(error)
            return None

    def _from_exported(self, exported: Any, tensors: List[Any]) -> Model:
        results = results_of(exported)
        self._device(tensors)
        self._check(tensors, results, COPIES)
        self._check_size()
        with _silent():
            model = self._torch.onnx.export(exported, tuple(tensors), dynamo=True, verbose=False).model_proto
        if _divides_by_sigmoids(model.graph):
            raise structures.Unsupported("the logarithm or the inverse of a sigmoid is computed, which is 0 too soon")
        return Model(model.SerializeToString(), results)

    def read(self, data: bytes, tensors: List[Any], results: List[Any]) -> Callable[[List[Any]], List[Any]]:
        return self._reading(data, tensors, results)

    def _reading(self, data: bytes, tensors: List[Any], results: List[Any]) -> Callable[[List[Any]], List[Any]]:
        """Return what does a model; on a GPU ``results`` are like those that it will have."""
        device = self._device(tensors)
        session = self._session(data, device)
        if [len(session.get_inputs()), len(session.get_outputs())] != [len(tensors), len(results)]:
            raise structures.Unsupported("the ONNX model has other arguments or results than the module")
        if device.type != "cuda":
            return _on_processor(self._torch, session)
        return _on_gpu(self._torch, session, device, results)

    def _device(self, tensors: List[Any]) -> Any:
        devices = {tensor.device for tensor in [*tensors, *self.module.parameters()]}
        if len(devices) != 1:
            raise structures.Unsupported("the arguments and weights are on several devices")
        return devices.pop()

    def _check(self, tensors: List[Any], results: List[Any], copies: int) -> None:
        """Raise MemoryError where there is no room for the weights, Unsupported for types."""
        for tensor in [*tensors, *results]:
            if str(tensor.dtype).rpartition(".")[2] not in ELEMENTS:
                raise structures.Unsupported("ONNX Runtime is given no tensors of {}".format(tensor.dtype))
        size, free = self._size(), hardware.free_memory()
        if free is not None and copies * size > free:
            raise MemoryError("an ONNX model takes {} MiB and {} MiB are free".format(copies * size >> 20, free >> 20))

    def _size(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self.module.parameters())

    def _check_size(self) -> None:
        """Raise MemoryError where the weights are too large to be in one model."""
        size = self._size()
        if size > LARGEST:
            raise MemoryError("the weights take {} MiB, more than an ONNX model in one piece may".format(size >> 20))

    def _session(self, data: bytes, device: Any) -> Any:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = self._torch.get_num_threads()
        providers: List[Any] = [CPU]
        if device.type == "cuda":
            number = self._torch.cuda.current_device() if device.index is None else device.index
            settings: Dict[str, str] = {"device_id": str(number), "use_tf32": str(int(self._tf32))}
            providers = [(CUDA, settings), CPU]
        with _silent(), _unlogged(runtime), _on(self._torch, device):
            # Without a fallback, of which it would print a line; nor does the adapter of sessions keep the content.
            model, _kept = weightless.read(data, self.module, options)
            session = runtime.InferenceSession(model, sess_options=options, providers=providers, enable_fallback=0)
        setattr(session, OWN, True)  # for the adapter of sessions
        children.never_free(session)
        if device.type == "cuda" and CUDA not in session.get_providers():
            # It says so in its log alone, and goes on with the processor (1.31).
            raise structures.Unsupported("ONNX Runtime cannot load its libraries for the GPU")
        return session


def _divides_by_sigmoids(graph: Any) -> bool:
    """Tell whether it matters that a sigmoid is a small number: below e to the power of -18, it is none (1.32)."""
    sigmoids = {name for node in graph.node if node.op_type == "Sigmoid" for name in node.output}
    inverted = {"Log": 0, "Reciprocal": 0, "Div": 1}
    return any(node.op_type in inverted and node.input[inverted[node.op_type]] in sigmoids for node in graph.node)


def _on_processor(torch: Any, session: Any) -> Callable[[List[Any]], List[Any]]:
    names = [entry.name for entry in session.get_inputs()]

    def infer(given: List[Any]) -> List[Any]:
        kept = [tensor.contiguous().resolve_neg() for tensor in given]
        arrays = {name: array_of(tensor) for name, tensor in zip(names, kept)}
        # Memory that the program may resize, and on a processor whatever the program's default device is.
        return [torch.tensor(array, device="cpu") for array in session.run(None, arrays)]

    return infer


def _on_gpu(torch: Any, session: Any, device: Any, results: List[Any]) -> Callable[[List[Any]], List[Any]]:
    numpy = importlib.import_module("numpy")
    names = [entry.name for entry in session.get_inputs()]
    returned = [(entry.name, tuple(like.shape), like.dtype) for entry, like in zip(session.get_outputs(), results)]
    number = torch.cuda.current_device() if device.index is None else device.index

    def element(tensor: Any) -> Any:
        return getattr(numpy, str(tensor.dtype).rpartition(".")[2].replace("bool", "bool_"))

    def infer(given: List[Any]) -> List[Any]:
        binding = session.io_binding()
        kept = [tensor.contiguous().resolve_neg() for tensor in given]
        made = [torch.empty(size, dtype=dtype, device=device) for _, size, dtype in returned]
        for name, tensor in zip(names, kept):
            binding.bind_input(name, "cuda", number, element(tensor), tuple(tensor.shape), tensor.data_ptr())
        for (name, size, _), tensor in zip(returned, made):
            binding.bind_output(name, "cuda", number, element(tensor), size, tensor.data_ptr())
        # The session has a stream of its own: it waits for what is under way, and its results are there when it ends.
        torch.cuda.current_stream(device).synchronize()
        with torch.cuda.device(device):
            session.run_with_iobinding(binding)
        return made

    return infer


def _on(torch: Any, device: Any) -> Any:
    """Return the context in which a GPU is the current one, and is no longer once ONNX Runtime has set another."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


class _Others:
    """Stands for an output stream: what other threads write goes there, what this one writes does not."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.silenced: Optional[int] = threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self.silenced else int(self._stream.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what the exporter says from the program's output: it prints, warns and logs (2.13)."""
    out, err = _Others(sys.stdout), _Others(sys.stderr)
    try:
        with openvino_cpu.silent(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:  # what has taken one of them for its own meanwhile may go on with it
        out.silenced = err.silenced = None
