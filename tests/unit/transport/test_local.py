"""This machine as a target, and scripts that pass through login shells."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from modak_deploy.errors import InputError, TargetError
from modak_deploy.shell import enclose
from modak_deploy.transport.local import LocalTransport, encode

ODD = "a b\n'c' \"d\" $HOME `id` $(id) \\n \\0101 100% !history ~ # ü \x01 \udcff end"


def test_exit_code_and_both_outputs() -> None:
    done = LocalTransport().run("cat; echo err >&2; exit 7", stdin=b"in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "err\n")


def test_output_that_is_no_text_is_kept_byte_for_byte() -> None:
    data = bytes(range(256))
    assert encode(LocalTransport().run("cat", stdin=data).stdout) == data


def test_no_standard_input_is_empty_input() -> None:
    assert LocalTransport().run("cat").stdout == ""


def test_command_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"this machine did not answer within 0\.2 s"):
        LocalTransport().run(f"echo $$ >{tmp_path}/pid; sleep 60; true", timeout=0.2)
    pid = (tmp_path / "pid").read_text().strip()
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    assert state in ("", "Z", "Zs")


def test_command_has_a_session_of_its_own() -> None:
    """Ctrl-C reaches modak, and not what it has begun on the target."""
    assert LocalTransport().run("ps -o sess= -p $$").stdout.strip() != str(os.getsid(0))


def test_copies(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\0data")
    LocalTransport().put(tmp_path / "a", str(tmp_path / "b"))
    LocalTransport().fetch(str(tmp_path / "b"), tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == b"\0data"
    with pytest.raises(TargetError, match=r"cannot be copied to .*: No such file or directory"):
        LocalTransport().fetch(str(tmp_path / "nowhere"), tmp_path / "d")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox sh"])
def test_enclosed_script_passes_every_login_shell(shell: str) -> None:
    program = shell.split()
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    script = f'set -- {_quoted(ODD)}\nprintf %s "$1"\ncat\nexit 3\n'
    line = enclose(script)
    assert "\n" not in line
    done = subprocess.run([*program, "-c", line], input=b"in", capture_output=True)
    assert (done.returncode, done.stdout) == (3, encode(ODD) + b"in")


def test_enclosed_script_without_nul() -> None:
    with pytest.raises(InputError, match="NUL"):
        enclose("a\0b")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
