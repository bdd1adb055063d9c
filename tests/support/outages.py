"""Parts of the real Slurm and its sshd, taken away for a while."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from rig import Rig


def as_root(*command: str) -> str:
    """Run a command as root, which the rig needs in any case, and return what it printed."""
    words = command if os.geteuid() == 0 else ("sudo", "-n", *command)
    path = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL, env={"PATH": path}
    )
    return done.stdout


@contextmanager
def without_scheduler(rig: Rig) -> Iterator[None]:
    """Take slurmctld away; it comes back with what it knew."""
    _end(rig, "slurmctld")
    try:
        yield
    finally:
        conf = f"{rig.folder}/etc/slurm.conf"
        as_root("env", f"SLURM_CONF={conf}", "slurmctld", "-f", conf)


@contextmanager
def without_login(rig: Rig) -> Iterator[None]:
    """Take sshd away, and end the sessions that it serves."""
    _end(rig, "sshd")
    drop_sessions(rig)
    try:
        yield
    finally:
        sshd = as_root("sh", "-c", "command -v sshd").strip()
        as_root(sshd, "-f", f"{rig.folder}/etc/sshd_config", "-E", f"{rig.folder}/log/sshd.log")


def drop_sessions(rig: Rig) -> None:
    """End the ssh connections of the rig's user from the server's side."""
    user = rig.home.owner()
    listed = subprocess.run(["ps", "-u", user, "-o", "pid=,comm="], capture_output=True, text=True).stdout
    for pid, name in (line.split(None, 1) for line in listed.splitlines()):
        if name.startswith("sshd"):
            as_root("sh", "-c", f"kill {pid} || true")


def _end(rig: Rig, daemon: str) -> None:
    pid = as_root("cat", f"{rig.folder}/run/{daemon}.pid").strip()
    as_root("kill", pid)
    as_root("sh", "-c", f"while kill -0 {pid} 2>/dev/null; do sleep 0.1; done")
