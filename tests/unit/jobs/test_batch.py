"""Several jobs that are staged and submitted together: each of them once, whatever fails."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.errors import JobError, ModakError, TargetError
from modak_deploy.jobs.control import JobInput, Jobs, Present
from modak_deploy.jobs.results import Ended
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from transports import Counting, Failing, Killed, Noisy, Notes

COUNT = 5


class ListingQueue(FakeQueue):
    """A queue that can be asked for all jobs at once; ``before`` is a shell command that runs after its list."""

    before = ":"
    stale = False

    def listing_command(self) -> str:
        jobs = f'cd {self.spool} && for job in job.*; do echo "${{job#job.}} $(cat "$job/tag" 2>/dev/null)"; done'
        return f"{'true' if self.stale else jobs}\n{self.before}"

    def find_listed_command(self, tag: str, name: str) -> str:
        return f"awk -v tag={tag} '$2 == tag {{ print $1 }}'"


def plans(folder: Path, count: int = COUNT) -> list[JobRequest]:
    return [
        requested(["sh", "-c", f"echo {n}"], folder / "space", name=f"job-{n}", scheduler="slurm") for n in range(count)
    ]


def inputs(many: list[JobRequest]) -> list[JobInput]:
    return [JobInput(item) for item in many]


def ids(outcomes: list[Present | ModakError]) -> list[str]:
    return [item.job.id for item in outcomes if isinstance(item, Present)]


@pytest.fixture
def many(tmp_path: Path) -> list[JobRequest]:
    return plans(tmp_path)


def test_two_round_trips_for_all(queue: FakeQueue, many: list[JobRequest], hasty: Timeouts) -> None:
    transport = Counting()
    outcomes = Jobs(transport, scheduler=queue, timeouts=hasty).present_all(inputs(many))
    assert transport.trips == 2
    assert sorted(ids(outcomes)) == queue.jobs() == [str(n + 1) for n in range(COUNT)]
    assert all(isinstance(item, Present) and item.made for item in outcomes)
    again = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present_all(inputs(many))
    assert ids(again) == ids(outcomes)
    assert not any(isinstance(item, Present) and item.made for item in again)
    assert [job and job.id for job in Jobs(transport, scheduler=queue).find_all(many)] == ids(outcomes)
    assert transport.trips == 3


def test_those_that_are_there_are_followed_and_the_others_submitted(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    first = jobs.present(many[2])
    outcomes = jobs.present_all(inputs(many))
    made = [item.made for item in outcomes if isinstance(item, Present)]
    assert made == [True, True, False, True, True]
    assert ids(outcomes)[2] == first.job.id
    assert len(queue.jobs()) == COUNT


def test_noisy_login(queue: FakeQueue, many: list[JobRequest], hasty: Timeouts) -> None:
    assert len(ids(Jobs(Noisy(), scheduler=queue, timeouts=hasty).present_all(inputs(many)))) == COUNT


def test_those_that_the_scheduler_refuses_are_told_apart(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, tmp_path: Path
) -> None:
    refused = many[1].tag

    class Picky(FakeQueue):
        def submit_command(self, job: Any) -> str:
            return "echo 'refused: no such queue' >&2; exit 1" if job.tag == refused else super().submit_command(job)

    picky = Picky(tmp_path / "spool")
    outcomes = Jobs(LocalTransport(), scheduler=picky, timeouts=hasty).present_all(inputs(many))
    assert [isinstance(item, Present) for item in outcomes] == [True, False, True, True, True]
    assert isinstance(outcomes[1], JobError)
    assert len(picky.jobs()) == COUNT - 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("trip", [0, 1])
def test_controller_killed_around_a_round_trip(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, trip: int, after: bool
) -> None:
    with pytest.raises(Killed):
        Jobs(Failing(trip, after=after), scheduler=queue, timeouts=hasty).present_all(inputs(many))
    outcomes = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present_all(inputs(many))
    assert sorted(ids(outcomes)) == queue.jobs() == [str(n + 1) for n in range(COUNT)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_connection_lost_in_the_submission(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, after: bool
) -> None:
    notes = Notes()
    transport = Failing(1, after=after, error=lambda: TargetError("the connection was lost"))
    outcomes = Jobs(transport, scheduler=queue, timeouts=hasty, reporter=notes).present_all(inputs(many))
    assert len(set(ids(outcomes))) == len(queue.jobs()) == COUNT
    assert notes.notices == ["the submission is tried again: the connection was lost"]


class Cut(LocalTransport):
    """Kills the shell that carries out the steps, with SIGKILL, once ``count`` jobs are in the queue."""

    def __init__(self, queue: FakeQueue, count: int) -> None:
        self.queue, self.count, self.cut = queue, count, False

    def run(self, command: str, **rest: Any) -> Completed:
        if not self.cut and "step_code" in command and "submit" in str(rest.get("stdin", b"")):
            self.cut = True
            stop = f'[ "$(ls {self.queue.spool} | grep -c job)" -lt {self.count} ] || kill -KILL $$'
            command = command.replace("code=$?\n", f"code=$?\n{stop}\n", 1)
        return super().run(command, **rest)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_shell_killed_between_two_jobs(queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, count: int) -> None:
    transport = Cut(queue, count)
    outcomes = Jobs(transport, scheduler=queue, timeouts=hasty).present_all(inputs(many))
    assert transport.cut
    assert len(set(ids(outcomes))) == len(queue.jobs()) == COUNT


def test_no_folder_for_the_steps(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    notes = Notes()
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty, reporter=notes)
    with pytest.raises(TargetError, match="no folder can be created in /nowhere"):
        jobs.present_all(inputs(many))
    assert queue.jobs() == []


def test_nothing_is_left_in_the_temporary_folder(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    Jobs(LocalTransport(), scheduler=queue, timeouts=hasty).present_all(inputs(many))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_lock_of_one_job_that_somebody_holds(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs(LocalTransport(), scheduler=queue, timeouts=hasty)
    monkeypatch.setenv("MODAK_LOCK_PATIENCE", "4")
    lock = Path(jobs.prepare(many[1]).spec.directory) / "state" / "lock"
    lock.mkdir(parents=True)
    (lock / "1").symlink_to("0123-4567:4026531836:1000:4711.1234:flock")
    outcomes = jobs.present_all(inputs(many[:3]))
    assert len(set(ids(outcomes))) == len(queue.jobs()) == 3


@pytest.fixture
def listing(tmp_path: Path) -> ListingQueue:
    return ListingQueue(tmp_path / "spool")


def asked(monkeypatch: pytest.MonkeyPatch, queue: FakeQueue) -> Callable[[], int]:
    """Count how often the queue is asked for one job's tag."""
    log = queue.spool.parent / "asked"
    log.touch()
    find = type(queue).find_command
    monkeypatch.setattr(type(queue), "find_command", lambda self, tag, name: f"echo >>{log}\n{find(self, tag, name)}")
    return lambda: len(log.read_text())


def test_list_is_asked_for_once(
    listing: ListingQueue, many: list[JobRequest], hasty: Timeouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = asked(monkeypatch, listing)
    outcomes = Jobs(LocalTransport(), scheduler=listing, timeouts=hasty).present_all(inputs(many))
    assert len(set(ids(outcomes))) == len(listing.jobs()) == COUNT
    assert count() == 0


@pytest.mark.parametrize("stale", [False, True], ids=["in the list", "submitted after it by a folder that went away"])
def test_job_whose_folder_is_gone_is_not_submitted_again(
    listing: ListingQueue, many: list[JobRequest], hasty: Timeouts, tmp_path: Path, stale: bool
) -> None:
    """A list that is older than the folder, which another run has made anew, does not count."""
    jobs = Jobs(LocalTransport(), scheduler=listing, timeouts=hasty)
    first = jobs.present(many[1])
    Path(first.job.spec.directory).rename(tmp_path / "away")
    listing.stale = stale
    if stale:
        listing.before = f"rm -f {first.job.spec.directory}/state/staged.*"
    outcomes = jobs.present_all(inputs(many))
    assert isinstance(outcomes[1], JobError)
    assert "but its folder" in str(outcomes[1])
    assert len(ids(outcomes)) == COUNT - 1
    assert len(listing.jobs()) == COUNT


def test_results_of_several_jobs_come_in_one_round_trip(tmp_path: Path, hasty: Timeouts) -> None:
    transport = Counting()
    jobs = Jobs(transport, timeouts=replace(hasty, lost=0.5))
    many = [
        requested(["sh", "-c", f"echo {n} >out"], tmp_path / "space", name=f"job-{n}", outputs=["out"])
        for n in range(COUNT)
    ]
    present = [item for item in jobs.present_all(inputs(many)) if isinstance(item, Present)]
    results = jobs.wait(present)
    assert {result.state for result in results} == {"completed"}
    transport.trips = 0
    ended = [Ended(item.job, result, tmp_path / "results") for item, result in zip(present, results, strict=True)]
    fetched = jobs.fetch_all(ended)
    assert transport.trips == 1
    assert all(item.changed for item in fetched)
    for number in range(COUNT):
        assert (tmp_path / "results" / f"job-{number}" / "out").read_text() == f"{number}\n"
    assert not any(item.changed for item in jobs.fetch_all(ended))
    assert transport.trips == 2


def test_results_of_one_job_that_are_not_there_keep_no_others_from_coming(tmp_path: Path, hasty: Timeouts) -> None:
    jobs = Jobs(LocalTransport(), timeouts=replace(hasty, lost=0.5))
    lines = ["true", "echo 1 >out", "true", "echo 3 >out"]
    space = tmp_path / "space"
    many = [requested(["sh", "-c", line], space, name=f"job-{n}", outputs=["out"]) for n, line in enumerate(lines)]
    present = [item for item in jobs.present_all(inputs(many)) if isinstance(item, Present)]
    results = jobs.wait(present)
    ended = [Ended(item.job, result, tmp_path / "results") for item, result in zip(present, results, strict=True)]
    with pytest.raises(JobError) as error:
        jobs.fetch_all(ended)
    assert str(error.value).count("completed without writing 'out'") == 2
    for number in (1, 3):
        assert (tmp_path / "results" / f"job-{number}" / "out").read_text() == f"{number}\n"


def test_secrets_are_written_to_the_folder_of_the_job_alone(
    queue: FakeQueue, many: list[JobRequest], hasty: Timeouts, tmp_path: Path
) -> None:
    """The steps of several jobs lie in a temporary folder meanwhile, those of a job alone do not."""
    secret = requested(
        ["true"], tmp_path / "space", name="secret", scheduler="slurm",
        secret_environment={"TOKEN": {"file": "token"}},
    )  # fmt: skip
    seen: list[bytes] = []

    class Watched(Counting):
        def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
            if "modak_listing" in command:
                seen.append(stdin or b"")
            return super().run(command, stdin=stdin, timeout=timeout)

    transport = Watched()
    items = [*inputs(many), JobInput(secret, secrets=lambda: b"TOKEN='sesame'\n")]
    outcomes = Jobs(transport, scheduler=queue, timeouts=hasty).present_all(items)
    assert len(set(ids(outcomes))) == len(queue.jobs()) == COUNT + 1
    assert len(seen) == 2
    assert not any(b"sesame" in data for data in seen)
    assert transport.trips == 3
    assert isinstance(outcomes[-1], Present)
    assert "sesame" in Path(outcomes[-1].job.spec.directory, "state", "secret_environment").read_text()
