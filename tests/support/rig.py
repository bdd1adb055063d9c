"""The real Slurm and sshd that tests/real/slurm.sh sets up, as the tests see them."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
SCRIPT = TOP / "tests" / "real" / "slurm.sh"
CANNOT = 77
"""The rig's exit code where the machine cannot have it."""


@dataclass(frozen=True)
class Rig:
    """The real Slurm and sshd on loopback; ``folder`` is theirs."""

    folder: Path

    @property
    def inventory(self) -> Path:
        return self.folder / "client" / "inventory.yml"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "client" / "ssh_config"

    @property
    def home(self) -> Path:
        """The unprivileged user's home, on the login node and on every node."""
        return self.folder / "home"

    def ssh(self, command: str, stdin: str = "") -> str:
        """Run a command on the login node, as the user, and return what it printed; raise when it fails."""
        done = subprocess.run(
            ["ssh", "-F", self.ssh_config, "slurm-login", command],
            capture_output=True, text=True, check=True, timeout=60, input=stdin,
        )  # fmt: skip
        return done.stdout

    def jobs(self) -> dict[str, tuple[str, str]]:
        """Return name and state of all jobs that the queue knows, finished ones too, by id."""
        lines = self.ssh("squeue --noheader --states=all --format='%i|%j|%T'").splitlines()
        return {fields[0]: (fields[1], fields[2]) for fields in (line.split("|") for line in lines)}

    def ended(self, job: str) -> tuple[str, str]:
        """Return name and state of a job that has ended, which the queue may have forgotten since."""
        return self._ended()[job]

    def all_jobs(self) -> dict[str, tuple[str, str]]:
        """Return name and state of all jobs that there have been, by id."""
        return {**self._ended(), **self.jobs()}  # the log is read first: what ends meanwhile is still in the queue

    def _ended(self) -> dict[str, tuple[str, str]]:
        found = {}
        for line in (self.folder / "log" / "ended-jobs").read_text(encoding="utf-8").splitlines():
            fields = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
            of_array = "ArrayTaskId" in fields  # whose tasks have ids of their own in the queue
            number = f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}" if of_array else fields["JobId"]
            found[number] = fields["Name"], fields["JobState"]
        return found


def ask(*words: str, script: Path = SCRIPT, environment: Mapping[str, str] | None = None) -> str:
    """Run a rig's script and return what it printed; skip the test where the machine cannot have the rig."""
    done = subprocess.run(
        [script, *words], capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL, env=environment
    )
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        pytest.fail(f"{script.name} {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout.strip()
