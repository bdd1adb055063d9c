"""Jobs with the launcher on the real Slurm over ssh."""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobplans import requested, with_launch
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Launch
from modak_deploy.model.target import Polling
from modak_deploy.transport.ssh import SshTransport
from rig import Rig

TRIES = """import sys
from modak_launch import session
now = session.current()
now.record.add("fallback", what=str(now.tries), reason=sys.argv[1])
counter = now.counters.counter("inference: Net", "call")
counter.add(1.0, 0.5, 12)
print(now.tries)
"""


@pytest.fixture
def jobs(real_slurm: Rig) -> Iterator[Jobs]:
    with SshTransport("slurm-login", config=real_slurm.ssh_config) as transport:
        yield Jobs(transport, timeouts=replace(Timeouts(), settle=1.0, lost=1.0, pause=0.2))


def launched(**job: object) -> JobRequest:
    made = requested(
        ["python3", "-c", TRIES, "a b;$(id)"],
        Path("~/.modak"),
        name=f"launched-{secrets.token_hex(4)}",
        scheduler="slurm",
        polling=Polling(first=0.3, maximum=1.0),
        job=job,
    )
    return with_launch(made, Launch(trials="live", candidates=["pytorch-compile"]))


def test_a_job_with_the_launcher(jobs: Jobs, tmp_path: Path) -> None:
    present = jobs.present(launched())
    (result,) = jobs.wait([present])
    fetched = jobs.fetch_results(present.job, result, tmp_path).result
    assert fetched.state == "completed"
    assert fetched.tuning is not None
    assert fetched.tuning.not_used == ["True: a b;$(id)"]
    assert [(counted.name, counted.units) for counted in fetched.tuning.counted] == [("inference: Net", 12)]
    assert not jobs.present(present.job.request).made
    assert jobs.absent(present.job.request)


def test_one_task_of_an_array_tries(jobs: Jobs, tmp_path: Path) -> None:
    made = launched(array="1-3")
    present = jobs.present(made)
    (result,) = jobs.wait([present])
    fetched = jobs.fetch_results(present.job, result, tmp_path).result
    assert fetched.state == "completed"
    logs = sorted(path.read_text() for path in (tmp_path / made.name).glob("output.log.*"))
    assert logs == ["False\n", "False\n", "True\n"]
    assert fetched.tuning is not None and fetched.tuning.processes == 3
    assert jobs.absent(made)
