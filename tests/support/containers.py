"""The real container parts that tests/real/containers.sh sets up, as the tests see them."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from modak_deploy.images.credentials import Login
from modak_deploy.shell import join
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from rig import CANNOT, TOP

SCRIPT = TOP / "tests" / "real" / "containers.sh"
FAST = "-comp zstd -Xcompression-level 1"
"""A compression that does not take the tests' time."""


def ask(*words: str) -> str:
    """Run the script and return what it printed; skip the test where the machine cannot have the parts."""
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        pytest.fail(f"{SCRIPT.name} {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Containers:
    """Apptainer, podman, Charliecloud and two registries, of an unprivileged user."""

    user: str
    home: Path
    enter: Path
    port: int
    tls_port: int
    certificate: Path
    password_file: Path
    registry_log: Path
    tools: Path

    @classmethod
    def up(cls) -> "Containers":
        """Start them, unless they run, and return them."""
        settings = yaml.safe_load((Path(ask("up")) / "settings.yml").read_text())
        return cls(**{k: Path(v) if isinstance(v, str) and v.startswith("/") else v for k, v in settings.items()})

    @property
    def apptainer(self) -> Path:
        """Folder of the program; every user can run it."""
        return self.tools / "apptainer" / "usr" / "bin"

    @property
    def settings(self) -> str:
        """Lines of shell that give any user the runtimes, and what podman needs on this machine."""
        variables = {
            "PATH": f"{self.apptainer}:$PATH",
            "CONTAINERS_CONF": self.home.parent / "containers.conf",
            "XDG_RUNTIME_DIR": "$HOME/run",
            "REQUESTS_CA_BUNDLE": self.certificate,
        }
        return "mkdir -p -m 700 $HOME/run\n" + "".join(f"export {k}={v}\n" for k, v in variables.items())

    @property
    def registry(self) -> str:
        """Host and port of the one that speaks HTTP."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure(self) -> str:
        """Host and port of the one that speaks HTTPS and asks for a login."""
        return f"127.0.0.1:{self.tls_port}"

    @property
    def login(self) -> Login:
        return Login("reader", self.password_file.read_text())

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs ``words`` as the user."""
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        return [*sudo, "runuser", "-u", self.user, "--", str(self.enter), *words]

    def run(self, *words: str, ok: bool = True, stdin: str | None = None) -> str:
        """Run a command as the user and return all that it printed; fail when it does, unless ``ok`` is False."""
        done = subprocess.run(
            self.command(*words), input=stdin, text=True, timeout=600,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert not ok or done.returncode == 0, f"{join(words)} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def own(self, path: Path) -> Path:
        """Give a file or folder to the user."""
        entry = pwd.getpwnam(self.user)
        for item in (path, *path.rglob("*")):
            os.chown(item, entry.pw_uid, entry.pw_gid, follow_symlinks=False)
        return path

    def folder(self, name: str) -> Path:
        """Return a new empty folder in the user's home."""
        path = self.home / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return self.own(path)

    def requests(self, text: str) -> int:
        """Return how many requests with ``text`` the plain registry has answered so far."""
        return sum(text in line for line in self.registry_log.read_text().splitlines() if '" 200 ' in line)


class UserTransport(LocalTransport):
    """This machine as a target, as the unprivileged user; ``environment`` is added to his."""

    def __init__(self, parts: Containers, environment: dict[str, str] | None = None) -> None:
        self.parts = parts
        self.environment = environment or {}

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        words = ["env", *(f"{k}={v}" for k, v in self.environment.items())] if self.environment else []
        line = join(self.parts.command(*words, "/bin/sh", "-c", command))
        return super().run(line, stdin=stdin, timeout=timeout)

    def put(self, local: Path, remote: str) -> None:
        super().put(local, remote)
        self.parts.own(Path(remote))
