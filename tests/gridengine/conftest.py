"""The real Grid Engine that tests/real/pbs.sh sets up: a server and two hosts of four slots each."""

import json
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobplans import plan
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Polling
from modak_deploy.transport.ssh import SshTransport
from rig import TOP, ask
from transports import Notes

SCRIPT = TOP / "tests" / "real" / "pbs.sh"
POLLING = Polling(first=0.5, maximum=1.5)


class Cluster:
    """A user of the cluster; ``daemon`` and ``instead`` do what only its administrator could."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "home" / f"space-{secrets.token_hex(4)}"
        self.transport = SshTransport("gridengine", config=folder / "client" / "ssh_config")
        timeouts = replace(Timeouts(), outage=60, submission=60, settle=5, pause=0.5, lost=20, hopeless=5, cancel=60)
        self.jobs = Jobs(self.transport, timeouts=timeouts, reporter=Notes())

    @property
    def inventory(self) -> Path:
        return self.folder / "client" / "inventory.yml"

    def ssh(self, line: str) -> str:
        done = self.transport.run(line, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def request(self, line: str, *, name: str = "probe", **more: Any) -> JobRequest:
        """Return the request for a shell line; ``resources`` and ``target`` are changed in it."""
        resources, target = more.pop("resources", {}), more.pop("target", {})
        made = plan(["sh", "-c", line], self.workspace, scheduler="gridengine", name=name, polling=POLLING, **more)
        changed = json.loads(made.to_json())
        changed["target"].update(target)
        changed["chosen"]["resources"].update(resources)
        return job_request(Plan.model_validate(changed))

    def submit(self, line: str, **more: Any) -> Present:
        return self.jobs.present(self.request(line, **more))

    def wait(self, present: Present) -> JobResult:
        (result,) = self.jobs.wait([present], timeout=200)
        return result

    def end(self, line: str, **more: Any) -> JobResult:
        return self.wait(self.submit(line, **more))

    def until(self, what: Callable[[], Any], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.2)

    def started(self, present: Present) -> bool:
        return (Path(present.job.spec.directory) / "work" / "started").exists()

    @contextmanager
    def instead(self, program: str, script: str) -> Iterator[None]:
        """Put a shell script before a command on the login node; ``$real`` is the program."""
        text = f"#!/bin/sh\nreal=/usr/bin/{program}\n{script}\n"
        file = f"/usr/local/bin/{program}"
        self.root("sh", "-c", f"printf %s {shlex.quote(text)} >{file} && chmod 755 {file}")
        try:
            yield
        finally:
            self.root("rm", file)

    def root(self, *command: str) -> None:
        subprocess.run(
            [self.folder / "enter", "ges", *command], check=True, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def daemon(self, what: str) -> None:
        ask("daemon", what, "sge_qmaster:ges", *(["KILL"] if what == "stop" else []), script=SCRIPT)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """The cluster's folder; it is stopped at the end if it was down before."""
    was_up = subprocess.run([SCRIPT, "status"], capture_output=True).returncode == 0
    yield Path(ask("up", script=SCRIPT).splitlines()[-1])
    if not was_up:
        subprocess.run([SCRIPT, "down"], check=True, timeout=600)


@pytest.fixture
def cluster(folder: Path) -> Iterator[Cluster]:
    """A user of Grid Engine, with a workspace that no other test has."""
    made = Cluster(folder)
    made.ssh(f"mkdir -p {made.workspace}")
    yield made
    made.ssh('qdel -u "$(id -un)" >/dev/null 2>&1 || true')
    made.transport.close()
