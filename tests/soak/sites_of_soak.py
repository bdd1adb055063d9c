"""Where the rounds' jobs run: this machine, and the Slurm of tests/real/slurm.sh over ssh; and how often they ran."""

import os
import pwd
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path

from jobplans import requested
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.target import Polling
from modak_deploy.schedulers import registry
from modak_deploy.schedulers.base import Scheduler
from modak_deploy.transport.base import Completed, Transport
from modak_deploy.transport.local import LocalTransport
from modak_deploy.transport.ssh import SshTransport
from rig import Rig

POLLING = Polling(first=0.3, maximum=1.0)


class Prefixed:
    """A transport whose commands come after others of the round's own."""

    def __init__(self, inner: Transport, prefix: str) -> None:
        self._inner, self._prefix = inner, prefix

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        return self._inner.run(f"{self._prefix}\n{command}", stdin=stdin, timeout=timeout)

    def put(self, local: Path, remote: str) -> None:
        self._inner.put(local, remote)

    def fetch(self, remote: str, local: Path) -> None:
        self._inner.fetch(remote, local)


@dataclass
class Site(ABC):
    """A target of the soak; ``top`` is a folder of ours on it."""

    top: Path
    name: str
    scheduler: str
    timeouts: Timeouts
    longest: float
    """Seconds that a deployment takes about; within them it is killed."""

    @abstractmethod
    def transport(self) -> Transport:
        """Return a new connection."""

    def owned(self, path: Path) -> Path:
        """Give the path to the user whose jobs run."""
        return path

    def folder(self, name: str) -> Path:
        """Make a folder for one round."""
        path = self.top / name
        path.mkdir()
        return self.owned(path)

    def request(self, name: str, *, workspace: Path | None = None, seconds: float = 0.2) -> JobRequest:
        """Return the request for a program that counts its runs in a file outside of the job's folder."""
        line = f'echo run >>"{self.top}/{name}.runs"; sleep {seconds:g}'
        return requested(
            ["sh", "-c", line], workspace or self.top / name, name=name, scheduler=self.scheduler, polling=POLLING
        )

    def runs(self, name: str) -> int:
        """Return how often the program ran."""
        file = self.top / f"{name}.runs"
        return file.read_text().count("run") if file.exists() else 0

    def queue(self) -> Scheduler:
        return registry.get(self.scheduler)

    def jobs_folder(self, deployed: JobRequest, workspace: Path | None = None) -> Path | None:
        """Return the job's folder, where there is one."""
        top = (workspace or self.top / deployed.name) / "runs"
        return next(iter(top.glob(f"{deployed.name}-*")), None)

    def clean(self, name: str) -> None:
        shutil.rmtree(self.top / name, ignore_errors=True)
        (self.top / f"{name}.runs").unlink(missing_ok=True)


class Machine(Site):
    """Jobs as processes of this machine."""

    def __init__(self) -> None:
        top = Path(tempfile.mkdtemp(prefix="modak-soak."))
        timeouts = replace(Timeouts(), settle=1.0, lost=6.0, pause=0.2, linger=0.0)
        super().__init__(top, "machine", "process", timeouts, 0.7)

    def transport(self) -> Transport:
        return LocalTransport()


class SlurmOverSsh(Site):
    """Jobs of the real Slurm; the login node is this machine too, and so its files can be looked at."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.user = pwd.getpwuid(rig.home.stat().st_uid)
        timeouts = replace(Timeouts(), settle=3.0, lost=6.0, pause=0.3, linger=0.0)
        super().__init__(
            Path(tempfile.mkdtemp(prefix="soak.", dir=rig.home.resolve())), "slurm", "slurm", timeouts, 2.0
        )
        self.owned(self.top)

    def transport(self) -> Transport:
        return SshTransport("slurm-login", config=self.rig.ssh_config)

    def owned(self, path: Path) -> Path:
        os.chown(path, self.user.pw_uid, self.user.pw_gid)
        return path


class Apart:
    """A transport to the rig's Slurm without ssh: each step runs in a PID namespace of its own, as in a container."""

    def __init__(self, site: SlurmOverSsh) -> None:
        self._site = site

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        site = self._site
        done = subprocess.run(
            [
                *("unshare", "--pid", "--fork", "--mount-proc", "setpriv"),
                *(f"--reuid={site.user.pw_uid}", f"--regid={site.user.pw_gid}", "--clear-groups"),
                *("env", "-i", f"HOME={site.user.pw_dir}", f"USER={site.user.pw_name}"),
                *("PATH=/usr/local/bin:/usr/bin:/bin", f"SLURM_CONF={site.rig.folder.resolve()}/etc/slurm.conf"),
                *("/bin/sh", "-c", command),
            ],
            input=stdin or b"", capture_output=True, timeout=timeout, cwd="/", start_new_session=True,
        )  # fmt: skip
        return Completed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def put(self, local: Path, remote: str) -> None:
        raise NotImplementedError

    def fetch(self, remote: str, local: Path) -> None:
        raise NotImplementedError
