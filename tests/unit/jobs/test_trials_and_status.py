"""What is true of a job whose run came after trials."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import requested
from modak_deploy.jobs import status
from modak_deploy.jobs.folder import Records
from modak_deploy.jobs.job import Job, specification
from modak_deploy.jobs.record import ExitRecord
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import QueueState
from modak_deploy.schedulers.states import of_array
from trial_parts import restart


@pytest.mark.parametrize(("record", "state"), [(("completed", 0), "completed"), (("failed", 137), "out_of_memory")])
@pytest.mark.parametrize("tasks", [None, "0-1"])
def test_memory_that_a_trial_used_up_is_no_end_of_the_run(
    tmp_path: Path, record: tuple[Any, int], state: str, tasks: str | None
) -> None:
    made = requested(["true"], tmp_path, scheduler="slurm", job={"array": tasks} if tasks else None)
    job = Job("7", specification(made, "/runs/x"), replace(made, restart=restart()), registry.get("slurm"))
    queue = QueueState("out_of_memory")
    if tasks:
        queue = of_array({"0": QueueState("completed"), "1": queue})
    exits = {0: ExitRecord("completed", 0), 1: ExitRecord(*record)} if tasks else {None: ExitRecord(*record)}
    end = status.of_job(job, queue, Records(exits=exits))
    assert (end.state, end.exit_code) == (state, record[1])
    assert status.of_job(replace(job, request=made), queue, Records(exits=exits)).state == "out_of_memory"
