"""Whether glibc's malloc keeps what a program frees, or gives it back to the system at once.

By default glibc takes blocks above a threshold, which never exceeds 32 MiB, from the system by mmap and gives them back
when they are freed, and it cuts the heap's free end off (mallopt(3), "Dynamic adjustment of the mmap threshold"). A
program that allocates the same large blocks in each unit of work then has all their pages cleared again each time: with
PyTorch 2.13, ResNet50 and 16 images at once, 400,000 page faults and a third of the time.
"""

import ctypes
import os
from typing import Any, Optional, Set

from .files import open_file

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

_C_LIBRARIES = ("libc.", "libc-", "ld-")
"""What the names of the C library's file begin with: glibc's since 2.34 and before, and musl's."""
_KEPT = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER}
_USUAL = {
    _MMAP_MAX: _USUAL_BLOCKS,
    _MMAP_THRESHOLD: _LARGEST_THRESHOLD,
    _TRIM_THRESHOLD: 2 * _LARGEST_THRESHOLD,
}


def refusal() -> Optional[str]:
    """Return why malloc cannot be told to keep memory; None where glibc's can.

    What the user has set cannot be read back.
    """
    library = replacement()
    if library is not None:
        return "malloc is that of {}".format(library)
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


def replacement() -> Optional[str]:
    """Return the library whose malloc is used in place of the C library's, as a preloaded jemalloc; None where none is.

    All allocators replace posix_memalign too. The addresses of malloc and free do not tell: in an executable that is
    not position-independent, such as Debian's Python, they are within the executable.
    """
    try:
        address = ctypes.cast(ctypes.CDLL(None).posix_memalign, ctypes.c_void_p).value or 0
        with open_file("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            lines = [line.split(None, 5) for line in maps]
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no such library
        return None
    for fields in lines:
        first, _, last = fields[0].partition("-")
        if int(first, 16) <= address < int(last, 16):
            name = os.path.basename(fields[5].strip()) if len(fields) > 5 else ""
            return name if name and not name.startswith(_C_LIBRARIES) else None
    return None


_wanting: Set[str] = set()
"""Names of the levers that want freed memory kept."""


def keep(on: bool, lever: str = "") -> None:
    """Have freed memory kept for the next allocation; or as by default again, once blocks of all sizes were freed.

    It is kept as long as a ``lever`` wants it. Other threads than the first have heaps of 64 MiB (malloc/arena.c); what
    is larger stays as it is for them.
    """
    (_wanting.add if on else _wanting.discard)(lever)
    if _wanting and not on:
        return
    mallopt: Any = ctypes.CDLL("libc.so.6").mallopt
    refused = [number for number, value in (_KEPT if on else _USUAL).items() if not mallopt(number, value)]
    if refused:
        raise OSError("mallopt refuses option {}".format(refused[0]))
