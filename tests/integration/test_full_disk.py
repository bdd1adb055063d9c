"""A real file system that is full, but for a few pages, when a job is submitted, and while it runs."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from disks import BETWEEN, filled_between
from jobplans import requested
from modak_deploy.errors import ModakError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk takes root")
HASTY = Timeouts(outage=1.0, submission=2.0, settle=0.0, lost=2.0, pause=0.05, linger=0.0)
RECORDS = 7
"""Pages that a submission takes: room for its records, and its intent."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 pages."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


class Filling(LocalTransport):
    """Leaves that many free pages on the disk before the submission, or before the first poll."""

    def __init__(self, disk: Path, pages: int, step: str) -> None:
        self._disk, self._pages, self._step = disk, pages, step

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        if self._step in command and BETWEEN in command:
            command = filled_between(command, self._disk, self._pages)
        elif self._step in command:
            with (self._disk / "filler").open("ab", buffering=0) as file:
                while (free := os.statvfs(self._disk).f_bfree) > self._pages:
                    file.write(b"x" * 4096 * (free - self._pages))
        return super().run(command, stdin=stdin, timeout=timeout)


def outcome(jobs: Jobs, deployed: JobRequest) -> str:
    try:
        return jobs.wait([jobs.present(deployed)], timeout=60)[0].state
    except ModakError as error:
        return str(error)


@pytest.mark.parametrize("pages", [0, 1, 2, 3, 4, 5, 6, RECORDS, RECORDS + 1])
def test_at_the_submission(disk: Path, tmp_path: Path, pages: int) -> None:
    """Either there is room for all records, and the job runs to a recorded end, or nothing is submitted."""
    trace = tmp_path / "runs"
    deployed = requested(["sh", "-c", f"echo run >>{trace}"], disk / "space")
    first = outcome(Jobs(Filling(disk, pages, "lock_open"), timeouts=HASTY), deployed)
    ran = trace.exists()
    assert ran == (pages >= RECORDS), first
    if ran:
        assert first == "completed"
    else:
        assert "there is no room for the records of the job" in first
        assert "nothing was submitted" in first
    assert outcome(Jobs(LocalTransport(), timeouts=HASTY), deployed) == first
    (disk / "filler").unlink()
    assert outcome(Jobs(LocalTransport(), timeouts=HASTY), deployed) == "completed"
    assert trace.read_text() == "run\n"


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -TERM 0; sleep 5"])
def test_while_the_job_runs(disk: Path, tmp_path: Path, end: str) -> None:
    trace = tmp_path / "runs"
    deployed = requested(
        ["sh", "-c", f"echo run >>{trace}; sleep 1; head -c 100000 /dev/zero; {end}"],
        disk / "space",
        job={"retry": False},
    )
    states = {"exit 0": "completed", "exit 3": "failed"}
    for _ in range(2):
        transport = Filling(disk, 0, "job=$((job + 1))")  # a poll
        assert outcome(Jobs(transport, timeouts=HASTY), deployed) == states.get(end, "cancelled")
    assert trace.read_text() == "run\n"
