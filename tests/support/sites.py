"""A user's folder, and the playbooks run from there."""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import Cluster
from rig import TOP

TINY = TOP / "tests" / "data" / "applications" / "tiny.py"


def user_environment(collections: Path, home: Path) -> dict[str, str]:
    """Return the environment of a user who has this checkout's library and collection, and no settings of his own."""
    others = ("ANSIBLE_", "MODAK_", "PYTHONDONTWRITEBYTECODE")  # else each process compiles the library: 0.4 s
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(others)},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(TOP),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "MODAK_FITTING": "manual",  # else a minute of processor time after the first recorded job
    }


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit code, and all that it printed."""

    code: int
    text: str


class Site:
    """A user's folder with a document and a script, and the playbooks run from there."""

    def __init__(self, folder: Path, environment: dict[str, str], inventory: Path | None) -> None:
        self.folder, self.environment = folder, environment
        self.inventory = ["-i", str(inventory)] if inventory else []
        shutil.copy(TINY, folder / TINY.name)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def write(self, text: str | dict[str, Any]) -> Path:
        path = self.folder / "deploy.yml"
        path.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
        return path

    def words(self, program: str, *arguments: str) -> list[str]:
        """Return the words of a command of Ansible's, as this user gives it."""
        return [program, *self.inventory, *arguments]

    def command(self, playbook: str, *arguments: str) -> list[str]:
        document = f"deployment={self.folder / 'deploy.yml'}"
        return self.words("ansible-playbook", f"modak.deploy.{playbook}", "-e", document, *arguments)

    def ansible(self, host: str, module: str, *arguments: str) -> Ended:
        """Run one module on a host, to its end."""
        with self.started(self.words("ansible", host, "-m", module, *arguments)) as running:
            return running.end(120)

    def play(self, playbook: str, *arguments: str, timeout: float = 300) -> Ended:
        """Run a playbook of the collection with the document, to its end."""
        with self.start(playbook, *arguments) as running:
            return running.end(timeout)

    @contextmanager
    def start(self, playbook: str, *arguments: str) -> Iterator["Running"]:
        """Start a playbook and leave it running; it is killed when the test loses interest."""
        with self.started(self.command(playbook, *arguments)) as running:
            yield running

    @contextmanager
    def started(self, words: list[str]) -> Iterator["Running"]:
        """Start a command of Ansible's and leave it running; it is killed when the test loses interest."""
        process = subprocess.Popen(
            words,
            cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                self.kill(process)
                process.communicate()

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a playbook, which gets no chance to say anything."""
        process.kill()


class Running:
    """A playbook under way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def end(self, timeout: float) -> Ended:
        """Wait for the end."""
        text, _ = self.process.communicate(timeout=timeout)
        return Ended(self.process.returncode, text)

    def wait_for(self, what: Callable[[], Any], seconds: float = 60) -> Any:
        """Return the first true answer; fail when there is none in time, or when the playbook fails first."""
        deadline = time.monotonic() + seconds
        while not (answer := what()):
            if self.process.poll() not in (None, 0):
                pytest.fail(self.end(1).text)
            if time.monotonic() > deadline:
                pytest.fail(f"waited {seconds} s in vain")
            time.sleep(0.3)
        return answer


class ClusterSite(Site):
    """A user's folder on the client of the cluster, which has nothing in common with the cluster but a network."""

    def __init__(self, cluster: Cluster, environment: dict[str, str]) -> None:
        folder = cluster.folder / "work" / secrets.token_hex(8)
        folder.mkdir()
        folder.chmod(0o777)  # the user's, and the test's
        # What Ansible and modak keep for themselves lies in the user's home.
        own = ("ANSIBLE_HOME", "XDG_STATE_HOME")
        environment = {name: value for name, value in environment.items() if name not in own}
        environment["XDG_DATA_HOME"] = str(folder / "data")  # that user cannot enter the test's own
        super().__init__(folder, environment, cluster.inventory)
        self.cluster = cluster

    def words(self, program: str, *arguments: str) -> list[str]:
        return [*self.cluster.enter, *super().words(program, *arguments)]

    def kill(self, process: subprocess.Popen[str]) -> None:
        self.cluster.kill_client()
