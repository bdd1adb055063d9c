"""Waiting: every end told apart, silence outlived, nothing asked too often."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.errors import TargetError
from modak_deploy.jobs import folder, status
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.folder import Records
from modak_deploy.jobs.job import Job, specification
from modak_deploy.jobs.record import ExitRecord, StartRecord
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import ENDS, JobResult, JobState
from modak_deploy.model.target import Polling
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import QueueState
from modak_deploy.schedulers.states import of_array
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from transports import Counting, Notes, Unplugged

ROWS = yaml.safe_load((Path(__file__).parents[2] / "data" / "jobs" / "verdicts.yaml").read_text())
COMPLETED = "state=completed\ncode=0\nstarted=100.5\nended=103.5\nhost=n1\n"


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['queue']}-{row['record']}" for row in ROWS])
def test_verdicts(row: dict) -> None:
    queue = QueueState(**row["queue"]) if row["queue"] else None
    record = ExitRecord(**row["record"]) if row["record"] else None
    end = status.ended(queue, record)
    if row["end"] is None:
        assert end is None
    else:
        assert end is not None
        assert (end.state, end.exit_code, end.reason) == (row["end"], row["code"], row["reason"])


@pytest.mark.parametrize(
    ("queue", "exits", "state", "reason"),
    [
        ({1: "completed", 2: "completed"}, {1: 0}, "lost", "task 0: "),
        ({1: "completed", 2: "completed"}, {0: 3}, "failed", "task 0: the application ended with exit code 3"),
        ({0: "completed", 1: "completed", 2: "completed"}, {1: 0}, "completed", ""),
        ({2: "out_of_memory"}, {0: 0, 1: 0}, "out_of_memory", "task 2: it needed more memory"),
        (None, {0: 0, 2: 0}, "lost", "task 1: neither the queue nor an exit record"),
        (None, {}, "lost", "task 0 and 2 more: it left the queue without a sign that it ever started"),
    ],
)
def test_an_array_whose_tasks_are_told_in_part(
    tmp_path: Path, queue: dict[int, JobState] | None, exits: dict[int, int], state: str, reason: str
) -> None:
    """A scheduler forgets tasks one by one, and a task that is killed leaves no record."""
    deployed = requested(["true"], tmp_path, scheduler="slurm", job={"array": "0-2"})
    job = Job("7", specification(deployed, "/runs/x"), deployed, registry.get("slurm"))
    told = None if queue is None else of_array({str(task): QueueState(word) for task, word in queue.items()})
    known = {task: ExitRecord("failed" if code else "completed", code) for task, code in exits.items()}
    end = status.of_job(job, told, Records(exits=known))
    assert end.state == state
    assert end.reason.startswith(reason)


def test_what_was_told_of_a_task_before_it_was_forgotten_counts(tmp_path: Path) -> None:
    deployed = requested(["true"], tmp_path, scheduler="slurm", job={"array": "0-1"})
    job = Job("7", specification(deployed, "/runs/x"), deployed, registry.get("slurm"))
    before = {"0": QueueState("failed", exit_code=137), "1": QueueState("running")}
    last = of_array({"1": QueueState("completed")})
    record = Records(exits={1: ExitRecord("completed", 0)})
    for queue, records, state in ((last, Records(), "failed"), (None, record, "failed"), (None, Records(), "lost")):
        assert status.of_job(job, queue, records, before).state == state


@pytest.mark.parametrize(
    ("queue", "record", "state", "code"),
    [
        (None, None, "out_of_memory", None),
        (None, ("terminated", 143), "out_of_memory", 143),
        (None, ("failed", 137), "out_of_memory", 137),
        (None, ("completed", 0), "completed", 0),
        ("cancelled", ("terminated", 143), "out_of_memory", 143),
        ("failed", None, "out_of_memory", None),
        ("node_failure", None, "node_failure", None),
        ("completed", ("completed", 0), "completed", 0),
    ],
)
def test_the_cause_that_the_scheduler_wrote_into_the_log(
    tmp_path: Path, queue: JobState | None, record: tuple[Any, int] | None, state: str, code: int | None
) -> None:
    """A queue that has forgotten the job does not say why it ended; a recorded success stays one."""
    deployed = requested(["true"], tmp_path, scheduler="openpbs")
    job = Job("7", specification(deployed, "/runs/x"), deployed, registry.get("openpbs"))
    message = "=>> PBS: job killed: mem 829432kb exceeded limit 65536kb"
    exits = {None: ExitRecord(*record)} if record else {}
    records = Records(starts={None: StartRecord("7")}, exits=exits, messages={None: message})
    end = status.of_job(job, QueueState(queue) if queue else None, records)
    assert (end.state, end.exit_code) == (state, code)


def test_a_message_belongs_to_its_task(tmp_path: Path) -> None:
    deployed = requested(["true"], tmp_path, scheduler="openpbs", job={"array": "0-1"})
    job = Job("7[]", specification(deployed, "/runs/x"), deployed, registry.get("openpbs"))
    text = "/dev/null:\nscheduler.log.1:=>> PBS: job killed: walltime 23 exceeded limit 8\n"
    records = replace(folder.parse({"messages": text}), starts={1: StartRecord("7[1]")})
    end = status.of_job(job, None, replace(records, exits={0: ExitRecord("completed", 0)}))
    assert (end.state, end.reason) == ("timeout", "task 1: its wall time is over (walltime 23 exceeded limit 8)")
    assert folder.parse({"messages": text.replace(".1:", "-1:")}).messages == records.messages  # as Torque names it


def test_a_child_that_its_scheduler_has_deleted_and_forgotten(tmp_path: Path) -> None:
    deployed = requested(["true"], tmp_path, scheduler="openpbs", job={"dependency": ["afterok:6.vm"]})
    job = Job("7.vm", specification(deployed, "/runs/x"), deployed, registry.get("openpbs"))
    end = status.of_job(job, None, Records())
    assert end.state == "dependency_never_satisfied"
    assert "depends on afterok:6.vm" in end.reason
    assert status.of_job(job, None, Records(starts={None: StartRecord("7.vm")})).state == "lost"


def test_table_has_every_end_but_one() -> None:
    """``lost`` is nobody's word: it is concluded from silence."""
    assert {row["end"] for row in ROWS} == {None, *ENDS - {"lost"}}


class Stage:
    """A queue, one job in it, and the life that a test gives it while it is watched."""

    def __init__(self, queue: FakeQueue, tmp_path: Path, timeouts: Timeouts, transport: LocalTransport) -> None:
        self.queue = queue
        self.waits = False
        self.notes = Notes()
        self.acts: list = []
        self.pauses: list[float] = []
        self.jobs = Jobs(transport, scheduler=queue, reporter=self.notes, timeouts=replace(timeouts, sleep=self.sleep))
        self.request = requested(
            ["true"], tmp_path / "space", scheduler="slurm", polling=Polling(first=2.0, maximum=10.0)
        )
        self.present: Present = self.jobs.present(self.request)
        self.pauses.clear()

    def sleep(self, seconds: float) -> None:
        """Instead of waiting, do what happens next."""
        self.pauses.append(seconds)
        if self.acts:
            self.acts.pop(0)()
        time.sleep(0.01)

    def watch(self, *acts: object) -> JobResult:
        self.acts = list(acts)
        return self.jobs.wait([self.present])[0]

    def become(self, state: str, record: str | None = None):  # type: ignore[no-untyped-def]
        return lambda: self.queue.become(self.present.job.id, state, record)


def nothing() -> None:
    pass


@pytest.fixture
def stage(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> Stage:
    return Stage(queue, tmp_path, hasty, LocalTransport())


def test_no_jobs_have_ended_at_once(queue: FakeQueue) -> None:
    assert Jobs(LocalTransport(), scheduler=queue).wait([]) == []


def test_pauses_grow_by_half_up_to_the_limit(stage: Stage) -> None:
    result = stage.watch(*[nothing] * 6, stage.become("completed 0", COMPLETED))
    assert stage.pauses == [2.0, 3.0, 4.5, 6.75, 10.0, 10.0, 10.0]
    assert (result.state, result.seconds, result.host, result.started) == ("completed", 3.0, "n1", 100.5)
    assert stage.notes.states == [("queued", ""), ("completed", "")]
    assert stage.notes.notices == [
        f"waiting for job 1 ({stage.request.tag}); stopping this does not stop it, and the same run follows it again"
    ]


def test_state_that_does_not_change_is_told_now_and_then(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    stage = Stage(queue, tmp_path, replace(hasty, remind=0.0), LocalTransport())
    stage.watch(nothing, nothing, stage.become("completed 0", COMPLETED))
    assert stage.notes.states == [("queued", ""), ("queued", ""), ("completed", "")]


def test_an_expected_start_is_told_once(stage: Stage) -> None:
    starts = [stage.become("queued 18:00"), stage.become("queued 18:05"), stage.become("queued 18:10")]
    stage.watch(nothing, *starts, stage.become("completed 0", COMPLETED))
    assert stage.notes.states == [("queued", ""), ("queued", ""), ("completed", "")]


def test_cancelled_is_said_at_the_next_question(stage: Stage) -> None:
    """The record may still be missing: the queue's word is enough."""
    result = stage.watch(stage.become("running"), stage.become("cancelled"))
    assert result.state == "cancelled"
    assert len(stage.pauses) == 2


def test_queue_forgets_the_job(stage: Stage) -> None:
    result = stage.watch(stage.become("running"), stage.become("", "state=failed\ncode=3\n"))
    assert (result.state, result.exit_code, result.reason) == (
        "failed",
        3,
        "the application ended with exit code 3",
    )


def test_lost_only_after_three_denials(stage: Stage) -> None:
    result = stage.watch(stage.become("running"), stage.become(""))
    assert result.state == "lost"
    assert len(stage.pauses) == 4


def test_slow_queue_is_no_loss(stage: Stage) -> None:
    """A job that is not listed yet, and then is, is not lost; denials in a row count."""
    result = stage.watch(
        stage.become(""),
        nothing,
        stage.become("running"),
        stage.become(""),
        nothing,
        stage.become("completed 0", COMPLETED),
    )
    assert result.state == "completed"


def test_record_that_comes_late_is_waited_for(stage: Stage) -> None:
    result = stage.watch(stage.become("completed 0"), stage.become("completed 0", COMPLETED))
    assert (result.state, result.seconds) == ("completed", 3.0)


def test_record_that_never_comes(stage: Stage) -> None:
    result = stage.watch(stage.become("failed 7"))
    assert (result.state, result.exit_code) == ("failed", 7)
    assert len(stage.pauses) == 3


def test_queue_that_does_not_let_a_completed_job_go(stage: Stage) -> None:
    result = stage.watch(stage.become("running", COMPLETED))
    assert result.state == "completed"


def test_queue_that_does_not_let_a_failed_job_go(stage: Stage) -> None:
    """As of a node that died in the job's last moment. The cause may come late, and counts; but not for ever."""
    never = lambda: pytest.fail("it is waited for without end")  # noqa: E731
    begin = stage.become("running", "state=failed\ncode=137\n")
    result = stage.watch(begin, *[nothing] * 500, never)
    assert (result.state, result.exit_code) == ("failed", 137)


def test_never_starts_is_an_end(stage: Stage) -> None:
    assert stage.watch(stage.become("never_starts")).state == "never_starts"
    assert len(stage.pauses) >= 3
    assert stage.notes.states[0] == ("never_starts", "")


def test_scheduler_silent_for_a_while(stage: Stage) -> None:
    def heal() -> None:
        (stage.queue.spool / "down").unlink()
        stage.queue.become("1", "completed 0", COMPLETED)

    result = stage.watch(lambda: stage.queue.fault("down"), nothing, heal)
    assert result.state == "completed"
    assert stage.notes.notices[1:] == [
        "no word of the job, asking again for up to 1 s: the queue does not answer: no answer",
        "the target answers again",
    ]


def test_scheduler_silent_and_the_job_has_completed(stage: Stage) -> None:
    def end() -> None:
        stage.queue.fault("down")
        stage.queue.become("1", "running", COMPLETED)

    assert stage.watch(end).state == "completed"


def test_scheduler_silent_for_too_long(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    stage = Stage(queue, tmp_path, replace(hasty, outage=0.1), LocalTransport())
    with pytest.raises(TargetError, match="no status of the job for 0 s; it may still run: the queue does not"):
        stage.watch(lambda: stage.queue.fault("down"))


def test_network_down_for_a_while(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    transport = Unplugged()
    stage = Stage(queue, tmp_path, hasty, transport)
    result = stage.watch(lambda: transport.pull(3), nothing, nothing, stage.become("completed 0", COMPLETED))
    assert result.state == "completed"
    assert stage.notes.notices[1:] == [
        "no word of the job, asking again for up to 1 s: the network is down",
        "the target answers again",
    ]


def test_connection_that_hangs_is_given_up_soon_and_a_slow_queue_is_given_time(
    queue: FakeQueue, tmp_path: Path, hasty: Timeouts
) -> None:
    """Four questions get no answer in time."""
    now, limits = [0.0], []

    class Hanging(LocalTransport):
        def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
            if stage.waits and len(limits) < 4:
                limits.append(timeout)
                now[0] += timeout or 0
                raise TargetError("here did not answer in time")
            return super().run(command, stdin=stdin, timeout=timeout)

    stage = SimpleNamespace(waits=False)
    stage = Stage(queue, tmp_path, replace(hasty, outage=900.0, clock=lambda: now[0]), Hanging())
    stage.waits = True
    assert stage.watch(*[nothing] * 4, stage.become("completed 0", COMPLETED)).state == "completed"
    assert limits == [60.0, 120.0, 240.0, 300.0]


def test_one_question_is_one_round_trip(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    transport = Counting()
    stage = Stage(queue, tmp_path, hasty, transport)
    transport.trips = 0
    stage.watch(nothing, nothing, stage.become("completed 0", COMPLETED))
    assert transport.trips == 3


def test_array_ends_when_all_its_tasks_have(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    stage = Stage(queue, tmp_path, hasty, LocalTransport())
    stage.request = requested(["true"], tmp_path / "space", scheduler="slurm", job={"array": "0-2"})
    stage.present = stage.jobs.present(stage.request)
    state = Path(stage.present.job.spec.directory) / "state"

    def end(task: int, text: str):  # type: ignore[no-untyped-def]
        return lambda: (state / f"exit.{task}").write_text(text)

    def forget() -> None:
        end(1, "code=0\n")()
        queue.become(stage.present.job.id, "")

    result = stage.watch(end(0, "code=0\n"), end(2, "code=4\n"), forget)
    assert (result.state, result.exit_code) == ("failed", 4)


def lingering(queue: FakeQueue, tmp_path: Path, hasty: Timeouts, **job: str) -> tuple[Stage, Counting, Path]:
    """Return a job whose target waits itself for an hour at a time, and the folder of its records."""
    transport = Counting()
    stage = Stage(queue, tmp_path, replace(hasty, linger=3600), transport)
    polling = Polling(first=3600.0, maximum=3600.0)
    stage.request = requested(
        ["true"], tmp_path / "space", name="lingering", scheduler="slurm", polling=polling, job=job
    )
    stage.present = stage.jobs.present(stage.request)
    transport.trips = 0
    return stage, transport, Path(stage.present.job.spec.directory) / "state"


def later(seconds: float, act) -> threading.Timer:  # type: ignore[no-untyped-def]
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def test_target_that_lingers_answers_when_the_job_ends(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    stage, transport, _state = lingering(queue, tmp_path, hasty)
    number = stage.present.job.id
    timer = later(0.5, lambda: [queue.become(number, "completed 0", record) for record in (None, COMPLETED)])
    assert stage.watch().state == "completed"
    timer.join()
    assert (transport.trips, stage.pauses) == (1, [0.0])


def test_target_lingers_until_the_last_task_of_an_array(queue: FakeQueue, tmp_path: Path, hasty: Timeouts) -> None:
    stage, transport, state = lingering(queue, tmp_path, hasty, array="1-3")

    def end() -> None:
        queue.become(stage.present.job.id, "completed 0")
        for task in (2, 3, 1):
            (state / f"exit.{task}").write_text("code=0\n")

    timer = later(0.3, end)
    assert stage.watch().state == "completed"
    timer.join()
    assert transport.trips == 1


def test_queue_that_is_slow_to_let_a_job_go_is_asked_again_soon(
    queue: FakeQueue, tmp_path: Path, hasty: Timeouts
) -> None:
    stage, transport, _state = lingering(queue, tmp_path, replace(hasty, finishing=60.0))
    timer = later(0.3, lambda: queue.become(stage.present.job.id, "running", COMPLETED))
    assert stage.watch(nothing, nothing, stage.become("completed 0")).state == "completed"
    timer.join()
    assert stage.pauses == [0.0, 0.005, 0.0075]
    assert transport.trips == 3
