"""glibc's malloc told to keep memory, seen by the page faults of blocks that are freed and allocated again."""

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest

from modak_deploy.launch import memory

ROUNDS = 8
BLOCK = 64 << 20
PAGES = BLOCK // 4096
COUNT = f"""
import ctypes, resource, sys
from modak_deploy.launch import memory
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({ROUNDS}):
        block = libc.malloc({BLOCK})
        libc.memset(block, 1, {BLOCK})
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
counts = [faults()]
for on in (True, False, True):
    memory.keep(on)
    counts.append(faults())
print(*counts)
"""

glibc = pytest.mark.skipif(memory.refusal() is not None, reason=f"{memory.refusal()}")


@glibc
def test_kept_memory_is_not_cleared_again_for_each_block():
    given = subprocess.run([sys.executable, "-c", COUNT], check=True, capture_output=True, text=True).stdout
    usual, kept, usual_again, kept_again = map(int, given.split())
    # Where the system backs blocks by huge pages, a fault is one of 2 MiB, and the first use of the heap is the rest.
    assert usual >= ROUNDS * PAGES // 512
    assert kept <= usual / 4
    assert usual_again >= usual / 2
    assert kept_again <= usual / 4


@pytest.mark.parametrize(
    ("libraries", "reason"),
    [
        ({}, "the C library is not glibc"),
        ({"libc.so.6": {"malloc": 1}}, "the C library is not glibc"),
        ({"libc.so.6": {"malloc": 1, "mallopt": 3}}, None),
    ],
)
def test_another_c_library_is_left_alone(monkeypatch, libraries, reason):
    def load(name):
        if name not in libraries:
            raise OSError(f"{name}: cannot open shared object file")
        return SimpleNamespace(**libraries[name])

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert memory.refusal() == reason


def test_a_setting_that_is_refused_is_an_error(monkeypatch):
    monkeypatch.setattr(memory, "_wanting", set())
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda number, value: number != -4))
    with pytest.raises(OSError, match="mallopt refuses option -4"):
        memory.keep(True)


@pytest.mark.parametrize(
    ("name", "value"), [("MALLOC_TRIM_THRESHOLD_", "1000"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0")]
)
def test_what_the_user_has_set_stays(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert memory.refusal() == f"{name} sets malloc already"


def test_memory_is_kept_as_long_as_a_lever_wants_it(monkeypatch):
    calls = []
    monkeypatch.setattr(memory, "_wanting", set())
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *args: calls.append(args) or 1))
    memory.keep(True, "one")
    memory.keep(True, "other")
    calls.clear()
    memory.keep(False, "one")
    assert not calls
    memory.keep(False, "other")
    assert len(calls) == len(memory._USUAL)
