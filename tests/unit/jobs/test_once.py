"""Submitted exactly once, whatever fails in between."""

import shutil
import subprocess
import threading
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakequeue import FakeQueue
from jobplans import requested, source
from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.record import parse_start
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers.base import JobSpec
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from scheduler_parts import make
from scriptruns import wait_for
from transports import CutShort, Failing, Killed, Notes

CUTS = yaml.safe_load((Path(__file__).parents[2] / "data" / "jobs" / "cuts.yaml").read_text())


@pytest.fixture
def deployed(tmp_path: Path) -> JobRequest:
    """A job for the queue."""
    return requested(["true"], tmp_path / "space", scheduler="slurm")


def test_second_run_finds_the_job(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    first, second = jobs.present(deployed), jobs.present(deployed)
    assert (first.made, second.made) == (True, False)
    assert first.job.id == second.job.id == "1"
    assert queue.jobs() == ["1"]


def test_changed_plan_is_another_job(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    first, second = (jobs.present(requested([word], tmp_path, scheduler="slurm")) for word in ("true", "false"))
    assert first.job.spec.directory != second.job.spec.directory
    assert queue.jobs() == ["1", "2"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("trip", [0, 1])
def test_controller_killed_around_a_step(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, trip: int, after: bool
) -> None:
    """look, and stage with submit, each just before and just after it."""
    with pytest.raises(Killed):
        Jobs(Failing(trip, after=after), scheduler=queue, timeouts=hasty).present(deployed)
    assert Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize("line", CUTS)
def test_submit_step_killed_inside(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, line: str) -> None:
    """The shell dies within the step, and the same run carries on; then another run comes."""
    transport = CutShort(line)
    present = Jobs(transport, scheduler=queue, timeouts=replace(hasty, settle=1.0)).present(deployed)
    assert transport.cut
    assert present.job.id == "1"
    assert Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_connection_lost_in_the_submission(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, after: bool
) -> None:
    notes = Notes()
    transport = Failing(1, after=after, error=lambda: TargetError("the connection was lost"))
    present = Jobs(transport, scheduler=queue, timeouts=hasty, reporter=notes).present(deployed)
    assert present.job.id == "1"
    assert queue.jobs() == ["1"]
    assert notes.notices == ["the submission is tried again: the connection was lost"]


@pytest.mark.parametrize("fault", ["deny", "mute"])
def test_submission_reported_as_failed_though_the_job_exists(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, fault: str
) -> None:
    queue.fault(fault)
    present = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed)
    assert (present.job.id, present.made) == ("1", True)
    assert queue.jobs() == ["1"]


def test_refused_job_is_an_error_and_may_be_tried_again(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    fault = queue.fault("refuse")
    with pytest.raises(JobError, match="refused: no such queue"):
        jobs.present(deployed)
    assert queue.jobs() == []
    fault.unlink()
    assert jobs.present(deployed).made
    assert queue.jobs() == ["1"]


def test_scheduler_down_at_first(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts) -> None:
    fault = queue.fault("down")
    timer = threading.Timer(0.5, fault.unlink)
    timer.start()
    present = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed)
    timer.join()
    assert (present.job.id, queue.jobs()) == ("1", ["1"])


def test_scheduler_down_for_too_long(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts) -> None:
    queue.fault("down")
    with pytest.raises(TargetError, match="no answer"):
        Jobs(LocalTransport(), scheduler=queue, timeouts=replace(hasty, submission=0.1)).present(deployed)
    assert queue.jobs() == []


def test_four_controllers_at_once(tmp_path: Path, deployed: JobRequest, hasty: Timeouts) -> None:
    queue = FakeQueue(tmp_path / "spool", slow="sleep 0.3")
    start, found, failures = threading.Barrier(4), [], []

    def control() -> None:
        try:
            start.wait()
            found.append(Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed))
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
    queue: FakeQueue, tmp_path: Path, hasty: Timeouts
) -> None:
    """The slower of two runs must not put fresh inputs under a job that has begun to change them."""
    (tmp_path / "in.txt").write_text("as sent")
    item = source("in.txt", tmp_path / "in.txt")
    deployed = requested(["true"], tmp_path / "space", sources=(item,), scheduler="slurm")

    class Overtaken(LocalTransport):
        trips = 0

        def run(self, command: str, **rest: Any) -> Completed:
            self.trips += 1
            if self.trips == 2:
                present = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed, [item])
                changed = Path(present.job.spec.directory) / "work" / "in.txt"
                changed.write_text("changed by the job")
            return super().run(command, **rest)

    slower = Jobs(Overtaken(), scheduler=queue, timeouts=hasty).present(deployed, [item])
    assert not slower.made
    assert (Path(slower.job.spec.directory) / "work" / "in.txt").read_text() == "changed by the job"
    assert queue.jobs() == ["1"]


def test_lock_of_a_dead_controller_on_another_host(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    with pytest.raises(Killed):
        Jobs(Failing(1, after=False), scheduler=queue, timeouts=hasty).present(deployed)
    monkeypatch.setenv("MODAK_LOCK_PATIENCE", "1")
    lock = Path(jobs.prepare(deployed).spec.directory) / "state" / "lock"
    lock.mkdir(parents=True)
    (lock / "1").symlink_to("0123-4567:4026531836:1000:4711.1234:flock")
    assert jobs.present(deployed).made
    assert queue.jobs() == ["1"]


def test_lock_that_somebody_holds(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts) -> None:
    with pytest.raises(Killed):
        Jobs(Failing(1, after=False), scheduler=queue, timeouts=hasty).present(deployed)
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=replace(hasty, submission=0.1, lock=1))
    lock = Path(jobs.prepare(deployed).spec.directory) / "state" / "lock"
    lock.mkdir(parents=True)
    (lock / "1").symlink_to("0123-4567:4026531836:1000:4711.1234:flock")
    with pytest.raises(TargetError, match="another run keeps the job's lock"):
        jobs.present(deployed)
    assert queue.jobs() == []


def test_jobs_of_an_earlier_life_are_not_taken_for_this_one(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts
) -> None:
    """The queue remembers a job of the same tag whose folder was removed."""
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    jobs.present(deployed)
    queue.become("1", "completed 0")
    assert jobs.absent(deployed)
    assert jobs.present(deployed).job.id == "2"
    assert jobs.absent(deployed)
    # Also where the attempt that follows is the one that is cut.
    with pytest.raises(Killed):
        Jobs(Failing(3, after=True), scheduler=queue, timeouts=hasty).present(deployed)
    assert jobs.present(deployed).job.id == "3"
    assert queue.jobs() == ["1", "2", "3"]


def test_live_job_whose_folder_is_gone(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    directory = Path(jobs.present(deployed).job.spec.directory)
    directory.rename(directory.with_suffix(".moved"))
    with pytest.raises(JobError, match=r"job 1 with the tag modak-\w+ is still queued, but its folder .* was gone"):
        jobs.present(deployed)
    assert queue.jobs() == ["1"]


def test_record_lost_in_a_crash_of_the_login_node(queue: FakeQueue, deployed: JobRequest, hasty: Timeouts) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    state = Path(jobs.present(deployed).job.spec.directory) / "state"
    for name in ("intent", "id"):
        (state / name).unlink()
    assert jobs.present(deployed).job.id == "1"
    (state / "id").write_text("\0\0")
    assert jobs.present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


def test_short_job_that_ended_before_its_id_was_written(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts
) -> None:
    """Nothing but the job's own record tells of it: the queue never shows what has ended."""
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
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
    subprocess.run(["sh", tmp_path / "job.sh"], env={"PATH": "/usr/bin:/bin", **variables}, text=True, check=True)
    assert (start := parse_start((tmp_path / "state" / "start.1").read_text())) is not None
    assert part.scheduler.id_of(start.job) == number


class Slow(FakeQueue):
    """Takes a few seconds before anything comes of a submission."""

    def submit_command(self, job: JobSpec) -> str:
        return f"sleep 3; {super().submit_command(job)}"


def test_shell_killed_while_the_scheduler_takes_its_time(tmp_path: Path, deployed: JobRequest, hasty: Timeouts) -> None:
    """What the shell has started goes on, and with it the lock: nobody submits until it has ended."""
    queue = Slow(tmp_path / "spool")
    transport = CutShort('lock_child "$child"')
    present = Jobs(transport, scheduler=queue, timeouts=replace(hasty, submission=30)).present(deployed)
    assert transport.cut
    assert present.job.id == "1"
    assert queue.jobs() == ["1"]
    assert (Path(present.job.spec.directory) / "state" / "id").read_text().strip() == "modak-id 1"


def test_answer_that_reached_the_disk_after_the_shell_was_killed(
    tmp_path: Path, deployed: JobRequest, hasty: Timeouts
) -> None:
    """It counts, though the queue has forgotten the job and the job has not written anything."""
    queue = Slow(tmp_path / "spool")
    with pytest.raises(TargetError, match="died on the target"):
        Jobs(CutShort('lock_child "$child"'), scheduler=queue, timeouts=replace(hasty, submission=0)).present(deployed)
    wait_for(lambda: queue.jobs() == ["1"])
    (queue.spool / "job.1" / "tag").write_text("forgotten")
    assert Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed).job.id == "1"
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize("jump", [-3600, 0, 3600])
def test_clock_that_was_set_after_a_submission_without_an_answer(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, jump: int
) -> None:
    """The job shows in the queue a little later; how long that may take is not for the target's clock to say."""
    with pytest.raises(TargetError, match="died on the target"):
        cut = CutShort('(cd "$dir" && exec $bounded')
        Jobs(cut, scheduler=queue, timeouts=replace(hasty, submission=0)).present(deployed)
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=replace(hasty, settle=2.0))
    directory = jobs.prepare(deployed).spec.directory
    intent = Path(directory, "state", "intent")
    token, time, host = intent.read_text().split()
    intent.write_text(f"{token} {int(time) + jump} {host}\n\n")

    def show() -> None:
        job = queue.spool / "job.1"
        job.mkdir()
        for name, text in (("directory", directory), ("state", "queued"), ("tag", deployed.tag)):
            (job / name).write_text(f"{text}\n")

    timer = threading.Timer(0.7, show)
    timer.start()
    assert jobs.present(deployed).job.id == "1"
    timer.join()
    assert queue.jobs() == ["1"]


@pytest.mark.parametrize("how", ["emptied", "cut short", "removed"])
@pytest.mark.parametrize("phase", ["started", "ended"])
def test_every_pair_of_records_damaged(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts, phase: str, how: str, tmp_path: Path
) -> None:
    """Neither is the job submitted again nor is its end forgotten, and the queue knows nothing of it any more."""
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    state = Path(jobs.present(deployed).job.spec.directory) / "state"
    start = f"tag={deployed.tag}\nstart=100\njob=1\nhost=n1\n"
    (state / "start").write_text(start)
    if phase == "ended":
        (state / "exit").write_text(f"tag={deployed.tag}\nstate=completed\ncode=0\njob=1\nfinished=200\n")
    shutil.rmtree(queue.spool / "job.1")
    (queue.spool / "job.1").mkdir()
    kept = {file.name: file.read_bytes() for file in state.iterdir() if file.is_file()}
    names = [name for name in ("tag", "intent", "id", "start", "exit") if name in kept]
    assert len(names) == (5 if phase == "ended" else 4)
    for pair in combinations(names, 2):
        if how == "cut short" and "id" not in pair:
            continue  # 'make soak' has them all
        if how == "removed" and not {"start", "exit"}.intersection(set(names) - set(pair)):
            continue  # then nothing tells that the job has begun
        for name in pair:
            if how == "removed":
                (state / name).unlink()
            else:
                (state / name).write_bytes(kept[name][: len(kept[name].strip()) // 2] if how == "cut short" else b"")
        try:
            (result,) = jobs.wait([jobs.present(deployed)])
            assert result.state == ("completed" if phase == "ended" and "exit" not in pair else "lost"), pair
        except TargetError as error:  # an end that is there in part
            assert "exit" in pair, (pair, error)
        assert queue.jobs() == ["1"], pair
        for name, text in kept.items():
            (state / name).write_bytes(text)


def test_end_that_was_written_down_but_not_put_in_place(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    state = Path(jobs.present(deployed).job.spec.directory) / "state"
    assert not (state / "reserved.exit").read_text().strip()
    with (state / "reserved.exit").open("r+") as record:
        record.write("state=completed\ncode=0\njob=1\nfinished=200\n")
    queue.become("1", "")
    (result,) = jobs.wait([jobs.present(deployed)])
    assert result.state == "completed"


def test_job_of_an_attempt_that_was_given_up_is_followed_when_it_runs(
    queue: FakeQueue, deployed: JobRequest, hasty: Timeouts
) -> None:
    """Two jobs came of it: the one that has made the record of the start runs the application, the other does not."""
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    present = jobs.present(deployed)
    state = Path(present.job.spec.directory) / "state"
    shutil.copytree(queue.spool / "job.1", queue.spool / "job.7")
    queue.become("1", "failed 75")
    (state / "start").write_text("job=7\nstart=100\nhost=n1\n")
    (state / "exit").write_text("state=completed\ncode=0\njob=7\nfinished=200\n")
    queue.become("7", "completed 0")
    (result,) = jobs.wait([present])
    assert (result.id, result.state) == ("7", "completed")
    assert jobs.present(deployed).job.id == "7"


def test_room_for_an_array_is_reserved_for_each_task(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    deployed = requested(["true"], tmp_path, scheduler="slurm", job={"array": "0-2,7,10-14:2"})
    present = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present(deployed)
    reserved = {path.name for path in (Path(present.job.spec.directory) / "state").glob("reserved.*")}
    tasks = (0, 1, 2, 7, 10, 12, 14)
    assert reserved == {f"reserved.{name}.{task}" for name in ("start", "run", "exit") for task in tasks}
