"""The cluster of namespaces that tests/real/cluster.sh sets up, as the tests see it."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rig import TOP, Rig, ask

SCRIPT = TOP / "tests" / "real" / "cluster.sh"
ENVIRONMENT = {**os.environ, "MODAK_CLIENT_PYTHON": sys.executable}


@dataclass(frozen=True)
class Cluster(Rig):
    """A client, a login node without Python, a head node and two compute nodes; ``folder`` is theirs."""

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.yml"

    @property
    def enter(self) -> list[str]:
        """The words before a command that is run on the client, as the user."""
        return [str(self.folder / "enter")]

    def ssh(self, command: str) -> str:
        """Run a command on the login node, as the user, and return what it printed; raise when it fails."""
        done = subprocess.run(
            [*self.enter, "ssh", "login", command],
            capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        return done.stdout

    def run(self, host: str, *command: str) -> str:
        """Run a command on a host, as root, and return what it printed; raise when it fails."""
        return control("run", host, *command)

    def jobs(self) -> dict[str, tuple[str, str]]:
        """See ``Rig.jobs``; asked on the head node, so that it is no session on the login node."""
        text = self.run("head", "squeue", "--noheader", "--states=all", "--format=%i|%j|%T")
        return {fields[0]: (fields[1], fields[2]) for fields in (line.split("|") for line in text.splitlines())}

    def sessions(self) -> list[str]:
        """Return a line for each command or file transfer that the login node's sshd has carried out."""
        log = self.run("head", "cat", f"{self.folder}/log/sshd.login.log")
        return [line for line in log.splitlines() if line.startswith("Starting session:")]

    def logins(self) -> int:
        """Return how many connections the login node's sshd has let in."""
        return self.run("head", "cat", f"{self.folder}/log/sshd.login.log").count("Accepted publickey")

    @contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Take slurmctld away; it comes back with what it knew."""
        control("daemon", "stop", "slurmctld:head")
        try:
            yield
        finally:
            control("daemon", "start", "slurmctld:head")

    @contextmanager
    def without_network(self, host: str = "login") -> Iterator[None]:
        """Pull the host's cable out."""
        self.run("switch", "ip", "link", "set", host, "down")
        try:
            yield
        finally:
            self.run("switch", "ip", "link", "set", host, "up")

    @contextmanager
    def without_login(self) -> Iterator[None]:
        """Take the login node's sshd away, and the connections that it serves."""
        control("daemon", "stop", "sshd:login")
        for pid in self.connections():
            self.run("login", "sh", "-c", f"kill -KILL {pid} || true")
        try:
            yield
        finally:
            control("daemon", "start", "sshd:login")

    @contextmanager
    def instead(self, program: str, script: str) -> Iterator[None]:
        """Put a shell script before one of Slurm's programs on the login node; ``$real`` is the program."""
        file = self.folder / "bin" / program
        file.write_text(f"#!/bin/sh\nreal=/usr/bin/{program}\n{script}")
        file.chmod(0o755)
        try:
            yield
        finally:
            file.unlink()

    @contextmanager
    def counted(self, program: str) -> Iterator[Callable[[], int]]:
        """Count how often one of Slurm's programs does its work on the login node; yields what returns the number."""
        log = self.folder / "bin" / f"{program}.calls"
        log.write_text("")
        log.chmod(0o666)
        asked = f'[ "$1" = --version ] || echo >>{log}\nexec "$real" "$@"\n'
        with self.instead(program, asked):
            yield lambda: len(log.read_bytes())

    @contextmanager
    def slow_sbatch(self, *, before: float = 0, after: float = 0, said: str | None = None) -> Iterator[None]:
        """Slow sbatch down, and let it fail with the words ``said`` where given, though it has made the job."""
        end = 'echo "$answer"; exit "$code"' if said is None else f"echo {shlex.quote(said)} >&2; exit 1"
        with self.instead("sbatch", f'sleep {before}\nanswer=$("$real" "$@")\ncode=$?\nsleep {after}\n{end}\n'):
            yield

    def connections(self) -> list[str]:
        """Return the numbers, on the login node, of the processes that serve the user's connections."""
        listed = self.run("login", "ps", "-e", "-o", "pid=,args=").splitlines()
        return [line.split()[0] for line in listed if "sshd: " in line and "@" in line]

    def kill_client(self) -> None:
        """Kill all that runs on the client, as a power cut would."""
        self.run("client", "sh", "-c", "kill -KILL -1; true")

    def kill_user(self, host: str) -> None:
        """Kill all of the user's processes on a host."""
        user = (self.folder / "etc" / "user").read_text().strip()
        self.run(host, "sh", "-c", f"pkill -KILL -u {user}; true")


def control(*words: str) -> str:
    """Run the cluster's script and return what it printed; skip the test where the machine cannot have the cluster."""
    return ask(*words, script=SCRIPT, environment=ENVIRONMENT)


def is_up() -> bool:
    return subprocess.run([SCRIPT, "status"], capture_output=True).returncode == 0
