"""A queue that fails on purpose, and the real machine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fakequeue import FakeQueue
from jobplans import requested
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.transport.local import LocalTransport

TRACE = 'echo run >>"$TRACE"; '


@pytest.fixture
def queue(tmp_path: Path) -> FakeQueue:
    """An empty queue."""
    return FakeQueue(tmp_path / "spool")


@pytest.fixture
def hasty() -> Timeouts:
    """Limits that a test can wait for."""
    return Timeouts(
        outage=1.0,
        submission=5.0,
        settle=0.0,
        lost=0.0,
        finishing=0.1,
        hopeless=0.1,
        cancel=5.0,
        pause=0.02,
        linger=0.0,
    )


@pytest.fixture
def jobs(hasty: Timeouts) -> Jobs:
    return Jobs(LocalTransport(), timeouts=replace(hasty, lost=0.5))


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., JobRequest]:
    """Return the function that makes the request for a shell line; each run of it leaves a line in ``trace``."""

    def make(line: str, **rest: object) -> JobRequest:
        environment = {"TRACE": str(tmp_path / "trace")}
        return requested(["sh", "-c", TRACE + line], tmp_path / "space", environment=environment, **rest)

    return make
