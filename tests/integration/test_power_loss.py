"""The power fails at every point of a submission, and what was not synced is lost: no second run, no lost end.

The real steps and the real job script run under strace; see ``powerloss`` for what may be lost. A sample of the points
is tried, all of them with MODAK_POWER_LOSS=all.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.errors import ModakError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.local import LocalTransport
from powerloss import Disk, Recording, Tree, put

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
HASTY = Timeouts(outage=1.0, submission=5.0, settle=0.0, lost=0.3, finishing=0.1, cancel=5.0, pause=0.05, linger=0.0)


def sample(disk: Disk, least: int) -> list[tuple[int, Tree]]:
    """Return points with trees: all, or ``least`` of them, spread evenly."""
    found = list(disk.crashes(Random(1)))
    if os.environ.get("MODAK_POWER_LOSS") == "all" or len(found) <= least:
        return found
    return [found[number * len(found) // least] for number in range(least)]


def has_ended(tree: Tree) -> bool:
    ends = [text for path, text in tree.items() if path.endswith(("state/exit", "state/reserved.exit"))]
    return any(isinstance(text, bytes) and b"state=completed" in text for text in ends)


def test_on_a_machine(tmp_path: Path) -> None:
    """All processes end with the power: the job that runs is lost with the rest, but nothing runs twice."""
    space, trace = tmp_path / "space", tmp_path / "runs"
    space.mkdir()
    deployed = requested(["sh", "-c", f"echo run >>{trace}"], space)
    recording = Recording(tmp_path)
    jobs = Jobs(recording, timeouts=HASTY)
    present = jobs.present(deployed)
    assert Jobs(LocalTransport(), timeouts=HASTY).wait([present])[0].state == "completed"
    disk = Disk(space, recording.logs, {"run": rf"write\(\d+<{trace}>"})
    assert disk.events(len(disk.ops)) == ["run"]
    assert has_ended(disk.least(len(disk.ops))), "the end is not on disk when the job is over"
    for point, tree in sample(disk, 30):
        before = len(disk.events(point))
        put(tree, space)
        trace.write_text("run\n" * before)
        state = deploy(Jobs(LocalTransport(), timeouts=HASTY), deployed)
        ran = trace.read_text().count("run")
        where = f"after {point} of {len(disk.ops)} operations ({disk.ops[point - 1]}): {state}"
        assert ran <= 1, f"the program ran {ran} times {where}"
        assert state == "completed" or not has_ended(tree), f"the end was lost {where}"
        assert before or ran or "lost" in state, f"nothing ran, and nobody says so {where}"


def deploy(jobs: Jobs, deployed: JobRequest) -> str:
    try:
        return jobs.wait([jobs.present(deployed)], timeout=60)[0].state
    except ModakError as error:
        return str(error)


def test_of_a_login_node(tmp_path: Path) -> None:
    """The scheduler lives elsewhere, and has the job or has it not."""
    space = tmp_path / "space"
    space.mkdir()
    queue = FakeQueue(tmp_path / "spool")
    deployed = requested(["true"], space, scheduler="slurm")
    recording = Recording(tmp_path)
    Jobs(recording, scheduler=queue, timeouts=HASTY).present(deployed)
    kept = tmp_path / "job.1"
    (queue.spool / "job.1").rename(kept)
    disk = Disk(space, recording.logs, {"taken": r'mkdir\("job\.1"'})
    for point, tree in sample(disk, 30):
        shutil.rmtree(queue.spool)
        queue.spool.mkdir()
        if disk.events(point):
            shutil.copytree(kept, queue.spool / "job.1")
        put(tree, space)
        found = Jobs(LocalTransport(), scheduler=queue, timeouts=replace(HASTY, settle=0.0)).present(deployed)
        where = f"after {point} of {len(disk.ops)} operations ({disk.ops[point - 1]})"
        assert queue.jobs() == ["1"], where
        assert found.job.id == "1", where
