"""The real Torque and OpenPBS that tests/real/pbs.sh sets up, as the tests see them."""

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobplans import requested
from modak_deploy.jobs.control import Jobs, Present
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.job import JobResult
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Polling
from modak_deploy.transport.ssh import SshTransport
from rig import TOP, ask
from transports import Notes

SCRIPT = TOP / "tests" / "real" / "pbs.sh"
SETTINGS = {
    "torque-keep0": ("torque", "keep_completed=0"),
    "torque-keep300": ("torque", "keep_completed=300"),
    "openpbs-forgets": ("openpbs", "job_history_enable=False"),
    "openpbs-history": ("openpbs", "job_history_enable=True"),
}
"""What the tests are run with: the scheduler, and how long its server knows jobs that have ended."""


@dataclass(frozen=True)
class Daemons:
    """Two schedulers, each on three hosts; ``folder`` is theirs."""

    folder: Path

    @property
    def ssh_config(self) -> Path:
        return self.folder / "client" / "ssh_config"

    @property
    def inventory(self) -> Path:
        return self.folder / "client" / "inventory.yml"

    @property
    def home(self) -> Path:
        """The unprivileged user's home, on all hosts."""
        return self.folder / "home"

    def run(self, host: str, *command: str) -> str:
        """Run a command on a host, as root, and return what it printed; raise when it fails."""
        return subprocess.run(
            [self.folder / "enter", host, *command],
            capture_output=True, text=True, check=True, timeout=120, stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip


class Site:
    """One scheduler with one setting, used by an ordinary user over ssh."""

    def __init__(self, daemons: Daemons, name: str, folder: str) -> None:
        self.daemons, self.name = daemons, name
        self.scheduler, self.setting = SETTINGS[name]
        self.torque = self.scheduler == "torque"
        self.server, self.nodes = ("tqs", ("tq1", "tq2")) if self.torque else ("obs", ("ob1", "ob2"))
        self.forgets = name in ("torque-keep0", "openpbs-forgets")
        self.workspace = daemons.home / folder
        self.notes = Notes()
        self._transport = SshTransport(self.scheduler, config=daemons.ssh_config)
        timeouts = Timeouts(outage=60, submission=60, settle=5, pause=0.5, lost=3, hopeless=3, cancel=60)
        self.jobs = Jobs(self._transport, timeouts=timeouts, reporter=self.notes)

    def prepare(self) -> None:
        if self.scheduler not in (self.daemons.folder / "etc" / "systems").read_text().split():
            variable = f"MODAK_{self.scheduler.upper()}_SOURCE"
            pytest.skip(f"the sources of {self.scheduler} are not there: name their folder in {variable}")
        self.manage(f"set server {self.setting}")
        self.ssh(f"mkdir -p {self.workspace}")

    def close(self) -> None:
        self.ssh("qselect -u $(id -un) | xargs -r qdel 2>/dev/null || true")
        self._transport.close()

    def manage(self, line: str) -> str:
        """Give qmgr a line, as the site's administrator."""
        return self.root(f"qmgr -c {shlex.quote(line)}")

    def root(self, line: str) -> str:
        """Run a line on the server, as root."""
        return self.daemons.run(self.server, "sh", "-c", f". /etc/profile; {line}")

    def ssh(self, line: str) -> str:
        """Run a line on the login node, as the user."""
        done = self._transport.run(f". /etc/profile; {line}", timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def request(self, line: str, *, name: str = "probe", **more: Any) -> JobRequest:
        """Return the request for a shell line."""
        polling = Polling(first=0.5, maximum=1.5)
        return requested(
            ["sh", "-c", line], self.workspace, scheduler=self.scheduler, name=name, polling=polling, **more
        )  # fmt: skip

    def submit(self, line: str, **more: Any) -> Present:
        return self.jobs.present(self.request(line, **more))

    def end(self, line: str, **more: Any) -> JobResult:
        """Submit a shell line and return how it ended."""
        return self.wait(self.submit(line, **more))

    def wait(self, present: Present, timeout: float = 150) -> JobResult:
        (result,) = self.jobs.wait([present], timeout=timeout)
        return result

    def folder(self, present: Present) -> Path:
        return Path(present.job.spec.directory)

    def until_started(self, present: Present) -> None:
        self.until(lambda: (self.folder(present) / "work" / "started").exists(), "the job has not started")

    def until(self, what: Callable[[], Any], complaint: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"{complaint} after {seconds} s"
            time.sleep(0.2)

    def in_queue(self, number: str) -> bool:
        """Return whether the server has the job as one that has not ended."""
        done = self._transport.run(f". /etc/profile; qstat -f {shlex.quote(number)}", timeout=60)
        return "job_state = " in done.stdout and "job_state = C" not in done.stdout

    @contextmanager
    def instead(self, program: str, script: str) -> Iterator[None]:
        """Put a shell script before one of the commands on the login node; ``$real`` is the program."""
        prefix = (self.daemons.folder / "etc" / f"prefix.{self.scheduler}").read_text().strip()
        text = f"#!/bin/sh\nreal={prefix}/bin/{program}\n{script}\n"
        file = f"/usr/local/bin/{program}"
        self.daemons.run(self.server, "sh", "-c", f"printf %s {shlex.quote(text)} >{file} && chmod 755 {file}")
        try:
            yield
        finally:
            self.daemons.run(self.server, "rm", file)

    @contextmanager
    def without_server(self) -> Iterator[None]:
        """Take the server away; it comes back with what it knew."""
        daemon = "pbs_server" if self.torque else "pbs_server.bin"
        ask("daemon", "stop", f"{daemon}:{self.server}", "KILL", script=SCRIPT)
        try:
            yield
        finally:
            ask("daemon", "start", f"{daemon}:{self.server}", script=SCRIPT)
            self.until(lambda: self._answers(), "the server does not answer")

    def _answers(self) -> bool:
        return self._transport.run(". /etc/profile; qstat -B", timeout=60).returncode == 0


def is_up() -> bool:
    return subprocess.run([SCRIPT, "status"], capture_output=True).returncode == 0
