"""Work in a process of its own while the program goes on, of which nothing is left but bytes.

The process is a fork, since what it works on is in the program's memory. The program does not notice it: it is the
child of a child that has ended, so that no ``os.wait`` of the program's waits for it; all that it has inherited open
leads to ``/dev/null``, so that what is in buffers is not written twice and no lock or connection stays open for it; and
what it makes is in memory without a name. The kernel ends it with the program, however that ends, and when its time is
up.
"""

import contextlib
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
import warnings
import weakref
from typing import Any, BinaryIO, Callable, Optional, Set, cast

from . import hardware

NICE = 2
"""Little: where no core is free after all it must get on, and what it takes the program would have spent on it."""
GRACE = 5.0
"""Seconds after its time, when a process is given up that the kernel should have ended."""
REPORT = 1000
"""Bytes that it says about its end."""
READY, FAILED = b"ready ", b"failed "
STARTS = 10.0
"""Seconds in which a process must have started another one."""
FOREIGN = ("grpc", "jax", "mpi4py", "tensorflow")
"""Modules whose threads or connections a fork disturbs, and that say so on standard error."""
ENDED = "the process that made it ready in the background ended without a result"
_tasks: "weakref.WeakSet[Task]" = weakref.WeakSet()
_registered = False


def refusal(threads: int, memory: int) -> Optional[str]:
    """Return why nothing can be done beside a program that computes with so many threads.

    ``memory`` is how much the work takes, in bytes.
    """
    if not hasattr(os, "fork") or not hasattr(os, "memfd_create") or not os.path.exists("/proc/thread-self/status"):
        return "this system is not Linux"
    if hardware.cores() <= threads:
        return "the program leaves no core free"
    module = next((name for name in FOREIGN if name in sys.modules), None)
    if module is not None:
        return "the program has imported {}, which a fork disturbs".format(module)
    if _notices_children():
        return "the program waits for children of its own"
    free = hardware.free_memory()
    if free is not None and free < memory:
        return "it takes {} MiB and {} MiB are free".format(memory >> 20, free >> 20)
    return None


def busy(threads: int) -> bool:
    """Tell whether all cores that the program leaves free are taken by such work."""
    return hardware.cores() - threads <= sum(not task.poll() for task in list(_tasks))


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


def _heeds(number: int) -> bool:
    """Tell whether a signal is caught, ignored or blocked, by the program or by a library."""
    with open("/proc/thread-self/status", encoding="ascii", errors="replace") as file:
        masks = [line.split()[1] for line in file if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))]
    return len(masks) < 3 or any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


class Task:
    """Work that is under way in a process of its own, or has been done there."""

    def __init__(self, work: Callable[[BinaryIO], None], seconds: float) -> None:
        """Begin; ``work`` writes what it makes to a file, within so many seconds. OSError where it cannot begin."""
        self.ended = False
        self.problem: Optional[str] = None
        """Why there is no result, once it has ended."""
        self.late = False
        """Whether its time was up."""
        self.seconds = 0.0
        """What it took, once it has ended."""
        self._began = time.monotonic()
        self._limit = seconds
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
            _detach(lambda: _do(work, report, content, self._limit))
        finally:
            os.close(content)

    def poll(self) -> bool:
        """Tell whether it has ended."""
        if self.ended:
            return True
        over = time.monotonic() - self._began
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
        elif report.startswith(FAILED):
            self.problem = report[len(FAILED) :].decode("utf-8", "replace")
        else:
            self.late = over >= self._limit
            self.problem = "it was not ready after {:.0f} s".format(self._limit) if self.late else ENDED
        return True

    def content(self) -> bytes:
        """Return what was made; that is possible once."""
        if self._file is None:
            raise ValueError("nothing is left of it")
        file, self._file = self._file, None
        with open(file, "rb") as stream:
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
        with contextlib.suppress(Exception):
            self.close()


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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # no handler runs in the children
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of forks where there are threads
            child = os.fork()
            if not child:
                _start(function)
        _reap(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(function: Callable[[], None]) -> None:
    status = 1
    try:
        if os.fork():
            status = 0
        else:
            function()
    finally:
        os._exit(status)


def _reap(child: int) -> None:
    """Wait until a child has started another process."""
    limit = time.monotonic() + STARTS
    pid = status = 0
    while not pid:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # the program has waited for it
            return
        if not pid and time.monotonic() > limit:  # locks that another thread held may be locked for ever in a fork
            os.kill(child, signal.SIGKILL)
            limit = math.inf
        time.sleep(0 if pid else 0.001)
    if status:
        raise OSError("no process can be started")


# in the process of its own


def _do(work: Callable[[BinaryIO], None], report: int, content: int, seconds: float) -> None:
    start = time.monotonic()
    message = b""
    try:
        _end_with_the_program(report, seconds)
        _isolate({report, content})
        with open(content, "wb", closefd=False) as file:
            work(file)
        message = READY + "{:.3f}".format(time.monotonic() - start).encode()
    except BaseException as error:
        text = " ".join("{}: {}".format(type(error).__name__, error).split())
        message = (FAILED + text.encode("utf-8", "replace"))[:REPORT]
    finally:
        try:
            os.write(report, message)
        finally:
            os._exit(0)


def _end_with_the_program(report: int, seconds: float) -> None:
    """Have the kernel end this process when its time is up, and when nobody waits for its report any more.

    Neither waits for what this process is doing: by default SIGALRM and SIGIO end it (signal(7)), and SIGIO comes when
    the other end of a socket with O_ASYNC is closed (fcntl(2)). PR_SET_PDEATHSIG tells of the child between alone.
    """
    import fcntl

    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    fcntl.fcntl(report, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(report, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with contextlib.suppress(BlockingIOError):
        os.read(report, 1)
        os._exit(0)  # the program has ended before


def _isolate(keep: Set[int]) -> None:
    """Have nothing that the program holds open, or has begun, go on in this process."""
    import resource

    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {null, *keep}:  # the numbers stay taken: buffers of the program's files lead to them
            os.dup2(null, int(name), inheritable=False)
    gc.freeze()  # finalizers of the program's objects are the program's
    sys.dont_write_bytecode = True  # a file that is half written would be left
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 1 if most == resource.RLIM_INFINITY else min(1, most)  # at 0 a program could still get it (core(5))
    _quietly(resource.setrlimit, resource.RLIMIT_CORE, (limit, most))
    _quietly(os.nice, NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # where memory is short, this process goes first


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    with contextlib.suppress(OSError, ValueError):
        function(*arguments)
