"""Calls of a module as a CUDA graph: its kernels are recorded once, and started together from then on."""

import contextlib
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from ... import structures
from . import compiler, outputs, values
from .exported import form_of

WARM = 3
"""Calls before the recorded one: kernels are compiled and chosen, libraries get their memory (PyTorch's own advice)."""
FORMS = 8
"""Forms of arguments for which calls are recorded at most: each takes the memory of a call."""
COPIES = frozenset(("_to_copy", "copy_", "to"))
IDLE = ("tqdm.", "torch.", "multiprocessing.queues.", "concurrent.futures.")
"""Where threads are from that most likely do nothing on a GPU: DataLoader's, the compiler's, tqdm's.

An executor of the program's own is not told apart from the compiler's. Where its thread waits for the whole GPU in the
milliseconds of a recording, CUDA refuses both.
"""


class Recorded(NamedTuple):
    """What was recorded for one form of arguments."""

    graph: Any
    given: List[Any]
    """Tensors from which the recorded kernels read the arguments."""
    result: Any
    """The result, in tensors to which they write."""
    stream: Any
    read: List[Any]
    """What else they read: it must not be freed."""


class Graphed:
    """Does what a module on a GPU does, recorded when arguments of a new form come.

    Python does not run again: what decides by values on the processor, or writes to its arguments, is refused, and what
    is written to a module's attributes is noticed elsewhere (``watch``). Where the recording itself fails, the process
    is as it was before.
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
        form = structures.shape((args, kwargs), form_of, is_leaf)
        recorded = self._recorded.get(form)
        if recorded is None:
            if len(self._recorded) >= FORMS:
                raise structures.Unsupported("the arguments have more than {} forms".format(FORMS))
            recorded = self._recorded[form] = self._record(args, kwargs)
        stream = torch.cuda.current_stream(recorded.stream.device)
        if stream != recorded.stream:
            stream.wait_stream(recorded.stream)
            self._recorded[form] = recorded = recorded._replace(stream=stream)
        with torch.no_grad(), torch.cuda.device(stream.device):
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
        other = _busy_thread()
        if other is not None:
            raise structures.Unsupported("the program has a thread, {}, that may use the GPU meanwhile".format(other))
        (device,) = devices
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(device):
            given = [tensor.detach().clone() for tensor in tensors]
            left = iter(given)
            own_args, own_kwargs = structures.replace((args, kwargs), lambda _: next(left), is_leaf)
            current, side = torch.cuda.current_stream(), torch.cuda.Stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                read = self._watched(given, own_args, own_kwargs)
                for _ in range(WARM):
                    self._function(*own_args, **own_kwargs)
            current.wait_stream(side)
            torch.cuda.empty_cache()
            reserved = torch.cuda.memory_reserved()
            graph, result = self._captured(side, own_args, own_kwargs)
            taken = torch.cuda.memory_reserved() - reserved
            if torch.cuda.mem_get_info()[0] < taken:  # the program's own calls need as much beside it
                raise MemoryError("a recorded call takes {} MiB, and less is free beside it".format(taken >> 20))
        return Recorded(graph, given, result, current, read)

    def _watched(self, given: List[Any], args: Any, kwargs: Any) -> List[Any]:
        """Do a call that is refused where it cannot be recorded; return the tensors that it read and did not make."""
        versions = [tensor._version for tensor in given]
        read: Dict[int, Any] = {}
        with _watching(self._torch, read):
            self._module(*args, **kwargs)
        if versions != [tensor._version for tensor in given]:
            raise structures.Unsupported("a call changes its arguments")
        return list(read.values())

    def _captured(self, stream: Any, args: Any, kwargs: Any) -> Any:
        torch = self._torch
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        # What autocast keeps of converted weights lives in memory that others get, not in the graph's.
        torch.clear_autocast_cache()
        # Where a recording ends badly, torch.cuda.graph leaves its stream the current one (2.13): not so the outer one.
        with torch.cuda.stream(torch.cuda.current_stream()):
            try:
                # Other threads may go on: those of DataLoaders pin memory.
                with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                    result = self._function(*args, **kwargs)
            except BaseException:
                self._mend(stream, pool)
                raise
            finally:
                torch.clear_autocast_cache()
        return graph, result

    def _mend(self, stream: Any, pool: Any) -> None:
        """Have the allocator and the generator of random numbers forget that a recording was under way when it failed.

        Both are told only where a recording ends well (CUDAGraph::capture_end in PyTorch 2.11): the generator by an
        empty one.
        """
        torch = self._torch
        with contextlib.suppress(Exception):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        with contextlib.suppress(Exception), torch.cuda.stream(torch.cuda.current_stream()):
            torch.cuda.synchronize()
            with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
                torch.zeros(1, device="cuda")


def _watching(torch: Any, read: Dict[int, Any]) -> Any:
    """Return the mode that refuses a call in which the processor waits for the GPU, or tensors go between the two.

    What the operations read and did not make is put into ``read``.
    """
    is_leaf = outputs.is_tensor(torch)
    made: Set[int] = set()

    class Mode(compiler.mode()):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = function.__name__.partition(".")[0]
            if values.by_value(torch, name, is_leaf, args):
                raise structures.Unsupported("{}: the processor waits for the GPU's values".format(name))
            given = values.tensors_in(is_leaf, (args, kwargs or {}))
            read.update((id(tensor), tensor) for tensor in given if id(tensor) not in made)
            result = function(*args, **(kwargs or {}))
            returned = values.tensors_in(is_leaf, result)
            made.update(id(tensor) for tensor in returned if id(tensor) not in read)
            both = [*given, *returned]
            if name in COPIES and len({tensor.device.type for tensor in both}) > 1:
                raise structures.Unsupported("{}: a tensor goes between the processor and the GPU".format(name))
            if any(tensor.device.type != "cuda" and tensor.dim() for tensor in both):
                raise structures.Unsupported("{}: a tensor is not on the GPU".format(name))
            return result

    return compiler.without(Mode)()


def _busy_thread() -> Optional[str]:
    """Return the name of another thread of the program that may wait for the GPU, which ends a recording (CUDA 13)."""
    for thread in threading.enumerate():
        if thread is threading.current_thread():
            continue
        work = getattr(thread, "_target", None) or type(thread)
        if not "{}.".format(getattr(work, "__module__", "")).startswith(IDLE):
            return thread.name
    return None
