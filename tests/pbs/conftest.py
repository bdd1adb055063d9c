"""The real Torque and OpenPBS, with each setting that decides how long a job is known after its end."""

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbs import SCRIPT, SETTINGS, Daemons, Site, is_up
from rig import ask


@pytest.fixture(scope="session")
def daemons() -> Iterator[Daemons]:
    """Both schedulers; they are stopped at the end if they were down before."""
    was_up = is_up()
    yield Daemons(Path(ask("up", script=SCRIPT).splitlines()[-1]))
    if not was_up:
        subprocess.run([SCRIPT, "down"], check=True, timeout=600)


@pytest.fixture(params=list(SETTINGS))
def site(request: pytest.FixtureRequest, daemons: Daemons) -> Iterator[Site]:
    """A user of one scheduler, with each of its settings."""
    made = Site(daemons, request.param, f"space-{secrets.token_hex(4)}")
    made.prepare()
    yield made
    made.close()
