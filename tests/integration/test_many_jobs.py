"""Many jobs of one play: they are submitted one by one, and waited for together."""

import os
from pathlib import Path
from typing import Any

import pytest

from jobplans import plan
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Polling
from plays import User
from rig import Rig

MANY = int(os.environ.get("MODAK_MANY_JOBS", "20"))
"""How many; MODAK_MANY_JOBS=100 is the number that the figures in the notes speak of."""
EACH = 7
"""ssh sessions that one job may cost from its submission to its results, waiting apart."""


@pytest.fixture
def there(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> User:
    wrapper = tmp_path / "ssh"
    wrapper.write_text(f'#!/bin/sh\necho x >>{tmp_path}/sessions\nexec /usr/bin/env ssh "$@"\n')
    wrapper.chmod(0o700)
    environment = {**environment, "ANSIBLE_SSH_EXECUTABLE": str(wrapper)}
    return User(tmp_path, environment, ["-i", str(real_slurm.inventory)], "slurm-login")


def plans(folder: Path, line: str, *, count: int) -> list[Plan]:
    name = folder.name.replace("_", "-")[:40]
    return [
        plan(
            ["sh", "-c", f"{line} # {folder}"], Path("~/.modak"), name=f"{name}-{number}", scheduler="slurm",
            polling=Polling(first=1.0, maximum=4.0), outputs=["out"],
        )
        for number in range(count)
    ]  # fmt: skip


def submit(many: list[Plan]) -> dict[str, Any]:
    return {
        "modak.deploy.batch_job": {"plan": "{{ item }}", "wait": False},
        "loop": [item.model_dump(mode="json", by_alias=True) for item in many],
        "loop_control": {"label": "{{ item.name }}"},
    }


def wait_for(many: list[Plan], **rest: Any) -> dict[str, Any]:
    values = [item.model_dump(mode="json", by_alias=True) for item in many]
    return {"modak.deploy.batch_job_wait": {"plans": values, **rest}}


def together(many: list[Plan], **rest: Any) -> dict[str, Any]:
    values = [item.model_dump(mode="json", by_alias=True) for item in many]
    return {"modak.deploy.batch_job": {"plans": values, **rest}}


def sessions(user: User) -> int:
    return len((user.folder / "sessions").read_text().splitlines())


def test_waiting_costs_no_more_for_many(there: User, tmp_path: Path) -> None:
    many = plans(tmp_path, "sleep 2; echo $SLURM_JOB_ID >out", count=MANY)
    code, text = there.play([submit(many), wait_for(many)], timeout=600)
    assert code == 0, text
    submitted, waited = there.returned()
    assert [job["state"] for job in waited["jobs"]] == ["completed"] * MANY
    ids = {job["id"] for job in waited["jobs"]}
    assert len(ids) == MANY
    assert ids == {result["job"]["id"] for result in submitted["results"]}
    for item, job in zip(many, waited["jobs"], strict=True):
        assert (there.folder / "results" / item.name / "out").read_text().strip() == job["id"]
    assert sessions(there) <= EACH * MANY + 40


def test_jobs_of_one_task_are_submitted_once_and_fetched(there: User, tmp_path: Path) -> None:
    many = plans(tmp_path, "sleep 2; echo $SLURM_JOB_ID >out", count=5)
    code, text = there.play([together(many)], "--check")
    assert code == 0, text
    (checked,) = there.returned()
    assert (checked["changed"], checked["jobs"]) == (True, [None] * 5)
    (there.folder / "sessions").write_text("")
    code, text = there.play([together(many), together(many), together(many, wait=False)])
    assert code == 0, text
    first, second, third = there.returned()
    assert [job["state"] for job in first["jobs"]] == ["completed"] * 5
    assert (first["changed"], second["changed"], third["changed"]) == (True, False, False)
    ids = [job["id"] for job in first["jobs"]]
    assert ids == [job["id"] for job in second["jobs"]] == [job["id"] for job in third["jobs"]]
    for item, job in zip(many, first["jobs"], strict=True):
        assert (there.folder / "results" / item.name / "out").read_text().strip() == job["id"]
    assert sessions(there) <= 20


def test_one_of_several_that_cannot_be_submitted_does_not_stop_the_others(there: User, tmp_path: Path) -> None:
    good = plans(tmp_path, "echo >out", count=2)
    bad = plan(
        ["true"],
        Path("~/.modak"),
        name=f"{good[0].name}-bad",
        scheduler="slurm",
        job={"partition": "nosuch"},
        outputs=["out"],
    )
    code, text = there.play([together([good[0], bad, good[1]])])
    assert code != 0
    assert f"1 of 3 jobs were not submitted: {bad.name}: " in text, text
    code, text = there.play([together(good)])
    assert code == 0, text


def test_the_bad_ones_are_named(there: User, tmp_path: Path) -> None:
    good, bad = plans(tmp_path, "echo >out", count=1)[0], plans(tmp_path / "bad", "exit 3", count=2)[1]
    code, text = there.play([submit([good, bad]), wait_for([good, bad])])
    assert code != 0
    assert "1 of 2 jobs did not complete" in text
    assert "exit code 3" in text
    assert (there.folder / "results" / good.name / "out").exists()


def test_one_that_was_never_submitted_is_an_error(there: User, tmp_path: Path) -> None:
    (never,) = plans(tmp_path, "echo", count=1)
    code, text = there.play([wait_for([never])])
    assert code != 0
    assert f"the job of '{never.name}' ({never.tag()}) was never submitted to this target" in text
