"""A queue that fails on purpose, and the real machine."""

from pathlib import Path

import pytest

from fakequeue import FakeQueue
from modak.jobs.settings import Patience


@pytest.fixture
def queue(tmp_path: Path) -> FakeQueue:
    """An empty queue."""
    return FakeQueue(tmp_path / "spool")


@pytest.fixture
def hasty() -> Patience:
    """Limits that a test can wait for."""
    return Patience(outage=1.0, submission=5.0, settle=0.0, lost=0.0, finishing=0.1, cancel=5.0, pause=0.02, linger=0.0)
