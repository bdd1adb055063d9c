import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modak_deploy.util.files import PRIVATE, create_once, exists, listed, write_atomically


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


def test_a_folder_is_listed_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "a.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in listed(tmp_path, "*.yaml")] == ["a.yaml", "b.yaml"]
    assert len(listed(tmp_path)) == 3
    assert listed(tmp_path / "absent") == listed(tmp_path / "a.txt") == []


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(PermissionError):
        listed(tmp_path)


def test_what_cannot_be_looked_up_is_left_to_reading(tmp_path: Path) -> None:
    assert exists(tmp_path)
    assert not exists(tmp_path / "absent")
    assert exists(tmp_path / ("x" * 300))  # reading it says: File name too long
