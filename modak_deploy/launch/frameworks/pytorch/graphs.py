"""Calls of a module as a CUDA graph: its kernels are recorded once, and started together from then on."""

import contextlib
import importlib
from typing import Any, Callable, Dict, List, NamedTuple

from ... import structures
from . import outputs

WARM = 3
"""Calls before the recorded one: kernels are compiled and chosen, libraries get their memory (PyTorch's own advice)."""
BY_VALUE = frozenset(
    ("_local_scalar_dense", "equal", "is_nonzero", "item", "masked_select", "nonzero", "unique_consecutive",
     "_unique", "_unique2", "unique_dim")
)  # fmt: skip
"""Operations whose results, or their sizes, the processor has to wait for."""


class Recorded(NamedTuple):
    """What was recorded for one form of arguments."""

    graph: Any
    given: List[Any]
    """Tensors from which the recorded kernels read the arguments."""
    result: Any
    """The result, in tensors to which they write."""
    stream: Any


class Graphed:
    """Does what a module on a GPU does, recorded when arguments of a new form come.

    Python does not run again: what decides by values on the processor is refused before anything is recorded, and what
    is written to a module's attributes is noticed elsewhere (``watch``).
    """

    def __init__(self, torch: Any, module: Any, function: Callable[..., Any]) -> None:
        """``function`` is what is recorded: the module itself, or a compiled function that does the same."""
        self._torch = torch
        self._module = module
        self._function = function
        self._recorded: Dict[Any, Recorded] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = self._torch
        is_leaf = outputs.is_tensor(torch)
        form = structures.shape((args, kwargs), _form, is_leaf)
        recorded = self._recorded.get(form)
        if recorded is None:
            recorded = self._recorded[form] = self._record(args, kwargs)
        stream = torch.cuda.current_stream()
        if stream != recorded.stream:
            stream.wait_stream(recorded.stream)
            self._recorded[form] = recorded = recorded._replace(stream=stream)
        with torch.no_grad():
            for kept, tensor in zip(recorded.given, structures.leaves((args, kwargs), is_leaf)):
                kept.copy_(tensor)
            recorded.graph.replay()
            return structures.replace(recorded.result, lambda tensor: tensor.clone(), is_leaf)

    def _record(self, args: Any, kwargs: Any) -> Recorded:
        torch = self._torch
        is_leaf = outputs.is_tensor(torch)
        tensors = structures.leaves((args, kwargs), is_leaf)
        devices = {tensor.device for tensor in [*tensors, *self._module.parameters(), *self._module.buffers()]}
        if len(devices) != 1 or next(iter(devices)).type != "cuda":
            raise structures.Unsupported("the arguments and weights are not on one GPU")
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(next(iter(devices))):
            given = [tensor.detach().clone() for tensor in tensors]
            left = iter(given)
            own_args, own_kwargs = structures.replace((args, kwargs), lambda _: next(left), is_leaf)
            current, side = torch.cuda.current_stream(), torch.cuda.Stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                with _Watched(torch)():
                    self._module(*own_args, **own_kwargs)
                for _ in range(WARM):
                    self._function(*own_args, **own_kwargs)
            current.wait_stream(side)
            graph, result = self._captured(side, own_args, own_kwargs)
        return Recorded(graph, given, result, current)

    def _captured(self, stream: Any, args: Any, kwargs: Any) -> Any:
        torch = self._torch
        graph = torch.cuda.CUDAGraph()
        # What autocast keeps of converted weights lives in memory that others get, not in the graph's.
        torch.clear_autocast_cache()
        try:
            # Other threads of the program may go on: those of DataLoaders pin memory.
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                result = self._function(*args, **kwargs)
        except BaseException:
            self._mend(stream)
            raise
        finally:
            torch.clear_autocast_cache()
        return graph, result

    def _mend(self, stream: Any) -> None:
        """Have the generator of random numbers forget that a recording was under way when it failed.

        The state is set back where a recording ends well (CUDAGraph::capture_end in PyTorch 2.11): an empty one does.
        """
        torch = self._torch
        with contextlib.suppress(Exception):
            torch.cuda.synchronize()
            with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
                torch.zeros(1, device="cuda")


class _Watched:
    """Makes the mode that refuses a call in which the processor waits for the GPU or gives tensors to it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __call__(self) -> Any:
        torch = self._torch
        base: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
        is_leaf = outputs.is_tensor(torch)

        class Mode(base):  # type: ignore[misc]
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                name = function.__name__.partition(".")[0]
                masked = name.startswith("index") and any(
                    tensor.dtype in (torch.bool, torch.uint8) for tensor in _tensors(is_leaf, args[1:2])
                )
                if name in BY_VALUE or masked:
                    raise structures.Unsupported("{}: the processor waits for the GPU's values".format(name))
                result = function(*args, **(kwargs or {}))
                for tensor in _tensors(is_leaf, (args, kwargs or {}, result)):
                    if tensor.device.type != "cuda" and tensor.dim():
                        raise structures.Unsupported("{}: a tensor is not on the GPU".format(name))
                return result

        return Mode()


def _tensors(is_leaf: Callable[[Any], bool], value: Any) -> List[Any]:
    """Return the tensors among an operation's arguments and results, which hold numbers, types and lists besides."""
    if is_leaf(value):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [tensor for item in value for tensor in _tensors(is_leaf, item)]


def _form(tensor: Any) -> Any:
    return (tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device)
