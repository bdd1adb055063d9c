"""Whole lives of jobs on fake Torque and OpenPBS servers: submitted once, every end told, folders removed."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import plan
from modak.errors import JobError, TargetError
from modak.jobs.control import Jobs
from modak.jobs.settings import Patience
from modak.model.plan import Plan
from modak.transport.local import LocalTransport

FAKES = Path(__file__).parents[2] / "fakes"


@pytest.fixture(params=["torque", "openpbs"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Return the function that makes the Plan of a shell line for the fake server; ``settings`` are the server's."""
    folder = tmp_path / "server"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{FAKES / request.param}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_PBS", str(folder))

    def make(line: str, settings: dict[str, Any] | None = None, **more: Any) -> Plan:
        (folder / "settings.json").write_text(json.dumps(settings or {}))
        return plan(["sh", "-c", line], tmp_path / "space", scheduler=request.param, **more)

    return make


@pytest.fixture
def jobs() -> Jobs:
    patience = replace(Patience(), outage=5.0, submission=20.0, settle=0.0, lost=0.5, cancel=20.0, pause=0.05)
    return Jobs(LocalTransport(), patience=patience)


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
    jobs: Jobs, server: Callable[..., Plan], line: str, options: dict[str, Any], state: str, code: int, forgets: bool
) -> None:
    settings = {"history": False, "keep_completed": 0} if forgets else {}
    (result,) = jobs.wait([jobs.present(server(line, settings, job=options))])
    assert (result.state, result.exit_code) == (state, code)
    assert result.seconds is not None


@pytest.mark.parametrize("forgets", [False, True])
def test_a_task_that_left_no_record_does_not_hide_behind_the_others(
    jobs: Jobs, server: Callable[..., Plan], forgets: bool
) -> None:
    settings = {"history": False, "keep_completed": 0} if forgets else {}
    line = '[ "$MODAK_TASK" = 1 ] || kill -9 0; sleep 1'
    (result,) = jobs.wait([jobs.present(server(line, settings, job={"array": "0-1"}))])
    # OpenPBS tells of each task until the array is over.
    ends = {("lost", None), ("failed", 137)} if forgets else {("failed", 137)}
    assert (result.state, result.exit_code) in ends
    assert result.reason.startswith("task 0: ")


def test_a_second_run_finds_the_job_and_a_restart_does_not(jobs: Jobs, server: Callable[..., Plan]) -> None:
    deployed = server("true")
    first = jobs.present(deployed)
    jobs.wait([first])
    assert jobs.present(deployed).job.id == first.job.id


def test_a_reply_that_was_lost(jobs: Jobs, server: Callable[..., Plan], tmp_path: Path) -> None:
    deployed = server("true", {"qsub_fails_after": True})
    present = jobs.present(deployed)
    assert present.job.id == "1.fake"
    (result,) = jobs.wait([present])
    assert result.state == "completed"
    assert (tmp_path / "server" / "number").read_text() == "1", "it was submitted twice"


def test_a_job_that_can_never_run_is_no_wait(jobs: Jobs, server: Callable[..., Plan]) -> None:
    deployed = server("true", {"cores": 0})
    if deployed.scheduler == "torque":
        with pytest.raises(JobError, match="cannot locate feasible nodes"):
            jobs.present(deployed)
        return
    (result,) = jobs.wait([jobs.present(deployed)])
    assert result.state == "never_starts"
    assert result.reason.startswith("Can Never Run: ")


def test_a_server_that_is_down_is_not_one_that_refuses(jobs: Jobs, server: Callable[..., Plan]) -> None:
    with pytest.raises(TargetError, match="the scheduler does not answer: "):
        jobs.preview(server("true", {"down": True}, job={"partition": "work"}))
    with pytest.raises(JobError, match=r"the scheduler would not take the job: .*Unknown queue"):
        jobs.preview(server("true", job={"partition": "nosuch"}))


def test_a_job_is_cancelled_and_removed(jobs: Jobs, server: Callable[..., Plan]) -> None:
    deployed = server("sleep 600")
    folder = Path(jobs.present(deployed).job.spec.directory)
    assert folder.is_dir()
    assert jobs.absent(deployed)
    assert not folder.exists()
