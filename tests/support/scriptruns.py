"""Job scripts run by a shell, and what they leave behind."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modak_deploy.jobs.record import parse_exit
from scheduler_parts import TAG


def use(folder: Path, shell: list[str]) -> None:
    """Let the script run itself in that shell too, in place of /bin/sh."""
    program = " ".join([shutil.which(shell[0]) or shell[0], *shell[1:]])
    text = f'#!/bin/sh\nexec {program} "$@"\n'
    if text_of(folder / "shell") == text:
        return  # the script may be running
    (folder / "shell").write_text(text)
    (folder / "shell").chmod(0o700)
    script = folder / "job.sh"
    before = script.read_bytes()
    assert before.count(b"    /bin/sh ") + before.count(b'"$modak_directory/shell" ') == 1
    script.write_bytes(before.replace(b"    /bin/sh ", b'    "$modak_directory/shell" '))


def run(folder: Path, shell: list[str], environment: dict[str, str] | None = None) -> int:
    """Run the job's script to its end, and return its exit code."""
    use(folder, shell)
    return subprocess.run(
        [*shell, str(folder / "job.sh"), TAG],
        env={**os.environ, **(environment or {})},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        timeout=60,
        start_new_session=True,
    ).returncode


def record(folder: Path, task: str = "") -> Any:
    """Return what the script wrote down of its end."""
    found = parse_exit((folder / "state" / f"exit{task}").read_text())
    assert found is not None
    return found


def wait_for(condition: Callable[[], Any]) -> None:
    """Return as soon as the condition holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not happen within 30 s"
        time.sleep(0.02)


def text_of(file: Path) -> str:
    """Return what is in the file, nothing where it is not there yet."""
    return file.read_text() if file.exists() else ""
