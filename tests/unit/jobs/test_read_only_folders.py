"""Folders that a program has made for reading alone, as Go does with its modules: they are removed like any others."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobplans import requested
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport, decode

NOBODY = 65534
LINE = "mkdir -p a/b/c; echo x >a/b/c/x; chmod 500 a/b/c a/b a"


class Ordinary(LocalTransport):
    """This machine as an ordinary user, whom modes stop."""

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        user = NOBODY if os.geteuid() == 0 else None
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=stdin or b"", capture_output=True, user=user, env=environment, cwd="/"
        )
        return Completed(done.returncode, decode(done.stdout), decode(done.stderr))


@pytest.fixture
def space() -> Iterator[Path]:
    """Return a folder that an ordinary user can reach and write to."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def deployed(space: Path, line: str) -> JobRequest:
    return requested(["sh", "-c", line], space / "runs-here")


def test_a_job_is_removed_with_them(space: Path, hasty: Timeouts) -> None:
    jobs, request = Jobs(Ordinary(), timeouts=hasty), deployed(space, LINE)
    present = jobs.present(request)
    assert jobs.wait([present])[0].state == "completed"
    assert jobs.absent(request)
    assert list((space / "runs-here").rglob("*")) == []


def test_earlier_attempts_do_not_keep_them(space: Path, hasty: Timeouts) -> None:
    jobs, request = Jobs(Ordinary(), timeouts=replace(hasty, lost=0.5)), deployed(space, f"{LINE}; exit 3")
    for _ in range(3):
        present = jobs.present(request)
        assert jobs.wait([present])[0].state == "failed"
    attempts = Path(present.job.spec.directory, "attempts")
    assert [(attempts / number / "work").exists() for number in ("1", "2")] == [False, True]
