"""Submitted exactly once, whatever fails in between."""

import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakequeue import FakeQueue
from jobplans import plan, source
from modak.errors import JobError, TargetError
from modak.jobs.control import Jobs
from modak.jobs.record import parse_start
from modak.jobs.settings import Patience
from modak.model.plan import Plan
from modak.transport.base import Completed
from modak.transport.local import LocalTransport
from scheduler_parts import make
from transports import CutShort, Failing, Killed, Notes

CUTS = yaml.safe_load((Path(__file__).parents[2] / "data" / "jobs" / "cuts.yaml").read_text())


@pytest.fixture
def deployed(tmp_path: Path) -> Plan:
    """A Plan for the queue."""
    return plan(["true"], tmp_path / "space", scheduler="slurm")


def test_second_run_finds_the_job(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    first, second = jobs.present(deployed), jobs.present(deployed)
    assert (first.made, second.made) == (True, False)
    assert first.job.id == second.job.id == "1"
    assert queue.jobs() == ["1"]


def test_changed_plan_is_another_job(queue: FakeQueue, tmp_path: Path, hasty: Patience) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    first, second = (jobs.present(plan([word], tmp_path, scheduler="slurm")) for word in ("true", "false"))
    assert first.job.spec.directory != second.job.spec.directory
    assert queue.jobs() == ["1", "2"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("trip", [0, 1, 2])
def test_controller_killed_around_a_step(
    queue: FakeQueue, deployed: Plan, hasty: Patience, trip: int, after: bool
) -> None:
    """look, stage and submit, each just before and just after it."""
    with pytest.raises(Killed):
        Jobs(Failing(trip, after=after), scheduler=queue, patience=hasty).present(deployed)
    assert Jobs(LocalTransport(), scheduler=queue, patience=hasty).present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize("line", CUTS)
def test_submit_step_killed_inside(queue: FakeQueue, deployed: Plan, hasty: Patience, line: str) -> None:
    """The shell dies within the step, and the same run carries on; then another run comes."""
    transport = CutShort(line)
    present = Jobs(transport, scheduler=queue, patience=replace(hasty, settle=1.0)).present(deployed)
    assert transport.cut
    assert present.job.id == "1"
    assert Jobs(LocalTransport(), scheduler=queue, patience=hasty).present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_connection_lost_in_the_submission(queue: FakeQueue, deployed: Plan, hasty: Patience, after: bool) -> None:
    notes = Notes()
    transport = Failing(2, after=after, error=lambda: TargetError("the connection was lost"))
    present = Jobs(transport, scheduler=queue, patience=hasty, reporter=notes).present(deployed)
    assert present.job.id == "1"
    assert queue.jobs() == ["1"]
    assert notes.notices == ["the submission is tried again: the connection was lost"]


@pytest.mark.parametrize("fault", ["deny", "mute"])
def test_submission_reported_as_failed_though_the_job_exists(
    queue: FakeQueue, deployed: Plan, hasty: Patience, fault: str
) -> None:
    queue.fault(fault)
    present = Jobs(LocalTransport(), scheduler=queue, patience=hasty).present(deployed)
    assert (present.job.id, present.made) == ("1", True)
    assert queue.jobs() == ["1"]


def test_refused_job_is_an_error_and_may_be_tried_again(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    fault = queue.fault("refuse")
    with pytest.raises(JobError, match="refused: no such queue"):
        jobs.present(deployed)
    assert queue.jobs() == []
    fault.unlink()
    assert jobs.present(deployed).made
    assert queue.jobs() == ["1"]


def test_scheduler_down_at_first(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    fault = queue.fault("down")
    timer = threading.Timer(0.5, fault.unlink)
    timer.start()
    present = Jobs(LocalTransport(), scheduler=queue, patience=hasty).present(deployed)
    timer.join()
    assert (present.job.id, queue.jobs()) == ("1", ["1"])


def test_scheduler_down_for_too_long(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    queue.fault("down")
    with pytest.raises(TargetError, match="no answer"):
        Jobs(LocalTransport(), scheduler=queue, patience=replace(hasty, submission=0.1)).present(deployed)
    assert queue.jobs() == []


def test_four_controllers_at_once(tmp_path: Path, deployed: Plan, hasty: Patience) -> None:
    queue = FakeQueue(tmp_path / "spool", slow="sleep 0.3")
    start, found, failures = threading.Barrier(4), [], []

    def control() -> None:
        try:
            start.wait()
            found.append(Jobs(LocalTransport(), scheduler=queue, patience=hasty).present(deployed))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=control) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert queue.jobs() == ["1"]
    assert [present.job.id for present in found] == ["1"] * 4
    assert sum(present.made for present in found) == 1


def test_files_of_a_job_that_another_run_submitted_meanwhile_stay(
    queue: FakeQueue, tmp_path: Path, hasty: Patience
) -> None:
    """The slower of two runs must not put fresh inputs under a job that has begun to change them."""
    (tmp_path / "in.txt").write_text("as sent")
    item = source("in.txt", tmp_path / "in.txt")
    deployed = plan(["true"], tmp_path / "space", sources=(item,), scheduler="slurm")

    class Overtaken(LocalTransport):
        trips = 0

        def run(self, command: str, **rest: Any) -> Completed:
            self.trips += 1
            if self.trips == 2:
                present = Jobs(LocalTransport(), scheduler=queue, patience=hasty).present(deployed, [item])
                changed = Path(present.job.spec.directory) / "work" / "in.txt"
                changed.write_text("changed by the job")
            return super().run(command, **rest)

    slower = Jobs(Overtaken(), scheduler=queue, patience=hasty).present(deployed, [item])
    assert not slower.made
    assert (Path(slower.job.spec.directory) / "work" / "in.txt").read_text() == "changed by the job"
    assert queue.jobs() == ["1"]


def test_lock_of_a_dead_controller_on_another_host(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    with pytest.raises(Killed):
        Jobs(Failing(2, after=False), scheduler=queue, patience=hasty).present(deployed)
    state = Path(jobs.prepare(deployed).spec.directory) / "state"
    (state / "lock.1").symlink_to("elsewhere:4711:1000000000")
    assert jobs.present(deployed).made
    assert queue.jobs() == ["1"]


def test_lock_that_somebody_holds(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    with pytest.raises(Killed):
        Jobs(Failing(2, after=False), scheduler=queue, patience=hasty).present(deployed)
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=replace(hasty, submission=0.1))
    state = Path(jobs.prepare(deployed).spec.directory) / "state"
    now = subprocess.run(["date", "+%s"], capture_output=True, text=True, check=True).stdout.strip()
    (state / "lock.1").symlink_to(f"elsewhere:4711:{now}")
    with pytest.raises(TargetError, match="another run keeps the job's lock"):
        jobs.present(deployed)
    assert queue.jobs() == []


def test_jobs_of_an_earlier_life_are_not_taken_for_this_one(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    """The queue remembers a job of the same tag whose folder was removed."""
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    jobs.present(deployed)
    queue.become("1", "completed 0")
    assert jobs.absent(deployed)
    assert jobs.present(deployed).job.id == "2"
    assert jobs.absent(deployed)
    # Also where the attempt that follows is the one that is cut.
    with pytest.raises(Killed):
        Jobs(Failing(3, after=True), scheduler=queue, patience=hasty).present(deployed)
    assert jobs.present(deployed).job.id == "3"
    assert queue.jobs() == ["1", "2", "3"]


def test_live_job_whose_folder_is_gone(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    directory = Path(jobs.present(deployed).job.spec.directory)
    directory.rename(directory.with_suffix(".moved"))
    with pytest.raises(JobError, match=r"job 1 with the tag modak-\w+ is still queued, but its folder .* was gone"):
        jobs.present(deployed)
    assert queue.jobs() == ["1"]


def test_record_lost_in_a_crash_of_the_login_node(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    state = Path(jobs.present(deployed).job.spec.directory) / "state"
    for name in ("intent", "id"):
        (state / name).unlink()
    assert jobs.present(deployed).job.id == "1"
    (state / "id").write_text("\0\0")
    assert jobs.present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


def test_short_job_that_ended_before_its_id_was_written(queue: FakeQueue, deployed: Plan, hasty: Patience) -> None:
    """Nothing but the job's own record tells of it: the queue never shows what has ended."""
    jobs = Jobs(LocalTransport(), scheduler=queue, patience=hasty)
    present = jobs.present(deployed)
    state = Path(present.job.spec.directory) / "state"
    (state / "id").unlink()
    (state / "start").write_text("job=1\nstarted=100\nhost=n1\n")
    (queue.spool / "job.1" / "tag").write_text("forgotten")
    assert jobs.present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize(
    ("scheduler", "variables", "number"),
    [
        ("slurm", {"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "1"}, "10"),
        ("torque", {"PBS_JOBID": "43[1].vm", "PBS_ARRAYID": "1"}, "43[].vm"),
        ("openpbs", {"PBS_JOBID": "47[1].vm", "PBS_ARRAY_INDEX": "1"}, "47[].vm"),
    ],
)
def test_a_task_that_has_begun_tells_the_arrays_id(
    tmp_path: Path, scheduler: Any, variables: dict[str, str], number: str
) -> None:
    part = make(scheduler, ("true",), directory=str(tmp_path), job={"array": "0-1"})
    (tmp_path / "state").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "job.sh").write_text(part.script())
    subprocess.run(["sh"], input=part.script(), env={"PATH": "/usr/bin:/bin", **variables}, text=True, check=True)
    start = parse_start((tmp_path / "state" / "start.1").read_text())
    assert start is not None
    assert part.scheduler.id_of(start.job) == number
