"""A job that can never start, by its scheduler's word, is taken out of the queue once that has lasted."""

from dataclasses import replace
from pathlib import Path

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.transport.local import LocalTransport

COMPLETED = "state=completed\ncode=0\n"


def test_a_job_that_could_not_start_for_a_moment_stays_in_the_queue(
    queue: FakeQueue, hasty: Timeouts, tmp_path: Path
) -> None:
    """As schedulers say while nodes have not reported yet. It used to be cancelled at the first such answer."""
    changes = [("never_starts",), ("queued",), ("never_starts",), ("running",), ("completed 0", COMPLETED)]
    cancelled: list[bool] = []

    def go_on(_seconds: float) -> None:
        state = (queue.spool / "job.1" / "state").read_text()
        cancelled.append("cancelled" in state)
        if changes and not cancelled[-1]:
            queue.become("1", *changes.pop(0))

    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=replace(hasty, sleep=go_on, hopeless=60.0))
    present = jobs.present(requested(["true"], tmp_path / "space", scheduler="slurm"))
    (result,) = jobs.wait([present])
    assert (result.state, any(cancelled)) == ("completed", False)
