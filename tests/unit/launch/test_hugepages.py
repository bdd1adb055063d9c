"""Memory moved into huge pages: which memory of a process, for how long, and where the system has none."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import pytest

from modak_deploy.launch import hardware, hugepages

HUGE = hugepages.page_size() or 2 << 20
SIZE = 24 * HUGE
NO_HUGE_PAGES = 15
"""MADV_NOHUGEPAGE of linux/mman.h."""
SMAPS = """\
{address} {permissions} 00000000 00:00 {inode}            {path}
Size:              {size} kB
Rss:               {size} kB
Shared_Clean:          0 kB
Shared_Dirty:      {shared} kB
Anonymous:         {size} kB
AnonHugePages:     {huge} kB
VmFlags: {flags}
"""
USUAL = {
    "address": "7f0000000000-7f0004000000", "permissions": "rw-p", "inode": 0, "path": "", "size": 65536,
    "shared": 0, "huge": 0, "flags": "rd wr mr mw me ac sd",
}  # fmt: skip


@pytest.fixture(autouse=True)
def unseen(monkeypatch):
    monkeypatch.setattr(hugepages, "_seen", hugepages._Seen())


def can_move(monkeypatch):
    monkeypatch.setattr(hugepages, "_LEAST", 0)
    return hugepages.refusal()


@pytest.fixture
def block(monkeypatch):
    """Return memory of the process's own, at the begin of a huge page, and its address."""
    reason = can_move(monkeypatch)
    if reason is not None:
        pytest.skip(reason)
    with mmap.mmap(-1, SIZE + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(NO_HUGE_PAGES)  # where the system gives huge pages to all
        address = ctypes.addressof(view := ctypes.c_char.from_buffer(memory))
        del view
        yield memory, -(-address // HUGE) * HUGE
        # What pytest keeps of a failure may hold the memory.


def touch(memory, step=4096):
    for place in range(0, len(memory), step):
        memory[place] = 1


def allow(address):
    assert ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(SIZE), 14) == 0


def considered(address):
    """Return the places in a block that would be moved."""
    return [place for place, _ in hugepages._full(HUGE, float("inf")) if address <= place < address + SIZE]


def huge(address):
    """Return the bytes in huge pages of the mapping that has an address."""
    with Path("/proc/self/smaps").open() as file:
        inside = False
        for line in file:
            first, _, rest = line.partition(" ")
            if "-" in first:
                start, end = (int(number, 16) for number in first.split("-"))
                inside = start <= address < end
            elif inside and first == "AnonHugePages:":
                return int(rest.split()[0]) * 1024
    return 0


def test_memory_in_use_is_moved(block):
    memory, address = block
    touch(memory)
    allow(address)
    memory[:5] = b"there"
    moved, done = hugepages.collapse(60.0)
    assert done
    assert moved >= SIZE
    assert huge(address) >= SIZE * 3 / 4
    assert memory[:5] == b"there"


def test_memory_that_the_program_hardly_uses_is_not_filled(block):
    memory, address = block
    touch(memory, HUGE // 4)
    allow(address)
    assert not considered(address)


def test_memory_that_the_program_has_only_read_is_not_filled(block):
    memory, address = block
    assert not any(memory[place] for place in range(0, len(memory), 4096))  # of the one page of zeros
    touch(memory, HUGE // 8)
    allow(address)
    before = hardware.resident_memory()
    hugepages.collapse(60.0)
    assert hardware.resident_memory() - before < SIZE / 4
    assert not considered(address)


def test_the_rest_of_huge_pages_takes_a_part_of_the_free_memory_alone(block, monkeypatch):
    memory, address = block
    touch(memory)
    allow(address)
    libc = ctypes.CDLL(None)
    for place in range(address, address + SIZE, 2 * HUGE):  # of every other one an eighth is not used
        assert libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(HUGE // 8), 4) == 0
    asked = []
    monkeypatch.setattr(hugepages, "_libc", lambda: Moves(asked))
    for free, partly in ((None, 0), (HUGE - 1, 0), (hugepages._ROOM * HUGE, 8), (1 << 40, SIZE // HUGE // 2)):
        asked.clear()
        monkeypatch.setattr(hardware, "free_memory", lambda free=free: free)
        hugepages.collapse(60.0)
        places = [(place - address) // HUGE for place in asked if address <= place < address + SIZE]
        assert len([place for place in places if place % 2]) == SIZE // HUGE // 2
        assert len([place for place in places if not place % 2]) <= partly  # others of the process may come first
    assert len(places) == SIZE // HUGE


class Moves:
    """A C library that only seems to move memory."""

    def __init__(self, asked):
        self._asked = asked

    def madvise(self, start, size, advice):
        self._asked.append(start)
        return 0


def test_memory_is_looked_at_seldom_where_that_takes_long(monkeypatch):
    now, looks = [1000.0], []

    def mappings():
        looks.append(now[0])
        now[0] += 0.5
        return [hugepages.Mapping(0, 1 << 30, (1 << 30) - 100 * len(looks))]

    monkeypatch.setattr(hugepages, "_mappings", mappings)
    monkeypatch.setattr(hugepages.clock, "now", lambda: now[0])
    for _ in range(1000):  # a program that grows all the time
        assert hugepages.movable() > 0
        now[0] += 0.2
    assert sum(0.5 for _ in looks) <= 0.01 * (now[0] - 1000.0) + 0.5
    assert hugepages.looking() == 0.5


def test_what_is_left_when_all_was_moved_stays(block, monkeypatch):
    memory, address = block
    touch(memory)
    allow(address)
    monkeypatch.setattr(hugepages, "_LEAST", 1)
    monkeypatch.setattr(hugepages, "_seen", hugepages._Seen())
    assert hugepages.movable() >= SIZE
    assert hugepages.collapse(60.0)[1]
    assert hugepages.movable() == 0
    hugepages._seen.small += 8 << 20
    assert hugepages.movable() == 8 << 20


def test_memory_for_which_the_program_wants_no_huge_pages_is_left_alone(block):
    memory, address = block
    touch(memory)
    assert not considered(address)


def test_memory_that_a_child_shares_is_left_alone(block):
    memory, address = block
    touch(memory)
    allow(address)
    wait, end = os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        os.read(wait, 1)
        os._exit(0)
    try:
        assert not considered(address)
    finally:
        os.close(wait)
        os.close(end)
        os.waitpid(child, 0)


def test_it_takes_no_longer_than_it_may(block):
    memory, address = block
    touch(memory)
    allow(address)
    assert considered(address)
    assert hugepages.collapse(-1.0) == (0, False)


def test_memory_that_is_only_reserved_takes_no_longer_than_it_may(monkeypatch):
    if can_move(monkeypatch) is not None:
        pytest.skip("nothing can be moved")
    size = 1 << 40
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) as memory:  # MAP_NORESERVE
        address = ctypes.addressof(view := ctypes.c_char.from_buffer(memory))
        del view
        monkeypatch.setattr(hugepages, "_mappings", lambda: [hugepages.Mapping(address, address + size, 1 << 30)])
        start = time.monotonic()
        assert hugepages.collapse(0.05) == (0, False)
        assert time.monotonic() - start < 1.0


def test_where_no_memory_is_left_it_ends(block, monkeypatch):
    memory, address = block
    touch(memory)
    allow(address)
    calls = []

    class Full:
        @staticmethod
        def madvise(*args):
            calls.append(args)
            return -1

    monkeypatch.setattr(hugepages, "_libc", Full)
    assert hugepages.collapse(60.0) == (0, True)
    assert len(calls) == hugepages._FAILURES


@pytest.mark.parametrize(
    ("enabled", "size", "reason"),
    [
        (None, HUGE, "the system has no transparent huge pages"),
        ("always madvise [never]\n", HUGE, "the system's transparent huge pages are switched off"),
        ("[always] madvise never\n", 512 << 20, "the system's huge pages are of 512 MiB"),
        ("always [madvise] never\n", 0, "the system's huge pages are of 0 MiB"),
    ],
)
def test_a_system_without_them_is_left_alone(monkeypatch, tmp_path, enabled, size, reason):
    if enabled is not None:
        (tmp_path / "enabled").write_text(enabled)
    (tmp_path / "hpage_pmd_size").write_text(f"{size}\n")
    monkeypatch.setattr(hugepages, "_SYSTEM", str(tmp_path))
    assert hugepages.refusal() == reason


@pytest.mark.parametrize(
    ("advised", "disabled", "reason"),
    [
        (-1, 0, "the system cannot move memory into huge pages"),
        (0, 1, "transparent huge pages are switched off for this process"),
        (0, 0, "the process has 1 MiB in small pages"),
    ],
)
def test_a_process_that_cannot_or_need_not_is_left_alone(monkeypatch, tmp_path, advised, disabled, reason):
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    (tmp_path / "hpage_pmd_size").write_text(f"{2 << 20}\n")

    class Libc:
        madvise = staticmethod(lambda *_: advised)
        prctl = staticmethod(lambda *_: disabled)

    monkeypatch.setattr(hugepages, "_SYSTEM", str(tmp_path))
    monkeypatch.setattr(hugepages, "_libc", Libc)
    monkeypatch.setattr(hugepages, "small_memory", lambda: 1 << 20)
    assert hugepages.refusal() == reason


@pytest.mark.parametrize(
    ("values", "small"),
    [
        ({}, 64 << 20),
        ({"path": "[heap]"}, 64 << 20),
        ({"path": "[anon: glibc: malloc]"}, 64 << 20),
        ({"huge": 65536 - 4096}, 4 << 20),
        ({"huge": 65536 - 4}, None),
        ({"shared": 65536}, None),
        ({"shared": 64}, 64 << 20),
        ({"path": "/weights with spaces.bin", "inode": 12}, None),
        ({"path": "[stack]"}, None),
        ({"permissions": "rw-s"}, None),
        ({"permissions": "r--p"}, None),
        *[({"flags": f"rd wr mr {flag} ac"}, None) for flag in ("nh", "um", "uw", "io", "pf", "dc", "wf", "gd")],
    ],
)
def test_which_mappings_are_looked_at(monkeypatch, tmp_path, values, small):
    entry = SMAPS.format(**{**USUAL, **values})
    file = tmp_path / "smaps"
    file.write_text(SMAPS.format(**{**USUAL, "permissions": "r-xp"}) + entry + SMAPS.format(**{**USUAL, "size": 8}))
    monkeypatch.setattr(hugepages, "_SMAPS", str(file))
    monkeypatch.setattr(hugepages, "page_size", lambda: 2 << 20)
    assert [mapping.small for mapping in hugepages._mappings()] == ([] if small is None else [small])
    monkeypatch.setattr(hugepages, "_SMAPS", str(tmp_path / "none"))
    assert hugepages._mappings() == []
    monkeypatch.setattr(hugepages, "_PAGEMAP", str(tmp_path / "none"))
    assert list(hugepages._full(2 << 20, float("inf"))) == []
