"""Work in a process of its own while the program goes on, of which nothing is left but bytes.

The process is a fork, since what it works on is in the program's memory. The program does not notice it: it is the
child of a child that has ended, so that no ``os.wait`` of the program's waits for it, unless orphans are given to the
program, which is left alone then; all that it has inherited open leads to ``/dev/null``, so that what is in buffers is
not written twice and no lock or connection stays open for it; and what it makes is in memory without a name. The kernel
ends it with the program, however that ends, and when its time is up.
"""

import ctypes
import math
import os
import signal
import socket
import sys
import threading
import types
import weakref
from typing import Any, BinaryIO, Callable, Optional, cast

from . import clock, hardware
from .files import open_file
from .forked import FAILED, READY, REPORT, SHORT, do
from .quiet import unwarned

GRACE = 5.0
"""Seconds after its time, when a process is given up that the kernel should have ended."""
STARTS = 10.0
"""Seconds in which a process must have started another one."""
KILLED = 2.0
"""Seconds in which a process has ended after SIGKILL, unless it waits in the kernel for something that never comes."""
LARGEST = 4 << 30
"""Bytes of a program that a fork may share: each page that the program writes meanwhile is copied first. 256 MiB in
huge pages took 0.66 s to rewrite in place of 0.01 s, and were in small pages from then on."""
FOREIGN = ("eventlet", "gevent", "grpc", "jax", "mpi4py", "tensorflow")
"""Modules whose threads, loops or connections a fork disturbs, or that say so on standard error."""
SCHEDULERS = {
    "PBS_JOBID": "PBS or Torque",
    "SGE_TASK_ID": "Grid Engine",
    "LSB_JOBID": "LSF",
}
"""Variables of schedulers that sum up the memory of a job's processes: what a fork shares counts twice, and the job is
killed for it. Torque's mom_over_limit() compares the virtual sizes of a session's processes with ``vmem``; Grid
Engine's ``h_vmem`` is such a sum as well, and LSF's is of resident sizes."""
_GET_CHILD_SUBREAPER = 37
"""PR_GET_CHILD_SUBREAPER of linux/prctl.h."""
ENDED = "the process that made it ready in the background ended without a result"
_tasks: "weakref.WeakSet[Task]" = weakref.WeakSet()
_registered = False


def refusal(threads: int, memory: int) -> Optional[str]:
    """Return why nothing can be done beside a program that computes with so many threads.

    ``memory`` is how much the work takes, in bytes.
    """
    if not hasattr(os, "fork") or not hasattr(os, "memfd_create") or not os.path.exists("/proc/thread-self/status"):
        return "this system is not Linux"
    if hardware.physical_cores() <= threads:
        return "the program leaves no core free"
    module = next((name for name in FOREIGN if name in sys.modules), None)
    if module is not None:
        return "the program has imported {}, which a fork disturbs".format(module)
    if not all(isinstance(function, types.BuiltinFunctionType) for function in (os.fork, os.waitpid)):
        return "something has replaced os.fork or os.waitpid"  # and may report children later, or never
    scheduler = next((name for variable, name in SCHEDULERS.items() if variable in os.environ), None)
    if scheduler is None and "SGE_ROOT" in os.environ and "JOB_ID" in os.environ:
        scheduler = "Grid Engine"
    if scheduler is not None:
        return "{} counts memory that processes share for each of them".format(scheduler)
    if _notices_children():
        return "the program waits for children of its own"
    if _adopts_orphans():
        return "processes whose parent has ended become children of the program's"
    return _short_of_memory(memory)


def _short_of_memory(memory: int) -> Optional[str]:
    """Return why there is too little memory: the program may rewrite all of its own meanwhile, which doubles it."""
    own = hardware.resident_memory() or 0
    if own > LARGEST:
        return "the program's {} MiB are too much to be shared with a fork".format(own >> 20)
    free = hardware.free_memory()
    if free is not None and free < own + memory:
        return "it takes {} MiB and {} MiB are free".format((own + memory) >> 20, free >> 20)
    return None


def running() -> int:
    """Return how much such work is under way."""
    return sum(not task.poll() for task in list(_tasks))


def busy(threads: int) -> bool:
    """Tell whether all cores that the program leaves free are taken by such work."""
    return hardware.physical_cores() - threads <= running()


def _notices_children() -> bool:
    """Tell whether the program could notice a child for the moment that it takes to start another process.

    It could by a handler of SIGCHLD, by waiting for that signal, or by a thread that waits for any child.
    """
    if _heeds(signal.SIGCHLD):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # it has none, and whoever waits for one returns at once
        return False
    return threading.active_count() > 1


def _adopts_orphans() -> bool:
    """Tell whether processes whose parent has ended become this process's children (PR_SET_CHILD_SUBREAPER(2const))."""
    if os.getpid() == 1:
        return True
    answer = ctypes.c_int(1)
    try:
        prctl: Any = ctypes.CDLL(None).prctl
        return bool(prctl(_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)) or bool(answer.value)
    except (OSError, AttributeError):  # nobody can tell
        return True


def _heeds(number: int) -> bool:
    """Tell whether a signal is caught, ignored or blocked, by the program or by a library."""
    with open_file("/proc/thread-self/status", encoding="ascii", errors="replace") as file:
        masks = [line.split()[1] for line in file if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))]
    return len(masks) < 3 or any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


class Task:
    """Work that is under way in a process of its own, or has been done there."""

    def __init__(self, work: Callable[[BinaryIO], None], seconds: float, memory: int = 0) -> None:
        """Begin; ``work`` writes what it makes to a file, within so many seconds. OSError where it cannot begin.

        ``memory`` is how much the work takes, in bytes: the process gets no more than half of what is free beyond that.
        """
        self.ended = False
        self.problem: Optional[str] = None
        """Why there is no result, once it has ended."""
        self.undecided = False
        """Whether that may be due to this job: its time was up, memory was short, or it was killed."""
        self.seconds = 0.0
        """What it took, once it has ended."""
        self._began = clock.now()
        self._limit = seconds
        self._memory = memory
        self._file: Optional[int] = None
        self._socket, far = socket.socketpair()
        _register()
        _tasks.add(self)
        try:
            self._socket.setblocking(False)
            self._file = os.memfd_create("modak")
            self._begin(work, far.fileno())
        except BaseException:
            self.close()
            raise
        finally:
            far.close()

    def _begin(self, work: Callable[[BinaryIO], None], report: int) -> None:
        content = os.dup(cast(int, self._file))  # forked children close the other one
        try:
            _detach(lambda: do(work, report, content, self._limit, self._memory))
        finally:
            os.close(content)

    def poll(self) -> bool:
        """Tell whether it has ended."""
        if self.ended:
            return True
        over = clock.now() - self._began
        try:
            report = self._socket.recv(REPORT)
        except BlockingIOError:
            if over < self._limit + GRACE:
                return False
            report = b""
        except OSError:
            report = b""
        self.ended, self.seconds = True, over
        self._socket.close()
        if report.startswith(READY):
            self.seconds = _seconds(report[len(READY) :], over)
        elif report.startswith((FAILED, SHORT)):
            self.undecided = report.startswith(SHORT)
            self.problem = report.partition(b" ")[2].decode("utf-8", "replace")
        else:
            self.undecided = True
            self.problem = "it was not ready after {:.0f} s".format(self._limit) if over >= self._limit else ENDED
        return True

    def content(self) -> bytes:
        """Return what was made; that is possible once."""
        if self._file is None:
            raise ValueError("nothing is left of it")
        file, self._file = self._file, None
        with open_file(file, "rb") as stream:
            stream.seek(0)
            return stream.read()

    def close(self) -> None:
        """End it, and forget what it has made."""
        self.ended, self.problem = True, self.problem or "it was not waited for"
        self._socket.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # modules may be gone when Python ends, and contextlib with them
            pass


def _seconds(text: bytes, most: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return most
    return min(seconds, most) if math.isfinite(seconds) and seconds >= 0 else most


def _register() -> None:
    """Have forked children of the program hold nothing of it open: it ends with the program, not with them."""
    global _registered
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_leave)


def _leave() -> None:
    for task in list(_tasks):
        task.close()


def _detach(function: Callable[[], None]) -> None:
    """Call a function, which does not return, in a process that is no child of this one."""
    child = 0
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # no handler runs in the children
        try:
            with unwarned():  # Python 3.12 warns of forks where there are threads
                child = os.fork()
                if not child:
                    _start(function)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        status = _status(child, STARTS)
    except BaseException:  # of a handler of the program's: the child ends by itself
        if child:
            _status(child, KILLED)
        raise
    if status is None:  # locks that another thread held may be locked for ever in a fork
        os.kill(child, signal.SIGKILL)
        _status(child, KILLED)  # where it cannot be killed, the kernel does that later
    if status != 0:
        raise OSError("no process can be started")


def _start(function: Callable[[], None]) -> None:
    status = 1
    try:
        if os.fork():
            status = 0
        else:
            function()
    finally:
        os._exit(status)


def _status(child: int, seconds: float) -> Optional[int]:
    """Wait until a child has ended, for so long; return how it did, None where it has not."""
    limit = clock.now() + seconds
    while True:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # the program has waited for it
            return 0
        if pid:
            return status
        if clock.now() > limit:
            return None
        clock.sleep(0.001)
