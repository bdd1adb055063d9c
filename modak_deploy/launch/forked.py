"""The process of its own in which ``background`` has work done: a fork of the program's, which must not disturb it."""

import contextlib
import errno
import gc
import logging
import os
import signal
import sys
import warnings
from typing import Any, BinaryIO, Callable, Set

from . import clock, hardware
from .files import open_file

try:
    import fcntl
    import resource
except ImportError:  # Windows, where there is nothing to be forked
    pass

NICE = 2
"""Little: where no core is free after all it must get on, and what it takes the program would have spent on it."""
REPORT = 1000
"""Bytes that it says about its end."""
READY, FAILED, SHORT = b"ready ", b"failed ", b"short "
PASSING = ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH")
"""Signals that schedulers and terminals send to all processes of a job, and that are meant for the program; the
real-time ones are as well."""
NO_MEMORY = ("allocate memory", "bad_alloc", "not enough memory")
"""What libraries say in errors of their own where there is no memory."""


def do(work: Callable[[BinaryIO], None], report: int, content: int, seconds: float, memory: int) -> None:
    """Do the work, tell how it ended, and end; ``content`` and ``report`` are descriptors."""
    start = clock.now()
    message = b""
    try:
        _end_with_the_program(report, seconds)
        _isolate({report, content})
        _limit_memory(memory)
        with open_file(content, "wb", closefd=False) as file:
            work(file)
        message = READY + "{:.3f}".format(clock.now() - start).encode()
    except BaseException as error:
        text = " ".join("{}: {}".format(type(error).__name__, error).split())
        message = ((SHORT if _is_short(error) else FAILED) + text.encode("utf-8", "replace"))[:REPORT]
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
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})  # from here on, whatever happens
    signal.set_wakeup_fd(-1)
    passing = {getattr(signal, name) for name in PASSING}
    passing.update(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
    for number in signal.valid_signals() - {signal.SIGALRM}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN if number in passing else signal.SIG_DFL)
    fcntl.fcntl(report, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(report, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with contextlib.suppress(BlockingIOError):
        os.read(report, 1)
        os._exit(0)  # the program has ended before


def _isolate(keep: Set[int]) -> None:
    """Have nothing that the program holds open, or has begun, go on in this process."""
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
    with contextlib.suppress(OSError), open_file("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # where memory is short, this process goes first


def _limit_memory(memory: int) -> None:
    """Have allocations fail before the program has no memory left: a cgroup may end with all that is in it.

    What the program has of its own is left to it once more. RLIMIT_DATA counts what is private and can be written,
    also where it comes from mmap (getrlimit(2)), and not, as RLIMIT_AS does, what is only reserved.
    """
    own, data, free = hardware.resident_memory(), hardware.data_memory(), hardware.free_memory()
    if data is None or free is None:
        return
    left = max(0, free - (own or 0))
    limit = data + max(memory, (memory + left) // 2)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    _quietly(resource.setrlimit, resource.RLIMIT_DATA, (limit, most))


def _is_short(error: BaseException) -> bool:
    """Tell whether there was no memory."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return any(text in str(error) for text in NO_MEMORY)


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    with contextlib.suppress(OSError, ValueError):
        function(*arguments)
