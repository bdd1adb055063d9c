"""Whole lives of jobs on fake Torque and OpenPBS servers: submitted once, every end told, folders removed."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import requested
from modak_deploy.errors import JobError, TargetError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.local import LocalTransport

FAKES = Path(__file__).parents[2] / "fakes"


@pytest.fixture(params=["torque", "openpbs"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., JobRequest]:
    """Return the function that makes the request for a shell line; ``settings`` are the fake server's."""
    folder = tmp_path / "server"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{FAKES / request.param}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_PBS", str(folder))

    def make(line: str, settings: dict[str, Any] | None = None, **more: Any) -> JobRequest:
        (folder / "settings.json").write_text(json.dumps(settings or {}))
        return requested(["sh", "-c", line], tmp_path / "space", scheduler=request.param, **more)

    return make


@pytest.fixture
def jobs() -> Jobs:
    timeouts = replace(Timeouts(), outage=5.0, submission=20.0, settle=0.0, lost=0.5, cancel=20.0, pause=0.05)
    timeouts = replace(timeouts, hopeless=0.5)
    return Jobs(LocalTransport(), timeouts=timeouts)


@pytest.mark.parametrize(
    ("line", "options", "state", "code"),
    [
        ("echo well", {}, "completed", 0),
        ("exit 3", {}, "failed", 3),
        ("kill -9 $$", {}, "failed", 137),
        ("sleep 600", {"wall_time": 1}, "timeout", 143),
    ],
)
@pytest.mark.parametrize("forgets", [False, True])
def test_ends(
    jobs: Jobs,
    server: Callable[..., JobRequest],
    line: str,
    options: dict[str, Any],
    state: str,
    code: int,
    forgets: bool,
) -> None:
    settings = {"history": False, "keep_completed": 0} if forgets else {}
    (result,) = jobs.wait([jobs.present(server(line, settings, job=options))])
    assert (result.state, result.exit_code) == (state, code)
    assert result.seconds is not None


@pytest.mark.parametrize("forgets", [False, True])
def test_a_task_that_left_no_record_does_not_hide_behind_the_others(
    jobs: Jobs, server: Callable[..., JobRequest], forgets: bool
) -> None:
    settings = {"history": False, "keep_completed": 0} if forgets else {}
    line = '[ "$MODAK_TASK" = 1 ] || kill -9 0; sleep 1'
    (result,) = jobs.wait([jobs.present(server(line, settings, job={"array": "0-1"}))])
    # OpenPBS tells of each task until the array is over.
    ends = {("lost", None), ("failed", 137)} if forgets else {("failed", 137)}
    assert (result.state, result.exit_code) in ends
    assert result.reason.startswith("task 0: ")


def test_a_second_run_finds_the_job_and_a_restart_does_not(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    deployed = server("true")
    first = jobs.present(deployed)
    jobs.wait([first])
    assert jobs.present(deployed).job.id == first.job.id


def test_a_reply_that_was_lost(jobs: Jobs, server: Callable[..., JobRequest], tmp_path: Path) -> None:
    deployed = server("true", {"qsub_fails_after": True})
    present = jobs.present(deployed)
    assert present.job.id == "1.fake"
    (result,) = jobs.wait([present])
    assert result.state == "completed"
    assert (tmp_path / "server" / "number").read_text() == "1", "it was submitted twice"


def test_a_job_that_can_never_run_is_no_wait(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    deployed = server("true", {"cores": 0})
    if deployed.scheduler == "torque":
        with pytest.raises(JobError, match="cannot locate feasible nodes"):
            jobs.present(deployed)
        return
    present = jobs.present(deployed)
    (result,) = jobs.wait([present])
    assert result.state == "never_starts"
    assert result.reason.startswith("Can Never Run: ")
    assert result.reason.endswith("; it has been removed from the queue")
    assert jobs.see(present.job).state == "cancelled"


def test_a_job_that_waits_for_ever_is_removed_from_the_queue(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    parent = jobs.present(server("exit 3"))
    jobs.wait([parent])
    child = jobs.present(server("true", name="child", job={"dependency": [f"afterok:{parent.job.id}"]}))
    if child.job.scheduler.name == "torque":
        assert jobs.see(child.job).reason.endswith("; it is still in the queue")
        assert jobs.doomed(child.job.request)[0] == f"job {child.job.id}"
    (result,) = jobs.wait([child])
    assert result.state == "dependency_never_satisfied"
    if child.job.scheduler.name == "torque":
        assert result.reason.endswith("; it has been removed from the queue")
        assert jobs.see(child.job).state == "cancelled"


def test_a_child_that_openpbs_has_forgotten(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    parent = jobs.present(server("true", {"history": False}))
    if parent.job.scheduler.name == "torque":
        pytest.skip("Torque refuses a job whose parent has ended well")
    jobs.wait([parent])
    dependency = {"dependency": [f"afterok:{parent.job.id}"]}
    (result,) = jobs.wait([jobs.present(server("true", {"history": False}, name="child", job=dependency))])
    assert result.state == "dependency_never_satisfied"
    assert f"depends on afterok:{parent.job.id}" in result.reason


@pytest.mark.parametrize("forgets", [False, True])
def test_a_trap_runs_to_its_end(jobs: Jobs, server: Callable[..., JobRequest], forgets: bool) -> None:
    """Torque ends a job with its shell: 8 ms after SIGTERM, unless the job script is that shell."""
    settings = {"history": False, "keep_completed": 0, "kill_delay": 10} if forgets else {"kill_delay": 10}
    line = 'trap "sleep 0.5; echo caught >caught; exit 5" TERM; echo >started; while :; do sleep 0.1; done'
    present = jobs.present(server(line, settings))
    work = Path(present.job.spec.directory) / "work"
    while not (work / "started").exists():
        time.sleep(0.05)
    LocalTransport().run(present.job.scheduler.cancel_command([present.job.id]))
    (result,) = jobs.wait([present])
    assert result.state == "cancelled"
    assert (work / "caught").exists()


def test_an_older_torque_takes_no_kill_delay(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    (result,) = jobs.wait([jobs.present(server("true", {"takes_kill_delay": False}))])
    assert result.state == "completed"
    with pytest.raises(JobError, match="Unknown queue"):
        jobs.present(server("true", {"takes_kill_delay": False}, name="other", job={"partition": "nosuch"}))


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_a_qsub_that_is_killed_has_not_refused(
    jobs: Jobs, server: Callable[..., JobRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: str
) -> None:
    deployed = server("true")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "qsub"
    program.write_text(f'#!/bin/sh\n{FAKES}/{deployed.scheduler}/qsub "$@" >/dev/null\nkill -{signal} $$\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    (result,) = jobs.wait([jobs.present(deployed)])
    assert result.state == "completed"
    assert (tmp_path / "server" / "number").read_text() == "1", "it was submitted twice"


def test_many_jobs_are_one_question_of_openpbs(
    jobs: Jobs, server: Callable[..., JobRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each id its qstat would connect anew."""
    deployed = server("sleep 600")
    if deployed.scheduler == "torque":
        pytest.skip("Torque's qstat connects once")
    present = jobs.present(deployed)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "qstat"
    program.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\nexec {FAKES}/openpbs/qstat "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    ids = [present.job.id, *(f"{number}.fake" for number in range(100, 130))]
    scheduler = present.job.scheduler
    states = scheduler.parse_status(LocalTransport().run(scheduler.status_command(ids)), ids)
    assert {number: state.state for number, state in states.items()} == {present.job.id: "running"}
    first, *others = (tmp_path / "asked").read_text().splitlines()
    assert first == "-f"
    assert not any(present.job.id in line.split() for line in others)
    assert jobs.absent(deployed)


def test_a_server_that_is_down_is_not_one_that_refuses(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    with pytest.raises(TargetError, match="the scheduler does not answer: "):
        jobs.preview(server("true", {"down": True}, job={"partition": "work"}))
    with pytest.raises(JobError, match=r"the scheduler would not accept the job: .*Unknown queue"):
        jobs.preview(server("true", job={"partition": "nosuch"}))


def test_a_job_is_cancelled_and_removed(jobs: Jobs, server: Callable[..., JobRequest]) -> None:
    deployed = server("sleep 600")
    folder = Path(jobs.present(deployed).job.spec.directory)
    assert folder.is_dir()
    assert jobs.absent(deployed)
    assert not folder.exists()
