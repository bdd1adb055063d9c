import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modak_deploy.util.files import PRIVATE, create_once, write_atomically


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_private_file_is_whole_or_not_there(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("old")
    file.chmod(0o644)
    write_atomically(file, "new", mode=PRIVATE)
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\ud800", mode=PRIVATE)
    assert file.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_shared_file_follows_the_umask(tmp_path: Path) -> None:
    write_atomically(tmp_path / "data", b"\x00")
    write_atomically(tmp_path / "job.sh", "#!/bin/sh\n", mode=0o777)
    assert (mode(tmp_path / "data"), mode(tmp_path / "job.sh")) == (0o640, 0o750)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomically(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "none" / "file", "text")


def test_a_file_that_is_there_is_not_created_again(tmp_path: Path) -> None:
    create_once(tmp_path / "key", "first")
    create_once(tmp_path / "key", "second")
    assert ((tmp_path / "key").read_text(), mode(tmp_path / "key")) == ("first", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("write", [write_atomically, create_once])
def test_the_file_is_synced_before_its_name(
    write: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def fsync(handle: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        synced.append((kind, (tmp_path / "key").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "key", "text")
    assert synced == [("file", False), ("folder", True)]


def test_a_file_system_that_syncs_no_folder_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "key", "text")
    assert (tmp_path / "key").read_text() == "text"


def test_a_name_of_the_longest_length_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("n" * 255), "text")
    assert (tmp_path / ("n" * 255)).read_text() == "text"
