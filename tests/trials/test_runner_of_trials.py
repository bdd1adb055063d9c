"""The runner of restart trials by itself: whatever goes wrong in it, the program runs as the Plan starts it."""

import os
import subprocess
from pathlib import Path

import pytest

from scheduler_parts import shells
from trial_parts import FAST, LOOP, restart, staged, with_trials


def started(line: list[str], folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command line in the working directory of ``staged``, and return how it ended."""
    variables = {**os.environ, "TRACE": str(folder / "trace"), **environment}
    return subprocess.run(
        line, cwd=folder / "here", env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("shell", shells(), ids=" ".join)
@pytest.mark.parametrize("name", ["record", "log"])
def test_what_cannot_be_written_keeps_no_program_from_running(tmp_path: Path, shell: list[str], name: str) -> None:
    """As on a disk or with a quota that is used up: a link that leads nowhere in the file's place refuses it."""
    new, _ = with_trials(LOOP % "exit 3", restart(FAST, budget=20), tmp_path)
    line = [*shell, *staged(new, tmp_path)[1:]]
    (tmp_path / "restart" / name).symlink_to(tmp_path / "nowhere" / name)
    done = started(line, tmp_path)
    assert (done.returncode, done.stdout.count("step 12 ")) == (3, 1), done.stderr
    assert not (tmp_path / "restart" / "work").exists()
