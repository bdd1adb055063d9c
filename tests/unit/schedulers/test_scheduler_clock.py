"""A node's clock that is set while a job runs: its duration is still the true one, or none at all."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from modak_deploy.jobs.record import parse_exit
from scheduler_parts import Part, shells
from scriptruns import run

HEAD = "tag=modak-0123456789abcdef\nstate=completed\ncode=0\n"


# busybox's shell runs its own date, whatever is on the path.
SHELLS = [words for words in shells() if words[0] != "busybox"]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize("jump", [3603, -3603])
def test_a_clock_that_jumps_while_the_application_runs(
    shell: list[str], jump: int, job_folder: Callable[..., tuple[Path, Part]], tmp_path: Path
) -> None:
    real = shutil.which("date")
    date = tmp_path / "date"
    date.write_text(
        f'#!/bin/sh\n[ -e {tmp_path}/set ] || exec {real} "$@"\n'
        f'exec {real} -d "{abs(jump)} seconds{" ago" if jump < 0 else ""}" "$@"\n'
    )
    date.chmod(0o755)
    folder, _ = job_folder("process", "sh", "-c", f"touch {tmp_path}/set; sleep 0.3")
    assert run(folder, shell, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}) == 0
    record = parse_exit((folder / "state" / "exit").read_text())
    assert record is not None
    assert record.start is not None
    assert record.end is not None
    assert abs(record.end - record.start - jump) < 600
    assert record.seconds is not None
    assert 0.2 < record.seconds < 600


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ("start=100.5\nend=103.5\n", 3.0),
        ("start=100.5\nend=103.5\nuptime_start=10.00\nuptime_end=13.01\n", 3.0),
        ("start=100\nend=3703\nuptime_start=10.00\nuptime_end=13.01\n", 3.01),
        ("start=3700\nend=103\nuptime_start=10.00\nuptime_end=13.01\n", 3.01),
        ("start=1000000\nend=1086443\nuptime_start=5.00\nuptime_end=86405.00\n", 86443.0),
        ("start=3700\nend=103\n", None),
        ("start=3700\nend=103\nuptime_start=10.00\nuptime_end=\n", None),
        ("start=100\nend=103\nuptime_start=13.00\nuptime_end=10.00\n", 3.0),
        ("start=100\nend=103\nuptime_start=²\nuptime_end=10.00\n", 3.0),
        ("start=100\nend=" + "9" * 400 + "\n", None),
    ],
)
def test_durations(lines: str, seconds: float | None) -> None:
    record = parse_exit(HEAD + lines)
    assert record is not None
    assert record.seconds == seconds
