"""Models of OpenVINO compiled for the processor, whatever framework they come from."""

import contextlib
import importlib
import importlib.metadata
import io
import logging
import os
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

from .. import hardware, memory, names
from ..quiet import unwarned
from ..versions import satisfies

EARLIEST = "2025.1"
"""The first version whose front ends read what the levers give them."""
TELEMETRY = "openvino_telemetry"
ROOM = 2 << 30
"""Bytes of addresses that OpenVINO may take with its libraries, threads and weights; the program wants some as well."""
LARGEST = 2**24
"""Whole number up to which all have a place in single precision."""
DEEP = "TBB_ENABLE_SANITIZERS"
"""The variable by which TBB loads no library so that it finds others' functions first."""
_cores: Dict[int, Any] = {}


def refusal() -> Optional[str]:
    """Return why the installed OpenVINO cannot be used; None when it can."""
    reason = _short()
    if reason is not None:
        return reason
    try:
        with names.library():
            version = importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return "the version of OpenVINO is unknown"
    return None if satisfies(version, ">=" + EARLIEST) else "OpenVINO {} is older than {}".format(version, EARLIEST)


def _short() -> Optional[str]:
    left = hardware.within_limits()
    if left is None or left >= ROOM:
        return None
    return "OpenVINO takes {} MiB of addresses, and {} MiB are left".format(ROOM >> 20, left >> 20)


@contextlib.contextmanager
def unreported() -> Iterator[None]:
    """Keep OpenVINO from reporting its use to its makers, and from starting processes for that, while it is imported.

    ``import openvino`` of 2026.4 does so unless the user has refused it in a file of their home; without its package
    for telemetry it has a stub in place of it.
    """
    missing = object()
    before = sys.modules.get(TELEMETRY, missing)
    sys.modules[TELEMETRY] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if before is missing:
            sys.modules.pop(TELEMETRY, None)
        else:
            sys.modules[TELEMETRY] = before  # type: ignore[assignment]


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep what exporter and converter have to say from the program's output.

    OpenVINO 2026.4 warns of each operation that PyTorch 2.13 no longer decomposes by ``logging.warning``, which would
    also set the program's logging up where it has not done so yet. What other threads log is the program's.
    """
    _unlogged.begin()
    try:
        with unwarned():
            yield
    finally:
        _unlogged.end()


class _Unlogged:
    """Threads that log nothing for a while; what others log is logged as ever."""

    def __init__(self) -> None:
        self._threads: List[int] = []
        self._lock = threading.Lock()
        self._handle: Callable[..., Any] = logging.Logger.handle
        self._set_up: Callable[..., Any] = logging.basicConfig

    def begin(self) -> None:
        """Have the current thread log nothing."""
        with self._lock:
            if not self._threads:
                self._handle, self._set_up = logging.Logger.handle, logging.basicConfig
                logging.Logger.handle = self._others(self._handle)  # type: ignore[method-assign]
                logging.basicConfig = self._others(self._set_up)
            self._threads.append(threading.get_ident())

    def end(self) -> None:
        """Have the current thread log again, where it has begun no more often."""
        with self._lock:
            self._threads.remove(threading.get_ident())
            if not self._threads:
                logging.Logger.handle = self._handle  # type: ignore[method-assign]
                logging.basicConfig = self._set_up

    def _others(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return None if threading.get_ident() in self._threads else function(*args, **kwargs)

        return call


_unlogged = _Unlogged()


def module(name: str = "openvino") -> Any:
    """Return a module of OpenVINO, imported if it is not yet; MemoryError where there is no room for it."""
    reason = None if name in sys.modules else _short()
    if reason is not None:
        raise MemoryError(reason)
    with unreported(), names.library():
        return importlib.import_module(name)


def core() -> Any:
    """Return OpenVINO's core, of which a process has one until it ends.

    On Linux, each core has signals of the thread that loads its plugin handled on a stack of its own, and frees that
    when it goes, while a later core still has it as the one to return to (``SigAltStackSetup``, openvino pull request
    11894, still in 2026.4). The program's next signal would end it, or write over what has come into that place. A
    forked process has none of its parent's threads, and takes a core of its own.
    """
    own = os.getpid()
    return _cores.get(own) or _cores.setdefault(own, _new_core())


def _new_core() -> Any:
    openvino = module()
    if memory.replacement() is None or DEEP in os.environ:
        return openvino.Core()
    # TBB loads what reads the machine's topology so that it finds the C library's free before a preloaded one's
    # (RTLD_DEEPBIND, oneTBB issue 1645, with OpenVINO 2025.1 to 2026.4), and ends the process with what the other
    # allocated. For sanitizers it can do without; the processor's name is asked for to have it loaded now.
    os.environ[DEEP] = "1"
    try:
        made = openvino.Core()
        made.get_property("CPU", "FULL_DEVICE_NAME")
    finally:
        os.environ.pop(DEEP, None)
    return made


def compiled(model: Any, precision: str, threads: int) -> Any:
    """Return what runs a model; ``precision`` is that of its kernels, ``f32`` or ``bf16``."""
    return compiled_model(model, precision, threads).create_infer_request()


def compiled_model(model: Any, precision: str, threads: int) -> Any:
    """Return a model that is compiled for the processor."""
    return core().compile_model(model, "CPU", _settings(precision, threads))


def written(model: Any) -> bytes:
    """Return a compiled model as another process can read it."""
    stream = io.BytesIO()
    model.export_model(stream)
    return stream.getvalue()


def read(data: bytes, precision: str, threads: int) -> Any:
    """Return the compiled model that another process has written."""
    return core().import_model(io.BytesIO(data), "CPU", _settings(precision, threads))


def _settings(precision: str, threads: int) -> Dict[str, Any]:
    return {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,  # which cores are the job's is the scheduler's decision
    }


def check_range(array: Any) -> None:
    """Raise OverflowError for large whole numbers, which some of the processor's kernels take for others (2026.4).

    Comparisons, sums, the largest of several and what is clamped are computed in single precision, whatever the type.
    """
    wide = array.size and array.dtype.kind in "iu" and array.dtype.itemsize >= 4
    if wide and (array.max() > LARGEST or array.min() < -LARGEST):
        raise OverflowError("an argument holds whole numbers beyond 24 bits")


def check_finite(array: Any) -> None:
    """Raise ValueError for values that are not finite, which some of the processor's kernels lose (2026.4).

    Relu, Max and others make a number of what is none, and the largest of numbers is one of those given.
    """
    if array.dtype.kind == "f" and not bool(importlib.import_module("numpy").isfinite(array).all()):
        raise ValueError("an argument holds values that are not finite")


def check_precision(model: Any) -> None:
    """Raise ValueError for a model in double precision, whose kernels on the processor are in single precision."""
    for operation in model.get_ops():
        if any(output.get_element_type().get_type_name() == "f64" for output in operation.outputs()):
            raise ValueError("the model computes in double precision")
