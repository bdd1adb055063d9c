"""Restart trials: what they leave when a job is ended during them, who tries, and odd records."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.restarted import parse_restart
from modak_deploy.model.trials import RestartResult
from trial_parts import FAST, LOOP, SLOW, leaves_nothing, restart, staged, with_trials


def test_a_job_that_is_cancelled_during_its_trials_leaves_nothing(jobs: Jobs, tmp_path: Path) -> None:
    new, items = with_trials(LOOP % "", restart(SLOW, budget=60), tmp_path)
    present = jobs.present(new, items)
    end = time.monotonic() + 20
    while not (tmp_path / "trace").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    found = (Path(present.job.spec.directory) / "state" / "run").read_text()
    launcher = int(next(line for line in found.splitlines() if line.startswith("launcher=")).partition("=")[2])
    os.kill(launcher, signal.SIGTERM)
    (result,) = jobs.wait([present])
    result = jobs.fetch_results(present.job, result, tmp_path / "results").result
    assert (result.state, result.exit_code) != ("completed", 0)
    assert result.restart.chosen is None
    leaves_nothing(result)
    assert (tmp_path / "trace").read_text().count("start") == 1
    again = jobs.present(new, items)
    (second,) = jobs.wait([again])
    second = jobs.fetch_results(again.job, second, tmp_path / "results").result
    assert (second.state, second.attempt) == ("completed", 2)
    assert "an earlier attempt" in second.restart.reason and not second.restart.trials


def test_one_task_of_an_array_tries_and_the_others_take_what_it_decided(tmp_path: Path) -> None:
    made, _ = with_trials(LOOP % 'echo "<${PAUSE-}>"', restart(FAST), tmp_path)
    line = staged(made, tmp_path)
    environment = {**os.environ, "TRACE": str(tmp_path / "trace")}

    def task() -> str:
        return subprocess.run(
            [*line, "1"], cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "restart" / "claim").mkdir()
    assert task() == "step 1 loss=1.1\n<>\n"
    (tmp_path / "restart" / "record").write_text("begin\ndecided index=1 gain=200 spent=1 reason=it is faster\n")
    assert task() == "step 1 loss=1.1\n<0.05>\n"
    assert (tmp_path / "trace").read_text() == "start\n" * 2


@pytest.mark.parametrize(
    "text",
    [
        "trial index=9 round=1 state=measured took=1 units=1",
        "trial index=0 round=1 state=odd took=1 units=1",
        "trial index=0 round=1 state=measured took=999999999999999999999 units=1",
        "trial",
        "\x1b[2Jnonsense",
        "decided index=7 gain=1 spent=1",
    ],
)
def test_an_odd_record_is_counted(text: str) -> None:
    found = parse_restart(f"begin budget=1\n{text}\n", restart(FAST))
    assert isinstance(found, RestartResult) and len(found.incomplete) == 1 and not found.trials
