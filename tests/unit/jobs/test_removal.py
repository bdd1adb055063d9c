"""What is cancelled and removed is the run's own, whatever the scheduler calls by its number now."""

from pathlib import Path

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.errors import TargetError
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.local import LocalTransport


@pytest.fixture
def deployed(tmp_path: Path) -> JobRequest:
    return requested(["true"], tmp_path / "space", scheduler="slurm")


@pytest.fixture
def jobs(queue: FakeQueue, hasty: Timeouts) -> Jobs:
    return Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)


@pytest.fixture
def reused(jobs: Jobs, queue: FakeQueue, deployed: JobRequest) -> Present:
    """Return a job whose number the scheduler has given to another one, as a server that was installed afresh does."""
    present = jobs.present(deployed)
    (queue.spool / f"job.{present.job.id}" / "tag").write_text("modak-ffffffffffffffff\n")
    queue.become(present.job.id, "running")
    return present


def state(queue: FakeQueue, present: Present) -> str:
    return (queue.spool / f"job.{present.job.id}" / "state").read_text().strip()


def test_a_job_that_got_the_number_later_is_not_cancelled(
    jobs: Jobs, queue: FakeQueue, deployed: JobRequest, reused: Present
) -> None:
    for action in (jobs.cancel, jobs.absent, jobs.doomed):
        with pytest.raises(TargetError, match="job 1 does not carry the tag modak-"):
            action(deployed)
    assert state(queue, reused) == "running"
    assert Path(reused.job.spec.directory).is_dir()


def test_a_run_that_has_recorded_its_end_is_removed_without_it(
    jobs: Jobs, queue: FakeQueue, deployed: JobRequest, reused: Present
) -> None:
    queue.become(reused.job.id, "running", "state=failed\ncode=1\n")
    assert jobs.cancel(deployed) == []
    assert jobs.doomed(deployed) == [f"the folder {reused.job.spec.directory} of job 1"]
    assert jobs.absent(deployed)
    assert state(queue, reused) == "running"
    assert not Path(reused.job.spec.directory).exists()


def test_the_runs_own_job_is_cancelled(jobs: Jobs, queue: FakeQueue, deployed: JobRequest) -> None:
    present = jobs.present(deployed)
    queue.become(present.job.id, "running")
    assert jobs.cancel(deployed) == ["1"]
    assert state(queue, present) == "cancelled"
