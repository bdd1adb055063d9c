"""The steps on a target, by every shell that there is: from the job's folder to its removal, and lingering between."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.remote import call
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.target import Polling
from modak_deploy.shell import join
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from scheduler_parts import shells

ALL = shells() + [["ksh93"] for _ in filter(None, [shutil.which("ksh93")])]
"""Those of the nodes, and one that is the ``sh`` of some old login nodes."""


class Login(LocalTransport):
    """This machine as a host whose ``sh`` is another shell."""

    def __init__(self, shell: list[str], folder: Path) -> None:
        folder.mkdir()
        program = shutil.which(shell[0])
        assert program
        # A shell that is called sh is a POSIX one, which some are by no other name.
        (folder / "sh").symlink_to(os.path.realpath(program))
        self._before = f"PATH={folder}:$PATH; exec sh -c "
        self.trips = 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.trips += 1
        return super().run(self._before + join([command]), stdin=stdin, timeout=timeout)


@pytest.fixture(params=ALL, ids=" ".join)
def login(request: pytest.FixtureRequest, tmp_path: Path) -> Login:
    return Login(request.param, tmp_path / "bin")


def test_a_plain_machine(login: Login, tmp_path: Path, hasty: Timeouts) -> None:
    program = "echo 'line one'; mkdir d; echo \"it's\" >'d/a b'; echo '{\"x\": 1}' >m.json"
    (local := tmp_path / "local").mkdir()
    it = requested(
        ["sh", "-c", program], tmp_path / "space", polling=Polling(first=2.0, maximum=2.0), outputs=["d"],
        metrics="m.json", job={"scratch": str(local)},
    )  # fmt: skip
    jobs = Jobs(login, timeouts=replace(hasty, linger=30.0, settle=1.0))
    present = jobs.present(it)
    assert not jobs.present(it).made
    (result,) = jobs.wait([present])
    assert (result.state, result.exit_code) == ("completed", 0)
    fetched = jobs.fetch_results(present.job, result, tmp_path / "results")
    assert fetched.result.metrics == {"x": 1}
    assert (tmp_path / "results" / "probe" / "d" / "a b").read_text() == "it's\n"
    assert not list(local.iterdir())
    assert jobs.absent(it)
    assert not (tmp_path / "space" / "runs").exists()


def test_a_queue(login: Login, queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    polling = Polling(first=3600.0, maximum=3600.0)
    it = requested(["true"], tmp_path / "space", scheduler="slurm", polling=polling)
    jobs = Jobs(login, scheduler=queue, timeouts=replace(hasty, linger=3600.0))
    present = jobs.present(it)
    login.trips = 0
    timer = threading.Timer(0.5, lambda: [queue.become(present.job.id, "failed 3", text) for text in (None, "code=3")])
    timer.start()
    (result,) = jobs.wait([present])
    timer.join()
    assert (result.state, result.exit_code) == ("failed", 3)
    assert login.trips == 1


def test_a_clock_that_is_set_back_makes_no_longer_wait(login: Login, tmp_path: Path) -> None:
    (tmp_path / "bin" / "date").write_text("#!/bin/sh\necho 100\n")
    (tmp_path / "bin" / "date").chmod(0o755)
    job = f"{tmp_path}\n{tmp_path}/output\n0\n1\n0\n"
    answer = call(login, "poll", ["echo known", "1", "0", "20", ""], stdin=job.encode(), limit=60)
    assert answer.text("status") == "known\n"
