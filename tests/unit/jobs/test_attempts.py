"""A job that ended badly is run again when it is deployed again, exactly once for each attempt."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakequeue import FakeQueue
from jobplans import requested, source
from modak_deploy.errors import InputError, JobError
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import ENDS, JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from transports import CutShort, Failing, Killed, Notes

CUTS = yaml.safe_load((Path(__file__).parents[2] / "data" / "jobs" / "attempt_cuts.yaml").read_text())
Shell = Callable[..., JobRequest]


def carry_out(jobs: Jobs, plan: JobRequest, **options: Any) -> tuple[Present, JobResult]:
    present = jobs.present(plan, **options)
    return present, jobs.wait([present])[0]


def runs(folder: Path) -> int:
    return len((folder / "trace").read_text().splitlines())


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def jobs(hasty: Timeouts, notes: Notes) -> Jobs:
    return Jobs(LocalTransport(), timeouts=replace(hasty, lost=0.5), reporter=notes)


@pytest.fixture
def queued(tmp_path: Path) -> JobRequest:
    """A job for the queue, with an input."""
    (tmp_path / "in.txt").write_text("input\n")
    item = source("data/in.txt", tmp_path / "in.txt")
    return requested(["true"], tmp_path / "space", scheduler="slurm", sources=(item,))


@pytest.fixture
def after_failure(queue: FakeQueue, queued: JobRequest, hasty: Timeouts, tmp_path: Path) -> Jobs:
    """Jobs in a queue, of which the first has failed."""
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    jobs.present(queued, [item_of(tmp_path)])
    queue.become("1", "failed 3", "job=1\ncode=3\nstate=failed\n")
    return jobs


def item_of(folder: Path) -> Any:
    return source("data/in.txt", folder / "in.txt")


def test_failed_job_is_run_again_and_the_output_says_so(jobs: Jobs, notes: Notes, shell: Shell, tmp_path: Path) -> None:
    deployed = shell(f"echo $$; [ -e {tmp_path}/library ]; code=$?; [ $code != 0 ] || echo x >out; exit $code",
                     outputs=["out"])  # fmt: skip
    first, result = carry_out(jobs, deployed)
    jobs.fetch_results(first.job, result, tmp_path / "results")
    log = (tmp_path / "results" / "probe" / "output.log").read_text()
    assert (result.state, result.attempt) == ("failed", 1)
    (tmp_path / "library").touch()
    second, again = carry_out(jobs, deployed)
    assert second.made
    assert second.ended == result
    assert (again.state, again.attempt) == ("completed", 2)
    assert again.id != result.id
    folder = Path(result.directory)
    assert notes.notices[-2] == (
        f"job {result.id} ({result.tag}) failed: the application ended with exit code 1; it is run again as attempt 2, "
        f"and what it left is in {folder}/attempts/1"
    )
    brought = jobs.fetch_results(second.job, again, tmp_path / "results")
    place = tmp_path / "results" / "probe"
    assert JobResult.model_validate_json((place / "attempts" / "1" / "job.json").read_text()).id == result.id
    assert (place / "attempts" / "1" / "output.log").read_text() == log != (place / "output.log").read_text()
    assert (folder / "attempts" / "1" / "output.log").read_text() == log
    assert "code=1\n" in (folder / "attempts" / "1" / "exit").read_text()
    assert brought.result.attempt == 2
    third, last = carry_out(jobs, deployed)
    assert not third.made
    assert (third.ended, last.attempt) == (None, 2)
    assert not jobs.fetch_results(third.job, last, tmp_path / "results").changed
    assert runs(tmp_path) == 2
    assert jobs.absent(deployed)
    assert not folder.exists()


@pytest.mark.parametrize("keep", ["argument", "document"])
def test_without_retry_the_end_stays(jobs: Jobs, shell: Shell, tmp_path: Path, keep: str) -> None:
    deployed = shell("exit 3")
    carry_out(jobs, deployed)
    if keep == "document":
        kept = shell("exit 3", job={"retry": False})
        assert kept.tag == deployed.tag, "the option says nothing of what the job does"
        present, result = carry_out(jobs, kept)
    else:
        present, result = carry_out(jobs, deployed, retry=False)
    assert (present.made, result.state, runs(tmp_path)) == (False, "failed", 1)
    assert carry_out(jobs, shell("exit 3", job={"retry": False}), retry=True)[0].made


def test_killed_job_is_run_again(jobs: Jobs, shell: Shell, tmp_path: Path) -> None:
    deployed = shell(f"[ -e {tmp_path}/go ] || sleep 60")
    ends = []
    for number, kind in enumerate([signal.SIGTERM, signal.SIGKILL], 1):
        present = jobs.present(deployed)
        assert present.made
        while not (tmp_path / "trace").exists() or runs(tmp_path) < number:
            time.sleep(0.02)
        os.killpg(int(present.job.id.partition("-")[0]), kind)
        ends.append(jobs.wait([present])[0])
    assert [end.state for end in ends] == ["cancelled", "lost"]
    (tmp_path / "go").touch()
    # What was lost may have done its work before: it stays until the user has it restarted.
    present, result = carry_out(jobs, deployed)
    assert (present.made, result.state, result.attempt) == (False, "lost", 2)
    assert jobs.absent(deployed)
    assert carry_out(jobs, deployed)[1].state == "completed"


@pytest.mark.parametrize("state", sorted(ENDS - {"completed"}))
def test_every_bad_end_is_run_again(
    queue: FakeQueue, queued: JobRequest, hasty: Timeouts, tmp_path: Path, state: str
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    jobs.present(queued, [item_of(tmp_path)])
    queue.become("1", "" if state == "lost" else state)
    present = jobs.present(queued, [item_of(tmp_path)])
    assert present.ended is not None
    assert (present.ended.state, present.job.id, queue.jobs()) == (state, "2", ["1", "2"])


def test_running_job_is_followed(jobs: Jobs, shell: Shell, tmp_path: Path) -> None:
    deployed = shell(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 1")
    first = jobs.present(deployed)
    second = jobs.present(deployed)
    (tmp_path / "go").touch()
    assert not second.made
    (result,) = jobs.wait([second])
    assert (result.id, result.state, result.attempt) == (first.job.id, "failed", 1)


def test_new_attempt_finds_nothing_of_the_one_before(jobs: Jobs, tmp_path: Path) -> None:
    """An output that only the failed attempt wrote must not count as this one's; inputs do not travel again."""
    for name in ("kept", "changed"):
        (tmp_path / name).write_text("as sent")
    items = [source(name, tmp_path / name) for name in ("kept", "changed")]
    line = f"cat kept changed; [ -e {tmp_path}/go ] || {{ echo x >out; echo spoilt >changed; exit 1; }}"
    deployed = requested(["sh", "-c", line], tmp_path / "space", sources=tuple(items), outputs=["out"])
    first = jobs.present(deployed, items)
    (result,) = jobs.wait([first])
    work = Path(first.job.spec.directory) / "work"
    inode = (work / "kept").stat().st_ino
    (tmp_path / "go").touch()
    second = jobs.present(deployed, items)
    (result,) = jobs.wait([second])
    assert result.state == "completed"
    assert (work / "kept").stat().st_ino == inode
    assert (work.parent / "output.log").read_text() == "as sent" * 2
    assert (work.parent / "attempts" / "1" / "work" / "out").read_text() == "x\n"
    with pytest.raises(JobError, match="completed without writing 'out'"):
        jobs.fetch_results(second.job, result, tmp_path / "results")


def test_a_bounded_number_of_attempts_is_kept(jobs: Jobs, shell: Shell, tmp_path: Path) -> None:
    deployed = shell("exit 1")
    for _ in range(8):
        present, result = carry_out(jobs, deployed)
        jobs.fetch_results(present.job, result, tmp_path / "results")
    assert result.attempt == 8
    there, here = Path(result.directory) / "attempts", tmp_path / "results" / "probe" / "attempts"
    assert sorted(folder.name for folder in there.iterdir()) == ["3", "4", "5", "6", "7"]
    assert sorted(folder.name for folder in here.iterdir()) == ["3", "4", "5", "6", "7"]
    assert [folder.parent.name for folder in there.glob("*/work")] == ["7"]


def test_file_that_is_missing_leaves_the_attempt_there(after_failure: Jobs, queued: JobRequest) -> None:
    with pytest.raises(InputError, match=r"the file 'data/in\.txt' of the Plan not found"):
        after_failure.present(queued)
    found = after_failure.find(queued)
    assert found is not None
    assert (found.id, found.attempt, after_failure.see(found).state) == ("1", 1, "failed")


def test_attempt_that_is_refused_may_be_made_later(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest, tmp_path: Path
) -> None:
    fault = queue.fault("refuse")
    for _ in range(2):
        with pytest.raises(JobError, match="refused: no such queue"):
            after_failure.present(queued, [item_of(tmp_path)])
    fault.unlink()
    present = after_failure.present(queued, [item_of(tmp_path)])
    assert (present.job.id, present.job.attempt, queue.jobs()) == ("2", 2, ["1", "2"])
    assert "code=3" in (Path(present.job.spec.directory) / "attempts" / "1" / "exit").read_text()


def test_check_shows_the_new_attempt_and_changes_nothing(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest
) -> None:
    preview = after_failure.preview(queued)
    assert preview.ended is not None
    assert (preview.ended.id, preview.ended.state, queue.jobs()) == ("1", "failed", ["1"])
    assert after_failure.preview(queued, retry=False).ended is None
    assert after_failure.preview(queued).ended is not None


def test_an_attempt_that_another_run_makes_while_this_one_looks(
    after_failure: Jobs, queue: FakeQueue, tmp_path: Path, queued: JobRequest, hasty: Timeouts
) -> None:
    class Overtaken(LocalTransport):
        trips = 0

        def run(self, command: str, **rest: Any) -> Completed:
            self.trips += 1
            if self.trips == 2:  # after the look at the folder, before the look at the job
                after_failure.present(queued, [item_of(tmp_path)])
            return super().run(command, **rest)

    slower = Jobs(Overtaken(), scheduler=queue, timeouts=hasty).present(queued, [item_of(tmp_path)])
    assert (queue.jobs(), slower.job.id, slower.job.attempt, slower.made) == (["1", "2"], "2", 2, False)


def test_four_controllers_make_one_new_attempt(
    after_failure: Jobs, tmp_path: Path, queued: JobRequest, hasty: Timeouts
) -> None:
    queue = FakeQueue(tmp_path / "spool", slow="sleep 0.3")
    start, found, failures = threading.Barrier(4), [], []

    def control() -> None:
        try:
            start.wait()
            jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
            found.append(jobs.present(queued, [item_of(tmp_path)]))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=control) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert queue.jobs() == ["1", "2"]
    assert [present.job.id for present in found] == ["2"] * 4
    assert sum(present.made for present in found) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("trip", range(6))
def test_controller_killed_around_a_step(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest, hasty: Timeouts, tmp_path: Path, trip: int, after: bool
) -> None:
    """look, ask, put aside, look, stage, and submit: each just before and just after it."""
    with pytest.raises(Killed):
        Jobs(Failing(trip, after=after), scheduler=queue, timeouts=hasty).present(queued, [item_of(tmp_path)])
    present = after_failure.present(queued, [item_of(tmp_path)])
    assert (present.job.id, present.job.attempt) == ("2", 2)
    assert queue.jobs() == ["1", "2"]
    assert (Path(present.job.spec.directory) / "work" / "data" / "in.txt").read_text() == "input\n"


@pytest.mark.parametrize("line", CUTS)
def test_step_killed_inside(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest, hasty: Timeouts, tmp_path: Path, line: str
) -> None:
    transport = CutShort(line)
    item = item_of(tmp_path)
    with pytest.raises(Exception, match="died on the target"):
        Jobs(transport, scheduler=queue, timeouts=hasty).present(queued, [item])
    assert transport.cut
    present = after_failure.present(queued, [item])
    assert present.job.id == "2"
    assert queue.jobs() == ["1", "2"]
    folder = Path(present.job.spec.directory)
    assert (folder / "work" / "data" / "in.txt").read_text() == "input\n"
    assert not (folder / "state" / "exit").exists()
    assert (present.job.attempt, [path.name for path in folder.glob("attempts/*")]) == (2, ["1"])
    old = folder / "attempts" / "1"
    assert "code=3\n" in (old / "exit").read_text()
    assert (old / "id").exists()
    assert (old / "work").exists()


def test_what_is_no_file_is_put_aside_as_well(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest, tmp_path: Path
) -> None:
    """A link that leads nowhere would say that the next attempt has begun, and a FIFO would hold its start."""
    folder = next((tmp_path / "space" / "runs").iterdir())
    (folder / "state" / "exit.7").symlink_to("nowhere")
    os.mkfifo(folder / "scheduler.log")
    present = after_failure.present(queued, [item_of(tmp_path)])
    assert (present.job.id, queue.jobs()) == ("2", ["1", "2"])
    assert not os.path.lexists(folder / "scheduler.log")
    assert (folder / "attempts" / "1" / "exit.7").is_symlink()


def test_record_that_the_attempt_before_writes_late_is_not_this_ones(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest, tmp_path: Path
) -> None:
    """A scheduler that gives a job up may do so before its script has come to its end."""
    present = after_failure.present(queued, [item_of(tmp_path)])
    queue.become("2", "running", "job=1\ncode=143\nstate=terminated\n")
    assert after_failure.see(present.job).state == "running"
    queue.become("2", "completed 0", "job=2\ncode=0\nstate=completed\n")
    assert after_failure.wait([present])[0].state == "completed"


def test_run_that_waits_for_the_attempt_before_follows_the_new_one(
    after_failure: Jobs, queue: FakeQueue, queued: JobRequest, hasty: Timeouts, tmp_path: Path
) -> None:
    notes = Notes()
    waiting = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty, reporter=notes)
    stale = waiting.present(queued, [item_of(tmp_path)], retry=False)
    assert after_failure.present(queued, [item_of(tmp_path)]).job.id == "2"
    queue.become("2", "completed 0", "job=2\ncode=0\nstate=completed\n")
    (result,) = waiting.wait([stale])
    assert (result.id, result.state, result.attempt) == ("2", "completed", 2)
    assert notes.notices[0] == "job 1 has ended, and another run has submitted it again as job 2: that is followed now"


@pytest.mark.parametrize("state", ["never_starts", "dependency_never_satisfied"])
def test_job_that_waits_for_ever_is_cancelled_first(
    queue: FakeQueue, queued: JobRequest, hasty: Timeouts, tmp_path: Path, state: str
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    item = item_of(tmp_path)
    jobs.present(queued, [item])
    queue.become("1", state)
    present = jobs.present(queued, [item])
    assert present.ended is not None
    assert (present.ended.state, present.job.id) == (state, "2")
    assert (queue.spool / "job.1" / "state").read_text() == "cancelled\n"
    queue.become("2", state)
    assert jobs.absent(queued)
    assert (queue.spool / "job.2" / "state").read_text() == "cancelled\n"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by /proc")
def test_application_that_outlived_its_script_is_ended_first(jobs: Jobs, shell: Shell, tmp_path: Path) -> None:
    deployed = shell(f"[ -e {tmp_path}/go ] || {{ echo $$ >{tmp_path}/pid; exec sleep 60; }}")
    present = jobs.present(deployed)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.02)
    number = int((tmp_path / "pid").read_text())
    leader = int(present.job.id.partition("-")[0])
    listed = subprocess.run(["ps", "-e", "-o", "pid=,sess="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    for kind in (signal.SIGSTOP, signal.SIGKILL):  # none of them is to write down the end of another one
        for pid in (pid for pid, session in pairs if session == leader and pid != number):
            os.kill(pid, kind)
    assert jobs.wait([present])[0].state == "lost"
    os.kill(number, 0)
    (tmp_path / "go").touch()
    assert not jobs.present(deployed).made
    assert jobs.absent(deployed)
    assert carry_out(jobs, deployed)[1].state == "completed"
    # A process that has ended stays listed as "Z" until its parent collects it, and not every container's init does.
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True).stdout.strip()
    assert shown[:1] in ("", "Z")


def test_job_that_another_machine_with_the_same_files_runs_is_not_run_again(
    jobs: Jobs, shell: Shell, tmp_path: Path
) -> None:
    deployed = shell(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
    present = jobs.present(deployed)
    state = Path(present.job.spec.directory) / "state"
    while not (tmp_path / "trace").exists():
        time.sleep(0.02)
    # What this machine would see of a job on the other one: an id that none of its processes has.
    for name in ("id", "pid"):
        (state / name).write_text(re.sub(r"(\d+)-", r"\1-9", (state / name).read_text()))
    start = re.sub("host=.*", "host=elsewhere", (state / "start").read_text())
    (state / "start").write_text(re.sub(r"(job=\d+)-", r"\1-9", start))
    present, result = carry_out(jobs, deployed)
    assert (present.made, result.state) == (False, "lost")
    (tmp_path / "go").touch()
    assert runs(tmp_path) == 1
