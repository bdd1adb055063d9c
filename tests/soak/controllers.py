"""Controllers of a soak: processes that deploy one JobRequest to its end, and that can be killed at any moment."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sites_of_soak import Site

from modak_deploy.errors import ModakError
from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.settings import Timeouts
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.schedulers.base import Scheduler
from modak_deploy.transport.base import Transport

_NEW_NAMESPACES = 0x00020000 | 0x20000000
"""CLONE_NEWNS and CLONE_NEWPID of <sched.h>; Python has os.unshare from 3.12 on."""


@dataclass(frozen=True)
class Outcome:
    """What became of a deployment: the job's state, or the error in one sentence."""

    state: str = ""
    error: str = ""
    id: str = ""


def deploy(jobs: Jobs, deployed: JobRequest) -> Outcome:
    """Deploy to the job's end."""
    try:
        present = jobs.present(deployed)
        (result,) = jobs.wait([present], timeout=240)
    except ModakError as error:
        return Outcome(error=str(error))
    return Outcome(result.state, id=result.id)


class Controller:
    """One controller: a fork of this process, for a new one would need a second to load the library."""

    def __init__(
        self,
        site: Site,
        deployed: JobRequest,
        *,
        transport: Callable[[], Transport] | None = None,
        scheduler: Scheduler | None = None,
        timeouts: Timeouts | None = None,
        apart: bool = False,
    ) -> None:
        """``apart`` gives it a PID namespace of its own, and so to what it starts."""
        handle, name = tempfile.mkstemp(prefix="modak-outcome.")
        os.close(handle)
        self._file = Path(name)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            if apart:
                _enter_namespaces()
            with contextlib.ExitStack() as stack:
                way = (transport or site.transport)()
                if hasattr(way, "__exit__"):
                    stack.enter_context(way)
                jobs = Jobs(way, timeouts=timeouts or site.timeouts, scheduler=scheduler)
                self._file.write_text(json.dumps(vars(deploy(jobs, deployed))))
        except BaseException as error:
            self._file.write_text(json.dumps({"error": f"raised {type(error).__name__}: {error}"}))
        finally:
            os._exit(0)

    def end(self, seconds: float = 300) -> Outcome:
        """Wait for its end."""
        limit = time.monotonic() + seconds
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > limit:
                self.kill([self.pid])
                os.waitpid(self.pid, 0)
                break
            time.sleep(0.02)
        text = self._file.read_text()
        self._file.unlink()
        return Outcome(**json.loads(text)) if text else Outcome(error="the controller was killed")

    def shoot(self, below: Callable[[int], bool]) -> Outcome:
        """Kill it, and at the same moment those of the processes below it for which ``below`` is true."""
        victims = [pid for pid in descendants(self.pid) if below(pid)]
        self.kill([self.pid, *victims])
        return self.end()

    @staticmethod
    def kill(pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the processes below one, nearest first."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def is_of_job(pid: int) -> bool:
    """Whether a process belongs to a job that has been started, and not to the step that starts it."""
    with contextlib.suppress(OSError):
        return b"MODAK_DIRECTORY=" in Path(f"/proc/{pid}/environ").read_bytes()
    return True


def is_shell(pid: int) -> bool:
    """Whether it is the shell that carries out a step, as its first process does."""
    with contextlib.suppress(OSError):
        return b"boundary=" in Path(f"/proc/{pid}/cmdline").read_bytes() and not is_of_job(pid)
    return False


def on_login(name: str) -> Iterator[int]:
    """Yield the processes that sshd has started for steps of the round ``name``, the shells first."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                if name.encode() in line and b"eval" in line:
                    yield int(entry.name)


def _enter_namespaces() -> None:
    """Go on as the first process but one of new namespaces of mounts and PIDs, with a /proc of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACES):
        raise OSError(ctypes.get_errno(), "unshare")
    if child := os.fork():  # the namespace ends with its first process, and its jobs with it
        os.waitpid(child, 0)
        os._exit(0)
    for words in (["--make-rprivate", "/"], ["-t", "proc", "proc", "/proc"]):
        subprocess.run(["mount", *words], check=True, capture_output=True)
