"""A disk that is full, but for a random number of pages, from a random step on."""

import contextlib
import os
import subprocess
from pathlib import Path
from random import Random

from controllers import Controller
from sites_of_soak import Site

from disks import BETWEEN, filled_between
from kinds.kills import expect
from modak_deploy.transport.base import Completed, Transport

ROUNDS = {"machine": 120, "slurm": 30}
_PAGE = 4096


class Filling:
    """Fills the disk before the step with that number (look, stage, submit, and then each poll)."""

    def __init__(self, inner: Transport, at: int, disk: Path, pages: int) -> None:
        self._inner, self._at, self._disk, self._pages, self._steps = inner, at, disk, pages, 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        if self._steps == self._at:
            fill(self._disk, self._pages)
        self._steps += 1
        if BETWEEN in command:  # two steps in one round trip
            if self._steps == self._at:
                command = filled_between(command, self._disk, self._pages)
            self._steps += 1
        return self._inner.run(command, stdin=stdin, timeout=timeout)

    def put(self, local: Path, remote: str) -> None:
        self._inner.put(local, remote)

    def fetch(self, remote: str, local: Path) -> None:
        self._inner.fetch(remote, local)


def fill(disk: Path, pages: int) -> None:
    """Leave that many free pages."""
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while (free := os.statvfs(disk).f_bfree) > pages:
            file.write(b"x" * _PAGE * min(free - pages, 64))


def one(site: Site, name: str, chance: Random) -> str:
    disk = site.folder(name)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=777", "tmpfs", str(disk)], check=True)
    try:
        site.owned(disk)
        pages, at = chance.randrange(14), chance.choice([0, 1, 2, 2, 2, 2, 3])
        deployed = site.request(name, workspace=disk)
        first = Controller(site, deployed, transport=lambda: Filling(site.transport(), at, disk, pages)).end()
        second = Controller(site, deployed).end()
        early = site.runs(name)
        (disk / "filler").unlink(missing_ok=True)  # where the last step was never reached
        last = Controller(site, deployed).end()
        fault = expect(site, name, last.state, last.error)
        for outcome in (first, second):
            if outcome.error.startswith("raised"):
                fault = outcome.error
            elif outcome.state not in ("", "completed") and early:
                fault = f"a job that completed was reported as {outcome.state}"
        return f"{pages} free pages from step {at} on: {fault}" if fault else ""
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
