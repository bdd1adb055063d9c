"""Faults during restart trials: programs that do not end as they should, jobs and nodes that are killed."""

import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import Local, requested, source
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Polling
from modak_deploy.model.trials import RestartPlan
from modak_deploy.transport.local import LocalTransport
from modak_deploy.transport.ssh import SshTransport
from rig import TOP, Rig
from trial_parts import FAST, LOOP, SLOW, leaves_nothing, restart, states, with_trials

TORCHRUN = TOP / ".venv" / "bin" / "torchrun"
WORKER = """import os, time
for i in range(1, 13):
    time.sleep(float(os.environ.get("PAUSE", "0.4")))
    if os.environ["RANK"] == "0":
        print(f"step {i} loss=1.{i}", flush=True)
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "with", os.environ.get("PAUSE"), flush=True)
"""
DEAF = "trap '' TERM INT HUP\n" + LOOP.replace("trap 'echo term", ": trap 'echo term") % ""
PROGRAMS = {
    "forks workers that outlive it": "sleep 1000 & (setsid sleep 1000 &)\n" + LOOP % "kill $!",
    "ignores every signal": DEAF,
    "works in a child": f"sh -c '{LOOP.replace(chr(39), chr(34)) % ''}' program ${{1:-12}} & wait $!",
    "waits for its input": "cat >/dev/null\n" + LOOP % "",
    "asks for a terminal": "{ read -r line </dev/tty; } 2>/dev/null\n" + LOOP % "",
    "has no permission on its own files": "mkdir -p d/e && : >d/e/f && chmod 0 d/e/f && chmod 0500 d/e\n" + LOOP % "",
}
Ended = tuple[JobResult, str]


@pytest.fixture
def jobs() -> Jobs:
    return Jobs(LocalTransport(), timeouts=Timeouts(pause=0.02, settle=0.0, lost=0.5))


@pytest.fixture(autouse=True)
def no_sleepers() -> Any:
    """End what a program itself leaves behind after its run."""
    yield
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if line == b"sleep\x001000\x00" and b"TRACE=" in environment:
            os.kill(int(process.name), signal.SIGKILL)


def end(jobs: Jobs, present: Present, folder: Path) -> Ended:
    (result,) = jobs.wait([present], timeout=300)
    result = jobs.fetch_results(present.job, result, folder / "results").result
    return result, Path(result.directory, "output.log").read_text()


@pytest.mark.parametrize("fault", PROGRAMS)
def test_an_odd_program_is_tried_like_any_other(jobs: Jobs, tmp_path: Path, fault: str) -> None:
    new, items = with_trials(PROGRAMS[fault], restart(SLOW, FAST, budget=40), tmp_path)
    result, output = end(jobs, jobs.present(new, items), tmp_path)
    assert (result.state, result.restart.chosen) == ("completed", "fast"), output
    assert states(result) == {"as-is": "measured", "slow": "beaten", "fast": "measured"}
    leaves_nothing(result)


def test_the_workers_of_torchrun_end_with_their_trial(jobs: Jobs, tmp_path: Path) -> None:
    if not TORCHRUN.exists():
        pytest.skip("PyTorch is not installed")
    (tmp_path / "worker.py").write_text(WORKER)
    text = f"exec {TORCHRUN} --standalone --nproc-per-node 2 {tmp_path}/worker.py"
    new, items = with_trials(text, restart(FAST, budget=150), tmp_path)
    result, output = end(jobs, jobs.present(new, items), tmp_path)
    assert (result.state, result.restart.chosen) == ("completed", "fast"), output
    assert {"rank 0 of 2 with 0.05", "rank 1 of 2 with 0.05"} <= set(output.splitlines())
    leaves_nothing(result)


def test_two_jobs_that_try_at_once_leave_each_other_alone(jobs: Jobs, tmp_path: Path) -> None:
    presents = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        new, items = with_trials(LOOP % 'echo "<$PAUSE>"', restart(SLOW, FAST), tmp_path / name, name=name)
        presents.append(jobs.present(new, items))
    for present in presents:
        result, output = end(jobs, present, tmp_path)
        assert (result.state, result.restart.chosen) == ("completed", "fast"), output
        assert output.endswith("<0.05>\n")
        leaves_nothing(result)


def processes_of(folder: Path) -> list[int]:
    """Return the processes that work in a job's folder, or name it on their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where, words = str((process / "cwd").readlink()), (process / "cmdline").read_bytes()
        except OSError:
            continue
        if where.startswith(str(folder)) or str(folder).encode() in words:
            found.append(int(process.name))
    return found


def waited(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def on_slurm(real_slurm: Rig, tmp_path: Path) -> Any:
    """Return what submits a program with trials to the real Slurm."""
    file = tmp_path / "program.sh"

    def submit(text: str, trials: RestartPlan, **job: Any) -> tuple[Jobs, Present]:
        file.write_text(text)
        items: tuple[Local, ...] = (source("program.sh", file),)
        made: JobRequest = requested(
            ["sh", "program.sh"], Path("~/.modak"), sources=items, name=f"tried-{secrets.token_hex(4)}",
            scheduler="slurm", polling=Polling(first=0.3, maximum=1.0), job=job, environment={"TRACE": "/dev/null"},
        )  # fmt: skip
        jobs = Jobs(transport, timeouts=replace(Timeouts(), settle=1.0, lost=1.0, pause=0.2))
        return jobs, jobs.present(replace(made, restart=trials), items)

    with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
        yield submit


def test_a_node_that_dies_during_a_trial(on_slurm: Any, real_slurm: Rig, tmp_path: Path) -> None:
    """All of the job is killed at once, nothing is asked; its next attempt tries nothing, and removes what is left."""
    jobs, present = on_slurm(LOOP % "", restart(SLOW, FAST), wall_time="10m")
    folder = real_slurm.home / ".modak" / "runs" / Path(present.job.spec.directory).name
    waited(lambda: (folder / "restart" / "work" / "program.sh").exists())
    time.sleep(0.5)
    for number in processes_of(folder):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    (result,) = jobs.wait([present], timeout=100)
    assert result.state not in ("completed", "lost"), result
    waited(lambda: not processes_of(folder))
    again = jobs.present(present.job.request, [source("program.sh", tmp_path / "program.sh")])
    assert again.made, result
    (result,) = jobs.wait([again], timeout=100)
    result = jobs.fetch_results(again.job, result, tmp_path / "results").result
    assert (result.state, result.restart.trials) == ("completed", []), result
    assert result.restart.reason == "an earlier attempt of the job ended during its trials"
    assert not (folder / "restart" / "work").exists()
    waited(lambda: not processes_of(folder), 30)


def test_the_wall_time_ends_during_a_trial(on_slurm: Any, real_slurm: Rig, tmp_path: Path) -> None:
    """Slurm's own end: the limit is lowered while a candidate hangs that ignores SIGTERM."""
    hangs = '[ "${PAUSE-}" != 0.05 ] || { trap "" TERM; exec sleep 1000; }\n'
    text = hangs + LOOP.replace("PAUSE:-0.15", "PAUSE:-5") % ""
    jobs, present = on_slurm(text, restart(FAST, budget=250), wall_time="10m")
    folder = real_slurm.home / ".modak" / "runs" / Path(present.job.spec.directory).name
    waited(lambda: (folder / "restart" / "work").exists())
    real_slurm.ssh(f"scontrol update JobId={present.job.id} TimeLimit=1")
    (result,) = jobs.wait([present], timeout=200)
    assert result.state == "timeout", result
    waited(lambda: not processes_of(folder), 30)
    assert not [path for path in (folder / "restart").iterdir() if path.name == "work"]
    result = jobs.fetch_results(present.job, result, tmp_path / "results").result
    assert result.restart.chosen is None and result.restart.reason == "the job was ended during its trials"
