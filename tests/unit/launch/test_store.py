"""What is kept from run to run: whole, bounded, the user's own; and nothing that goes wrong with it is an error."""

import contextlib
import os
import stat
import subprocess
import sys
import time

import pytest

from modak_deploy.launch import hardware, store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such descriptors")
NAMES = [f"{number:08x}-{number:08x}" for number in range(9)]
DATA = b"what was made" * 1000


@pytest.fixture
def reasons():
    return []


@pytest.fixture
def kept(tmp_path, reasons):
    return store.Store(str(tmp_path / "cache"), "made", reasons.append)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "made"


def names_in(folder):
    return sorted(file.name for file in folder.iterdir())


def test_what_was_put_is_there_for_another_process(kept, folder, tmp_path):
    assert (kept.names(), kept.get(NAMES[0])) == ([], None)
    assert not folder.exists()
    kept.put(NAMES[0], DATA)
    other = store.Store(str(tmp_path / "cache"), "made", pytest.fail)
    assert other.names() == [NAMES[0]]
    assert other.get(NAMES[0]) == DATA
    other.agreed(NAMES[0])
    assert names_in(folder) == [NAMES[0]]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, folder / NAMES[0])] == [
        0o700, 0o700, 0o600,
    ]  # fmt: skip
    other.remove(NAMES[0])
    assert kept.names() == []


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def longer(path):
    path.write_bytes(path.read_bytes() + b"x")


def change(path):
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def empty(path):
    path.write_bytes(b"")


def older_format(path):
    path.write_bytes(path.read_bytes().replace(b"kept 1", b"kept 0"))


def huge(path):
    os.truncate(path, store.LIMIT + 1000)


def unproved(path):
    mark = path.with_name(path.name + ".reading")
    mark.touch()
    os.utime(mark, (1, 1))


@pytest.mark.parametrize("damage", [cut, longer, change, empty, older_format, huge, unproved])
def test_damaged_entry_is_removed(kept, folder, damage, reasons):
    kept.put(NAMES[0], DATA)
    damage(folder / NAMES[0])
    assert kept.get(NAMES[0]) is None
    assert names_in(folder) == [] and reasons == []
    kept.put(NAMES[0], DATA)
    assert kept.get(NAMES[0]) == DATA


def test_entry_that_ended_its_reader_is_read_once(kept, folder, monkeypatch):
    kept.put(NAMES[0], DATA)
    assert kept.get(NAMES[0]) == DATA  # and its process ends without a word
    assert kept.get(NAMES[0]) == DATA  # by a job that has begun at the same time
    monkeypatch.setattr(store, "DOUBTFUL", -1.0)
    assert kept.get(NAMES[0]) is None
    assert names_in(folder) == []


def others_may_write(cache, entry):
    cache.chmod(0o770)


def others_may_write_below(cache, entry):
    entry.parent.chmod(0o777)


def others_may_write_to_it(cache, entry):
    entry.chmod(0o666)


def link_to_folder(cache, entry):
    entry.parent.rename(cache.parent / "elsewhere")
    entry.parent.symlink_to(cache.parent / "elsewhere")


def link_to_file(cache, entry):
    entry.rename(cache / "elsewhere")
    entry.symlink_to(cache / "elsewhere")


def pipe(cache, entry):
    entry.unlink()
    os.mkfifo(entry)
    with contextlib.suppress(OSError):
        entry.chmod(0o622)


def file_in_its_place(cache, entry):
    entry.unlink()
    entry.parent.rmdir()
    entry.parent.touch()


@pytest.mark.parametrize(
    "attack",
    [
        others_may_write,
        others_may_write_below,
        others_may_write_to_it,
        link_to_folder,
        link_to_file,
        pipe,
        file_in_its_place,
    ],
)
def test_what_others_may_have_written_is_not_read(kept, folder, attack, reasons):
    kept.put(NAMES[0], DATA)
    attack(folder.parent, folder / NAMES[0])
    assert kept.get(NAMES[0]) is None
    kept.put(NAMES[1], DATA)
    kept.remove(NAMES[0])
    assert len(reasons) == 1
    assert (kept.names(), kept.get(NAMES[1])) == ([], None)


def test_folder_of_another_user_is_not_used(kept, folder, monkeypatch, reasons):
    kept.put(NAMES[0], DATA)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert kept.get(NAMES[0]) is None
    assert reasons == [f"Refused: {folder.parent} belongs to another user"]


def test_cache_may_be_a_link_to_a_larger_disk(kept, folder, tmp_path, reasons):
    (tmp_path / "large").mkdir(mode=0o700)
    folder.parent.symlink_to(tmp_path / "large")
    kept.put(NAMES[0], DATA)
    assert kept.get(NAMES[0]) == DATA and reasons == []


def test_what_was_used_least_recently_goes_first(kept, folder, monkeypatch):
    size = len(DATA) + store._HEAD
    monkeypatch.setattr(store, "LIMIT", 3 * size)
    for number in range(3):
        kept.put(NAMES[number], DATA)
        os.utime(folder / NAMES[number], (number + 1, number + 1))
    assert kept.get(NAMES[0]) == DATA  # it is the one used last from here on
    kept.put(NAMES[3], DATA)
    assert sorted(kept.names()) == [NAMES[0], NAMES[2], NAMES[3]]
    kept.put(NAMES[4], DATA * 4)
    assert sorted(kept.names()) == [NAMES[0], NAMES[2], NAMES[3]]
    monkeypatch.setattr(store, "ENTRIES", 2)
    kept.put(NAMES[5], b"x")
    assert len(kept.names()) == 2 and NAMES[5] in kept.names()


def test_no_more_than_a_part_of_the_free_disk_is_taken(kept, monkeypatch):
    monkeypatch.setattr(store, "PART", 1e-12)
    kept.put(NAMES[0], DATA)
    assert kept.names() == []


def test_files_that_nobody_writes_any_more_are_removed(kept, folder):
    kept.put(NAMES[0], DATA)
    (folder / ".new-of-now").touch()
    for name in (".new-0123", f"{NAMES[1]}.reading", "of-the-users"):
        (folder / name).touch()
        os.utime(folder / name, (1, 1))
    kept.put(NAMES[2], DATA)
    assert names_in(folder) == sorted([NAMES[0], NAMES[2], ".new-of-now", "of-the-users"])


def test_full_disk_is_one_reason(kept, folder, monkeypatch, reasons):
    kept.put(NAMES[0], DATA)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    kept.put(NAMES[1], DATA)
    kept.put(NAMES[2], DATA)
    assert reasons == ["OSError: [Errno 28] No space left on device"]
    assert names_in(folder) == [NAMES[0]]


def test_vanished_folder_is_made_again(kept, folder, reasons):
    kept.put(NAMES[0], DATA)
    (folder / NAMES[0]).unlink()
    folder.rmdir()
    assert (kept.names(), kept.get(NAMES[0])) == ([], None)
    kept.put(NAMES[0], DATA)
    assert kept.get(NAMES[0]) == DATA and reasons == []


def test_folder_that_cannot_be_made_is_one_reason(tmp_path, reasons):
    (tmp_path / "file").touch()
    kept = store.Store(str(tmp_path / "file" / "cache"), "made", reasons.append)
    kept.put(NAMES[0], DATA)
    kept.put(NAMES[1], DATA)
    assert len(reasons) == 1 and reasons[0].startswith("NotADirectoryError")


def test_file_in_place_of_the_cache_switches_it_off(kept, folder, reasons):
    folder.parent.touch()
    kept.put(NAMES[0], DATA)
    assert (kept.names(), kept.get(NAMES[0]), len(reasons)) == ([], None, 1)


def test_what_does_not_fit_into_memory_is_not_read(kept, monkeypatch, reasons):
    kept.put(NAMES[0], DATA)
    monkeypatch.setattr(hardware, "free_memory", lambda: len(DATA))
    assert kept.get(NAMES[0]) is None
    assert reasons[0].startswith("MemoryError")


def test_several_processes_at_once_see_whole_entries(tmp_path):
    text = f"""
import sys
from modak_deploy.launch import store
store.LIMIT = 100_000
kept = store.Store({str(tmp_path / "cache")!r}, "made", sys.exit)
for turn in range(150):
    name = "{{0:08x}}-{{0:08x}}".format(turn % 7)
    data = kept.get(name)
    assert data is None or data == bytes([turn % 7]) * 20_000
    kept.agreed(name)
    kept.put(name, bytes([turn % 7]) * 20_000)
    if turn % 5 == 0:
        kept.remove(name)
"""
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[1] for process in running] == [""] * 3
    assert [process.returncode for process in running] == [0, 0, 0]
    assert time.monotonic() - began < 60
