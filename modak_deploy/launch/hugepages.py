"""Memory of this process in huge pages, whoever has allocated it.

A processor keeps the places of some thousand pages at hand (the TLB). A program that reads more memory than these hold,
such as its weights in each unit, waits for a look into the page tables at each page of 4 KiB, and at each of 2 MiB 512
times less often. Where the system gives huge pages only to those that ask for them (transparent_hugepage/enabled:
madvise, the default of many distributions), nobody does, unless a program is started with glibc's or PyTorch's setting.
Since version 6.1, Linux also moves memory that is in use into huge pages, when asked (madvise(2), MADV_COLLAPSE).
Nothing moves it back.
"""

import ctypes
import functools
import os
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import clock, hardware
from .files import open_file

_SYSTEM = "/sys/kernel/mm/transparent_hugepage"
_SMAPS = "/proc/self/smaps"
_PAGEMAP = "/proc/self/pagemap"
"""Eight bytes for each page (pagemap in the kernel's documentation)."""
_HIGHEST = 7 if sys.byteorder == "little" else 0
_OWN = b"\x81"
"""The highest of them for a page that is there, and this process's alone: neither shared with a fork nor the page of
zeros that stands for what was only read."""
_COLLAPSE = 25
"""MADV_COLLAPSE of linux/mman.h, the same on all architectures."""
_GET_DISABLED = 42
"""PR_GET_THP_DISABLE of linux/prctl.h."""
_LARGEST = 32 << 20
"""Bytes of a huge page at most: with small pages of 64 KiB it is 512 MiB, which few programs fill."""
_LEAST = 32 << 20
"""Bytes in small pages, below which processors know the places of all."""
_FULL = 0.75
"""Part of a huge page that the program has used before: it takes the rest as well."""
_SHARED = 1 / 64
"""Part of a mapping that is shared with another process at most: after a fork, each would get pages of its own."""
_ROOM = 8
"""Part of the free memory, its divisor, that the rest of huge pages may take at most."""
_FAILURES = 8
"""Pages in a row that cannot be moved, after which no others are tried: there is no memory for them."""
_SPAN = 64
"""Huge pages that are looked at together."""
_SELDOM = 100
"""Times as long as it took to count the small pages, before they are counted again: 17 ms for each GiB (AMD EPYC)."""
_LEFT_ALONE = frozenset(("nh", "um", "uw", "ui", "io", "pf", "dc", "wf", "ss", "gd"))
"""Flags of mappings in smaps (proc(5)) of which the program wants something: no huge pages, to handle faults itself, or
a device's memory; and stacks."""


_NEVER = float("-inf")


class Mapping(NamedTuple):
    """Memory of the process's own."""

    start: int
    end: int
    small: int
    """Bytes of it in small pages."""


def refusal() -> Optional[str]:
    """Return why memory cannot be moved into huge pages, or need not be; None where it can."""
    enabled = _line("enabled").split()
    if not enabled:
        return "the system has no transparent huge pages"
    if "[never]" in enabled:
        return "the system's transparent huge pages are switched off"
    size = page_size()
    if not 0 < size <= _LARGEST:
        return "the system's huge pages are of {} MiB".format(size >> 20)
    libc = _libc()
    if libc is None or libc.madvise(None, 0, _COLLAPSE):  # of no memory: only whether the system has it
        return "the system cannot move memory into huge pages"
    if libc.prctl(_GET_DISABLED, 0, 0, 0, 0):
        return "transparent huge pages are switched off for this process"
    small = small_memory()
    if small < _LEAST:
        return "the process has {} MiB in small pages".format(small >> 20)
    return None


def page_size() -> int:
    """Return the bytes of a huge page; 0 where there are none."""
    text = _line("hpage_pmd_size").strip()
    return int(text) if text.isdigit() else 0


def small_memory() -> int:
    """Return the bytes of this process's own memory in small pages, about."""
    if clock.now() - _seen.end >= _SELDOM * _seen.seconds:
        _look()
    return _seen.small


def movable() -> int:
    """Return the bytes of them that can be moved, about: what was left when all had been moved stays."""
    left = small_memory() - _seen.left
    return left if left >= _LEAST else 0


def looking() -> float:
    """Return the seconds that it takes to see what can be moved."""
    return _seen.seconds


def collapse(seconds: float) -> Tuple[int, bool]:
    """Move memory into huge pages for about so long; return the bytes that are moved, and whether that was all."""
    libc, size = _libc(), page_size()
    if libc is None or not size:
        return 0, True
    end, moved, failures = clock.now() + seconds, 0, 0
    room = (hardware.free_memory() or 0) // _ROOM
    for start, unused in _full(size, end):
        if unused > room:
            continue
        if libc.madvise(start, size, _COLLAPSE):
            failures += 1
            if failures >= _FAILURES:
                break
        else:
            moved, failures, room = moved + size, 0, room - unused
    complete = failures >= _FAILURES or clock.now() < end
    _seen.end, _seen.complete = _NEVER, complete
    return moved, complete


class _Seen:
    """What was seen of the process's memory last."""

    end = _NEVER
    seconds = 0.0
    small = 0
    complete = False
    """Whether all that could be moved was, and what is in small pages since has not been counted."""
    left = 0
    """Bytes in small pages when that was so."""


_seen = _Seen()


def _look() -> List[Mapping]:
    start = clock.now()
    mappings = _mappings()
    _seen.end = clock.now()
    _seen.seconds, _seen.small = _seen.end - start, sum(mapping.small for mapping in mappings)
    if _seen.complete:
        _seen.complete, _seen.left = False, _seen.small
    return mappings


def _full(size: int, end: float) -> Iterator[Tuple[int, int]]:
    """Yield, until a time, where huge pages can begin of which nearly all is used, and the bytes of each that are not.

    Some of them may be there already. Of what is only reserved there may be a thousand times as much.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    each = size // page
    mappings = sorted(_look(), key=lambda mapping: -mapping.small)
    try:
        file = open_file(_PAGEMAP, "rb", buffering=0)
    except OSError:
        return
    with file:
        for mapping in mappings:
            first, last = -(-mapping.start // size) * size, mapping.end // size * size
            for start in range(first, last, _SPAN * size):
                if clock.now() >= end:
                    return
                file.seek(start // page * 8)
                pages = file.read(min(last - start, _SPAN * size) // page * 8)[_HIGHEST::8]
                for number in range(len(pages) // each):
                    used = pages.count(_OWN, number * each, (number + 1) * each)
                    if used >= _FULL * each and clock.now() < end:
                        yield start + number * size, (each - used) * page


def _mappings() -> List[Mapping]:
    """Return the mappings with memory of the process's own in small pages, enough for a huge one."""
    try:
        with open_file(_SMAPS, encoding="utf-8", errors="replace") as lines:
            return [mapping for mapping in map(_mapping, _entries(lines)) if mapping is not None]
    except OSError:
        return []


def _entries(lines: Any) -> Iterator[Tuple[List[str], Dict[str, List[str]]]]:
    """Yield the heading of each mapping with what is said about it."""
    heading: List[str] = []
    values: Dict[str, List[str]] = {}
    for line in lines:
        fields = line.split(None, 5)
        if fields and not fields[0].endswith(":"):
            if heading:
                yield heading, values
            heading, values = fields, {}
        elif fields:
            values[fields[0]] = line.split()[1:]
    if heading:
        yield heading, values


def _mapping(entry: Tuple[List[str], Dict[str, List[str]]]) -> Optional[Mapping]:
    heading, values = entry
    path = heading[5].strip() if len(heading) > 5 else ""
    if heading[1][:2] != "rw" or heading[1][3:] != "p" or heading[4] != "0":
        return None
    if path not in ("", "[heap]") and not path.startswith("[anon:"):
        return None
    if _LEFT_ALONE.intersection(values.get("VmFlags:", ())):
        return None
    if _bytes(values, "Shared_Clean:") + _bytes(values, "Shared_Dirty:") > _SHARED * _bytes(values, "Rss:"):
        return None
    start, _, end = heading[0].partition("-")
    small = _bytes(values, "Anonymous:") - _bytes(values, "AnonHugePages:")
    return Mapping(int(start, 16), int(end, 16), small) if small >= page_size() > 0 else None


def _bytes(values: Dict[str, List[str]], name: str) -> int:
    number = values.get(name, ["0"])[0]
    return int(number) * 1024 if number.isdigit() else 0


@functools.lru_cache(maxsize=None)
def _libc() -> Any:
    """Return the C library with what is used of it; None where it has not."""
    try:
        libc = ctypes.CDLL(None)
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no such library
        return None
    return libc


def _line(name: str) -> str:
    try:
        with open_file(_SYSTEM + "/" + name, encoding="utf-8") as file:
            return file.read(1024)
    except (OSError, ValueError):
        return ""
