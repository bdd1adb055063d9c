"""FIFOs in a job's folder, which hold whoever opens them: the steps read regular files alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.jobs.remote import call
from modak_deploy.transport.local import LocalTransport

LIMIT = 10.0
MESSAGE = "^=>> PBS: job killed: "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job = tmp_path / "job"
    (job / "state").mkdir(parents=True)
    (job / "state" / "tag").write_text("tag-1\n")
    return job


def _polled(job: Path) -> str:
    arguments = ["true", "0", "0", "20", MESSAGE]
    stdin = f"{job}\n{job}/output.log\n1\n1\n65536\n".encode()
    return call(LocalTransport(), "poll", arguments, stdin=stdin, limit=LIMIT).text("messages")


def test_a_log_of_the_scheduler(folder: Path) -> None:
    os.mkfifo(folder / "scheduler.log")
    os.mkfifo(folder / "output.log")
    (folder / "scheduler.log.2").write_text("other\n=>> PBS: job killed: walltime 60 exceeded limit 30\n")
    assert _polled(folder) == "scheduler.log.2:=>> PBS: job killed: walltime 60 exceeded limit 30\n"


@pytest.mark.parametrize("name", ["exit", "reserved.exit", "start", "run", "attempt", "intent", "id", "refused"])
def test_a_record(folder: Path, name: str) -> None:
    os.mkfifo(folder / "state" / name)
    assert _polled(folder) == ""


def _staged(job: Path) -> object:
    return call(LocalTransport(), "stage", [str(job), "tag-1", "0" * 16], limit=LIMIT)


def _removed(job: Path) -> object:
    arguments = [str(job), "tag-1", "0" * 16, "yes", "1"]
    return call(LocalTransport(), "remove", arguments, library=["lock", "leftover"], limit=LIMIT)


@pytest.mark.parametrize("step", [_staged, _removed])
def test_the_tag(folder: Path, step: Callable[[Path], object]) -> None:
    (folder / "state" / "tag").unlink()
    os.mkfifo(folder / "state" / "tag")
    os.mkfifo(folder / "job.sh")
    with pytest.raises(TargetError, match=r"no job's folder|does not say that it is this job's folder"):
        step(folder)


def test_a_result_that_is_read_piece_by_piece(folder: Path) -> None:
    os.mkfifo(folder / "large")
    answer = call(
        LocalTransport(), "read_results", [str(folder)], stdin=b"piece ./large 0 16\n", library=["pack"], limit=LIMIT
    )
    assert answer.text("base64").strip() == ""
