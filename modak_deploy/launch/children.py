"""Libraries that the launcher loads, and objects of theirs, in processes that the program forks.

Threads do not go along with a fork. ONNX Runtime 1.32 has some as soon as it is imported, and for each session; what
frees them when the process ends, or a session goes, waits for ever for what these threads held (pthread_cond_destroy).
Children of ``multiprocessing`` end without that (os._exit); others end as the program's own interpreter does.
"""

import ctypes
import os
import weakref
from typing import Any, Set

_libraries: Set[str] = set()
_objects: Any = weakref.WeakSet()


def end_without(library: str) -> None:
    """Have forked processes end without what a library does at the end of the process.

    Handlers of exit(3) are called in reverse order. Those that were there before the fork are left out; what C has
    buffered is written.
    """
    _register()
    _libraries.add(library)


def never_free(used: Any) -> None:
    """Have forked processes keep an object that has threads, until they end."""
    _register()
    _objects.add(used)


def _register() -> None:
    if not _libraries and not len(_objects) and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for used in list(_objects):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(used))
    libc = ctypes.CDLL(None)
    if _libraries and hasattr(libc, "on_exit"):  # of glibc alone
        libc.on_exit(libc._exit, None)
        libc.on_exit(libc.fcloseall, None)
