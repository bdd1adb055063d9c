"""Folders for compiled code: of one processor and version, the user's own, and not growing for ever."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from modak_deploy.launch import compiled, hardware

fcntl = pytest.importorskip("fcntl", reason="Windows keeps no folder")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "workspace" / "cache"


def test_each_version_and_processor_has_a_folder(cache, monkeypatch):
    first = compiled.folder(str(cache), "pytorch", "2.13")
    assert compiled.folder(str(cache), "pytorch", "2.13") == first
    assert {stat.S_IMODE(path.stat().st_mode) for path in (cache, cache / "compiled", Path(first))} == {0o700}
    others = [compiled.folder(str(cache), "pytorch", "2.14"), compiled.folder(str(cache), "jax", "2.13")]
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx2",)))
    others.append(compiled.folder(str(cache), "pytorch", "2.13"))
    monkeypatch.setattr(hardware, "cpu_model", lambda: "another one")
    others.append(compiled.folder(str(cache), "pytorch", "2.13"))
    assert len({first, *others}) == 5


@pytest.mark.parametrize("which", ["", "compiled", "framework"])
def test_what_others_may_write_is_not_used(cache, which):
    folder = Path(compiled.folder(str(cache), "pytorch", "2.13"))
    (folder if which == "framework" else cache / which).chmod(0o770)
    with pytest.raises(OSError, match="others may write to"):
        compiled.folder(str(cache), "pytorch", "2.13")


def test_link_is_not_followed(cache, tmp_path):
    folder = Path(compiled.folder(str(cache), "pytorch", "2.13"))
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError):
        compiled.folder(str(cache), "pytorch", "2.13")


def test_disk_without_locks_is_not_used(cache, monkeypatch):
    def lacks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", lacks)
    with pytest.raises(OSError, match="not implemented"):
        compiled.folder(str(cache), "pytorch", "2.13")


@pytest.mark.parametrize(
    ("free", "flags", "reason"), [(1, 0, "less than 256"), (1 << 20, getattr(os, "ST_NOEXEC", 8), "may be run")]
)
def test_disk_on_which_a_compiler_fails_is_not_used(cache, free, flags, reason, monkeypatch):
    disk = SimpleNamespace(f_bavail=free, f_frsize=4096, f_flag=flags)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    with pytest.raises(OSError, match=reason):
        compiled.folder(str(cache), "pytorch", "2.13")


@pytest.mark.parametrize(("days", "left"), [(0.5, 4), (2.0, 1)])
def test_oldest_files_go_once_a_day(cache, days, left, monkeypatch):
    folder = Path(compiled.folder(str(cache), "pytorch", "2.13"))
    monkeypatch.setattr(compiled, "LIMIT", 2000)
    now = folder.stat().st_mtime
    for number in range(4):
        file = folder / f"kernel{number}"
        file.write_bytes(b"x" * 900)
        age = 0 if number == 3 else days * compiled.DAY + number
        os.utime(file, (now - age, now - age))
    assert compiled.folder(str(cache), "pytorch", "2.13") == str(folder)
    assert len(list(folder.iterdir())) == 4
    stamp = cache / "compiled" / ".looked"
    os.utime(stamp, (1, 1))
    compiled.folder(str(cache), "pytorch", "2.13")
    assert (folder / "kernel3").exists()
    assert len(list(folder.iterdir())) == left
    assert stamp.stat().st_mtime > now - 60
