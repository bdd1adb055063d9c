"""One look at jobs: what is true of them now, and never a guess where nobody has answered."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.errors import TargetError
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from transports import Counting

FAILED = "state=failed\ncode=3\n"


@pytest.fixture
def look(queue: FakeQueue, hasty: Timeouts) -> Jobs:
    """Return what looks at jobs as a controller does that has not seen them before."""
    return Jobs(LocalTransport(), scheduler=queue, timeouts=replace(hasty, lost=0.05))


@pytest.fixture
def present(look: Jobs, tmp_path: Path) -> Present:
    """Return a job that was submitted some time ago."""
    return look.present(requested(["true"], tmp_path / "space", scheduler="slurm"))


@pytest.mark.parametrize(
    ("state", "record", "expected", "code"),
    [
        ("", None, "lost", None),
        ("failed 7", None, "failed", 7),
        ("completed", None, "completed", None),
        ("", FAILED, "failed", 3),
        ("running", None, "running", None),
    ],
)
def test_a_job_is_seen_as_it_is(
    look: Jobs, queue: FakeQueue, present: Present, state: str, record: str | None, expected: str, code: int | None
) -> None:
    """It used to be 'queued', with the reason that it had just been submitted, for as long as nobody waited for it."""
    queue.become(present.job.id, state, record)
    seen = look.see(present.job)
    assert (seen.state, seen.exit_code) == (expected, code)


def test_a_scheduler_that_does_not_answer_leaves_a_job_unseen(look: Jobs, queue: FakeQueue, present: Present) -> None:
    queue.fault("down")
    with pytest.raises(TargetError, match="no status of the job: the queue does not answer: no answer"):
        look.see(present.job)


def test_a_record_tells_of_an_end_where_the_scheduler_does_not_answer(
    look: Jobs, queue: FakeQueue, present: Present
) -> None:
    queue.become(present.job.id, "running", FAILED)
    queue.fault("down")
    assert look.see(present.job).state == "failed"


def test_a_job_in_the_queue_is_seen_in_one_round_trip(queue: FakeQueue, hasty: Timeouts, present: Present) -> None:
    transport = Counting()
    jobs = Jobs(transport, scheduler=queue, timeouts=hasty)
    assert jobs.see(present.job).state == "queued"
    assert transport.trips == 1


class Meanwhile(LocalTransport):
    """Lets something happen on the target before a round trip."""

    def __init__(self, before: int, happens: Callable[[], None]) -> None:
        self.left, self.happens = before, happens

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        if self.left == 0:
            self.happens()
        self.left -= 1
        return super().run(command, stdin=stdin, timeout=timeout)


def test_a_job_that_begins_and_is_lost_meanwhile_is_not_run_again(
    queue: FakeQueue, hasty: Timeouts, present: Present
) -> None:
    """It may have done its work. What was seen of its folder before the scheduler was asked is no longer true."""

    def lose() -> None:
        Path(present.job.spec.directory, "state", "start").write_text(f"job={present.job.id}\nstart=1\n")
        queue.become(present.job.id, "")

    jobs = Jobs(Meanwhile(1, lose), scheduler=queue, timeouts=hasty)
    again = jobs.present(present.job.request)
    assert (again.made, again.job.id, queue.jobs()) == (False, "1", ["1"])
    assert jobs.see(again.job).state == "lost"
