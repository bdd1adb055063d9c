"""rsync itself, over a login that is this machine."""

import os
import time
from pathlib import Path

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.transport import process
from modak_deploy.transport.local import LocalTransport
from modak_deploy.transport.rsync import PARTIAL, RemoteShell, Rsync, rsync_over
from shells import Reached, needs_rsync

pytestmark = needs_rsync

NAME = "a b 'c' $(id) *.bin"
DATA = os.urandom(300_000)


def over(transport: Reached) -> Rsync:
    rsync = rsync_over(transport)
    assert rsync is not None
    return rsync


def test_there_and_back_under_an_odd_name(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA)
    there = tmp_path / "there: x"
    there.mkdir()
    transport = Reached(tmp_path)
    assert over(transport).put(tmp_path / NAME, str(there / NAME))
    assert over(transport).fetch(str(there / NAME), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == DATA
    assert [path.name for path in there.iterdir()] == [NAME]
    assert (transport.logins, transport.carried) == (2, 0)


def test_same_size_and_time_are_no_reason_to_leave_a_file_out(tmp_path: Path) -> None:
    for name, data in (("new", b"12345"), ("old", b"abcde")):
        (tmp_path / name).write_bytes(data)
        os.utime(tmp_path / name, (1, 1))
    assert over(Reached(tmp_path)).put(tmp_path / "new", str(tmp_path / "old"))
    assert (tmp_path / "old").read_bytes() == b"12345"


def test_damaged_rest_of_an_earlier_try_is_mended(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    (tmp_path / "there" / PARTIAL).mkdir(parents=True)
    (tmp_path / "there" / PARTIAL / "copy").write_bytes(DATA[:1000] + b"x" * 5000 + DATA[6000:200_000])
    assert over(Reached(tmp_path)).put(tmp_path / "file", str(tmp_path / "there" / "copy"))
    assert (tmp_path / "there" / "copy").read_bytes() == DATA
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["copy"]


def test_no_rsync_over_there_is_not_usable(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "sh").symlink_to("/bin/sh")
    (tmp_path / "file").write_bytes(DATA)
    rsync = over(Reached(tmp_path, path=str(tmp_path / "empty")))
    assert not rsync.put(tmp_path / "file", str(tmp_path / "copy"))
    assert not rsync.fetch(str(tmp_path / "file"), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_copy_that_fails_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        TargetError, match=r"rsync cannot copy here:/.*nowhere to .*: No such file or directory"
    ) as caught:
        over(Reached(tmp_path)).fetch(str(tmp_path / "nowhere"), tmp_path / "copy")
    assert "\n" not in str(caught.value)


def test_without_rsync_here_or_a_way_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rsync_over(LocalTransport()) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rsync_over(Reached(tmp_path)) is None


def test_what_it_says_is_read_in_bounds(tmp_path: Path) -> None:
    program = tmp_path / "rsync"
    program.write_text("#!/bin/sh\nhead -c 2000000 /dev/zero >&2\nexit 23\n")
    program.chmod(0o755)
    with pytest.raises(TargetError, match="more than 1 MiB came by standard error"):
        Rsync(str(program), RemoteShell(["ssh"], "here")).put(tmp_path / "file", "/copy")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_ends_with_whoever_has_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "rsync"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 20\n")
    program.chmod(0o755)

    def interrupted(*_: object) -> None:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Rsync(str(program), RemoteShell(["ssh"], "here")).put(tmp_path / "file", "/copy")
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 10
    while runs(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_program_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="rsync cannot be started: No such file or directory"):
        Rsync(str(tmp_path / "rsync"), RemoteShell(["ssh"], "here")).put(tmp_path / "file", "/copy")
