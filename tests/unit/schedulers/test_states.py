"""What the schedulers print, and which state of a job that is."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import TargetError
from modak_deploy.model.job import JobState
from modak_deploy.schedulers import registry
from modak_deploy.transport.base import Completed
from scheduler_parts import DATA, table

CASES = table("states")


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c['scheduler']}-{c['name']}") for c in CASES])
def test_state(case: dict[str, Any]) -> None:
    scheduler = registry.get(case["scheduler"])
    text = case["text"] if "text" in case else (DATA / "schedulers" / case["file"]).read_text()
    done = Completed(case.get("rc", 0), text, "")
    if "error" in case:
        with pytest.raises(TargetError) as failure:
            scheduler.parse_status(done, [case["id"]])
        assert str(failure.value).startswith(case["error"])
        return
    found = scheduler.parse_status(done, [case["id"]])
    if case["state"] is None:
        assert found == {}
        return
    assert list(found) == [case["id"]]
    state = found[case["id"]]
    assert state.state == case["state"]
    for key in ("exit_code", "signal", "reason", "elapsed", "limit", "start"):
        if key in case:
            assert getattr(state, key) == case[key], key
    if "nodes" in case:
        assert list(state.nodes) == case["nodes"]


@pytest.mark.parametrize("scheduler", ["slurm", "torque", "openpbs"])
def test_every_state_that_a_scheduler_can_tell_has_a_row(scheduler: str) -> None:
    told = {case["state"] for case in CASES if case["scheduler"] == scheduler and case.get("state")}
    cannot: set[JobState] = {"lost"} if scheduler == "slurm" else {"lost", "preempted"}
    assert told == set(JobState.__args__) - cannot  # type: ignore[attr-defined]


def test_the_status_command_asks_for_the_name_of_who_cancelled(tmp_path: Path) -> None:
    for program, said in (("squeue", "echo 'Invalid job id specified' >&2; exit 1"), ("sacct", "cat <<'X'\n{}\nX")):
        line = "7|CANCELLED by 0|0:0|00:00:02|UNLIMITED|n1|None\n8|CANCELLED by 4000000000|0:0|0|UNLIMITED|n1|None"
        (tmp_path / program).write_text(f"#!/bin/sh\n{said.format(line)}\n")
        (tmp_path / program).chmod(0o755)
    slurm = registry.get("slurm")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", slurm.status_command(["7", "8"])], env=environment, capture_output=True, text=True
    )
    found = slurm.parse_status(Completed(done.returncode, done.stdout, done.stderr), ["7", "8"])
    reasons = [found[job].reason for job in ("7", "8")]
    assert reasons == ["cancelled by root", "cancelled by user id 4000000000"]


def test_all_captured_jobs_are_told_apart_in_one_answer() -> None:
    text = (DATA / "schedulers" / "openpbs-history.txt").read_text()
    ids = [line.split()[-1] for line in text.splitlines() if line.startswith("Job Id:")]
    assert len(ids) == 60
    assert set(registry.get("openpbs").parse_status(Completed(0, text, ""), ids)) == set(ids)
