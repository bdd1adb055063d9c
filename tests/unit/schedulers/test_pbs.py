"""The real commands against fake qsub, qstat, qdel and qselect that behave as those of Torque and OpenPBS."""

import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs.record import parse_exit
from modak_deploy.model.base import SchedulerName
from modak_deploy.model.job import ENDS
from modak_deploy.schedulers.base import QueueState
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from scheduler_parts import Part
from scriptruns import wait_for

FAKES = Path(__file__).parents[2] / "fakes"


def run(command: str) -> Completed:
    return LocalTransport().run(command, timeout=60)


class Cluster:
    """A fake server, and the jobs that a test gives it."""

    def __init__(self, name: SchedulerName, folder: Path, job_folder: Callable[..., tuple[Path, Part]]) -> None:
        self.name, self.folder, self.job_folder = name, folder, job_folder

    def set(self, **settings: Any) -> None:
        file = self.folder / "settings.json"
        file.write_text(json.dumps((json.loads(file.read_text()) if file.exists() else {}) | settings))

    def submit(self, *argv: str, **more: Any) -> "Submitted":
        tag = f"modak-{secrets.token_hex(8)}"
        folder, part = self.job_folder(self.name, *argv, name=f"run-{tag}", tag=tag, **more)
        done = run(part.scheduler.submit_command(part.spec))
        return Submitted(part.scheduler.parse_submit(done), folder, part)


class Submitted:
    """A job on a fake server."""

    def __init__(self, name: str, folder: Path, part: Part) -> None:
        self.id, self.folder, self.part, self.scheduler = name, folder, part, part.scheduler

    def state(self) -> QueueState | None:
        return self.scheduler.parse_status(run(self.scheduler.status_command([self.id])), [self.id]).get(self.id)

    def end(self) -> QueueState:
        limit = time.monotonic() + 30
        while True:
            state = self.state()
            if state is not None and state.state in ENDS:
                return state
            assert time.monotonic() < limit, f"it has not ended within 30 s: {state}"
            time.sleep(0.1)

    def found(self) -> list[str]:
        tag = self.part.spec.tag
        return self.scheduler.parse_find(run(self.scheduler.find_command(tag, self.part.spec.name)), tag)

    def text(self, name: str = "output.log") -> str:
        return (self.folder / name).read_text()


@pytest.fixture(params=["torque", "openpbs"])
def cluster(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job_folder: Callable[..., tuple[Path, Part]],
) -> Cluster:
    folder = tmp_path / "server"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{FAKES / request.param}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_PBS", str(folder))
    return Cluster(request.param, folder, job_folder)


def test_a_job_from_start_to_end(cluster: Cluster) -> None:
    job = cluster.submit("sh", "-c", "echo out; while [ ! -e go ]; do sleep 0.05; done; exit 3")
    state = job.state()
    assert state is not None
    assert state.state == "running"
    assert job.found() == [job.id]
    while "out" not in (job.text() if (job.folder / "output.log").exists() else ""):
        time.sleep(0.05)
    (job.folder / "work" / "go").touch()
    end = job.end()
    assert (end.state, end.exit_code) == ("failed", 3)
    record = parse_exit(job.text("state/exit"))
    assert record is not None
    assert (record.state, record.code) == ("failed", 3)
    assert (job.folder / "scheduler.log").exists()
    assert job.found() == [job.id]


def test_a_cancelled_job(cluster: Cluster) -> None:
    job = cluster.submit("sleep", "600")
    wait_for(lambda: (job.folder / "state" / "run").exists())  # before that, nothing is there to be recorded
    assert run(job.scheduler.cancel_command([job.id, "9999.fake"])).returncode == 0
    assert job.end().state == "cancelled"
    assert "state=terminated" in job.text("state/exit")
    assert run(job.scheduler.cancel_command([job.id])).returncode == 0


def test_a_job_over_its_wall_time(cluster: Cluster) -> None:
    job = cluster.submit("sleep", "600", job={"wall_time": 1})
    assert job.end().state == "timeout"
    assert "state=timeout" in job.text("state/exit")


def test_a_job_over_its_wall_time_brings_back_what_it_wrote_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    cluster.set(kill_delay=20)
    (local := tmp_path / "local").mkdir()
    options = {"wall_time": 1, "scratch": str(local)}
    job = cluster.submit("sh", "-c", "echo x >out; sleep 600", job=options, application={"outputs": ["out"]})
    assert job.end().state == "timeout"
    assert job.text("work/out") == "x\n"
    assert not list(local.iterdir())


def test_an_array(cluster: Cluster) -> None:
    job = cluster.submit("sh", "-c", 'echo "task $MODAK_TASK"; exit "$MODAK_TASK"', job={"array": "0-2%2"})
    assert job.id.endswith("[].fake")
    end = job.end()
    assert (end.state, end.exit_code, end.reason) == ("failed", 1, "task 1 and 1 more: exit code 1")
    assert [job.text(f"output.log.{task}") for task in range(3)] == ["task 0\n", "task 1\n", "task 2\n"]
    assert "code=2\n" in job.text("state/exit.2")
    assert job.found() == [job.id]
    task = job.id.replace("[]", "[2]")
    assert job.scheduler.parse_status(run(job.scheduler.status_command([task])), [task])[task].exit_code == 2


def test_a_complaint_in_the_middle_of_the_answer(cluster: Cluster) -> None:
    jobs = [cluster.submit("true") for _ in range(2)]
    for job in jobs:
        job.end()
    ids = [jobs[0].id, "9998.fake", jobs[1].id, "9999.fake"]
    states = jobs[0].scheduler.parse_status(run(jobs[0].scheduler.status_command(ids)), ids)
    assert {name: state.state for name, state in states.items()} == {job.id: "completed" for job in jobs}
    assert jobs[1].found() == [jobs[1].id]


def test_a_plain_job_beside_an_array_is_one_question(cluster: Cluster) -> None:
    array = cluster.submit("true", job={"array": "0-1"})
    plain = cluster.submit("true")
    array.end(), plain.end()
    ids = [array.id, plain.id, "9999.fake"]
    states = plain.scheduler.parse_status(run(plain.scheduler.status_command(ids)), ids)
    assert {name: state.state for name, state in states.items()} == {array.id: "completed", plain.id: "completed"}


def test_a_dependency_that_is_satisfied_and_one_that_is_not(cluster: Cluster) -> None:
    parent = cluster.submit("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 1")
    never = cluster.submit("true", job={"dependency": [f"afterok:{parent.id}"]})
    after = cluster.submit("true", job={"dependency": [f"afterany:{parent.id}"]})
    waiting = never.state()
    assert waiting is not None
    assert (waiting.state, waiting.reason) == ("queued", f"it waits for afterok:{parent.id}")
    (parent.folder / "work" / "go").touch()
    assert parent.end().state == "failed"
    assert never.end().state == "dependency_never_satisfied"
    assert after.end().state == "completed"


def test_a_dependency_on_a_job_that_had_failed(cluster: Cluster) -> None:
    parent = cluster.submit("false")
    parent.end()
    child = cluster.submit("true", job={"dependency": [f"afterok:{parent.id}"]})
    assert child.end().state == "dependency_never_satisfied"


def test_a_dependency_on_two_jobs_of_which_one_had_failed(cluster: Cluster) -> None:
    first = cluster.submit("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
    second = cluster.submit("false")
    second.end()
    child = cluster.submit("true", job={"dependency": [f"afterok:{first.id}:{second.id}"]})
    if cluster.name == "torque":
        assert child.end().reason == f"{second.id} ended with exit status 1 (afterok)"
    (first.folder / "work" / "go").touch()
    assert child.end().state == "dependency_never_satisfied"


def test_a_dependency_on_a_job_that_had_ended_well(cluster: Cluster) -> None:
    parent = cluster.submit("true")
    parent.end()
    options = {"dependency": [f"afterok:{parent.id}"]}
    if cluster.name == "openpbs":
        assert cluster.submit("true", job=options).end().state == "completed"
    else:
        with pytest.raises(JobError, match="Invalid Job Dependency: it knows no such job that has not ended yet"):
            cluster.submit("true", job=options)


def test_a_dependency_on_a_job_that_nobody_knows(cluster: Cluster) -> None:
    options = {"dependency": ["afterok:9999.fake"]}
    if cluster.name == "openpbs":
        assert cluster.submit("true", job=options).end().state == "dependency_never_satisfied"
    else:
        with pytest.raises(JobError, match="Invalid Job Dependency"):
            cluster.submit("true", job=options)


def test_a_job_that_can_never_run(cluster: Cluster) -> None:
    shape = {"threads": 64}
    if cluster.name == "openpbs":
        end = cluster.submit("true", resources=shape).end()
        assert (end.state, end.reason) == ("never_starts", cluster_comment())
    else:
        with pytest.raises(JobError, match="Job exceeds queue resource limits"):
            cluster.submit("true", resources=shape)


def cluster_comment() -> str:
    return "Can Never Run: Insufficient amount of resource: ncpus (R: 64 A: 8 T: 8)"


@pytest.mark.parametrize(
    ("settings", "more", "words"),
    [
        ({}, {"job": {"partition": "nosuch"}}, "Unknown queue"),
        ({}, {"job": {"partition": "closed"}}, "Queue is not enabled"),
        ({"max_walltime": 60}, {"job": {"wall_time": 61}}, "limits"),
        ({"ngpus": False}, {"resources": {"gpus": 1}}, "Unknown resource: ngpus"),
    ],
)
def test_a_refused_job(cluster: Cluster, settings: dict[str, Any], more: dict[str, Any], words: str) -> None:
    cluster.set(**settings)
    if "gpus" in str(more) and cluster.name == "torque":
        assert cluster.submit("true", **more).end().state == "completed"
        return
    with pytest.raises(JobError, match=rf"^(Torque|OpenPBS) refused the job: .*{words}"):
        cluster.submit("true", **more)


def test_a_server_that_is_down(cluster: Cluster) -> None:
    job = cluster.submit("true")
    job.end()
    cluster.set(down=True)
    with pytest.raises(TargetError, match="does not answer"):
        job.state()
    with pytest.raises(TargetError, match="does not answer"):
        job.found()
    with pytest.raises(TargetError, match="does not answer"):
        cluster.submit("true")
    cluster.set(down=False)
    assert job.end().state == "completed"


def test_a_submission_that_reports_failure_though_the_job_exists(cluster: Cluster) -> None:
    cluster.set(qsub_fails_after=True)
    tag = f"modak-{secrets.token_hex(8)}"
    _, part = cluster.job_folder(cluster.name, "true", tag=tag)
    with pytest.raises(TargetError):
        part.scheduler.parse_submit(run(part.scheduler.submit_command(part.spec)))
    assert part.scheduler.parse_find(run(part.scheduler.find_command(tag, part.spec.name)), tag) == ["1.fake"]


def test_a_server_that_forgets(cluster: Cluster) -> None:
    cluster.set(history=False, keep_completed=0)
    job = cluster.submit("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
    state = job.state()
    assert state is not None
    assert state.state == "running"
    assert job.found() == [job.id]
    (job.folder / "work" / "go").touch()
    limit = time.monotonic() + 30
    while job.state() is not None:
        assert time.monotonic() < limit
        time.sleep(0.1)
    assert job.found() == []
    assert "state=completed" in job.text("state/exit")


def test_the_submitters_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "two words, and\na 'line'")
    job = cluster.submit("sh", "-c", 'echo "<$MINE>"', job={"export_environment": True})
    assert job.end().state == "completed"
    assert job.text() == "<two words, and\na 'line'>\n"
    job = cluster.submit("sh", "-c", 'echo "<$MINE>"')
    job.end()
    assert job.text() == "<>\n"


def test_ranks_of_an_mpi_job(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mpirun").write_text('#!/bin/sh\nprintf "%s\\n" "$*"; cat "$4"\n')
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("FAKE_PBS_PATH", f"{tmp_path}:/usr/bin:/bin")
    job = cluster.submit("./train", resources={"ranks": 3, "ranks_per_node": 3, "threads": 2})
    assert job.end().state == "completed"
    assert job.text() == f"-n 3 -machinefile {job.folder}/state/hosts ./train\nfake\nfake\nfake\n"


def test_a_check_asks_for_the_queue(cluster: Cluster) -> None:
    for queue, fails in (("work", False), ("nosuch", True)):
        _, part = cluster.job_folder(cluster.name, "true", name=queue, job={"partition": queue})
        command = part.scheduler.check_command(part.spec)
        assert command is not None
        assert (LocalTransport().run(command, stdin=part.script().encode()).returncode != 0) is fails
