"""What a checkout left running that was deleted without ``down`` is removed by the next one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.rig import CANNOT, TOP


def _rig(checkout: Path, command: str) -> str:
    """Run slurm.sh of a checkout and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    done = subprocess.run(
        [checkout / "tests" / "real" / "slurm.sh", command],
        capture_output=True, text=True, timeout=180, env=environment,
    )  # fmt: skip
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip())
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def _command_line(pid: int) -> bytes:
    """Return the command of a process; that of one that has ended is empty."""
    path = Path("/proc") / str(pid) / "cmdline"
    return path.read_bytes() if path.exists() else b""


def test_of_a_deleted_checkout(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for checkout in (first, second):
        shutil.copytree(TOP / "tests" / "real", checkout / "tests" / "real")
    folder = Path(_rig(first, "up"))
    pids = [int(path.read_text()) for path in (folder / "run").glob("*.pid")]
    assert len(pids) == 7  # munged, slurmctld, four slurmd, sshd
    shutil.rmtree(first)
    try:
        assert Path(_rig(second, "up")) != folder
        assert not folder.exists()
        assert not [pid for pid in pids if str(folder).encode() in _command_line(pid)]
    finally:
        _rig(second, "down")
