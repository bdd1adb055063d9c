"""Folders of ended jobs on this machine, as targets with other tools have them, and as a faulty target reports them."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from jobplans import requested
from modak_deploy.jobs.job import Job, specification
from modak_deploy.jobs.results import FetchedResults, fetch_results
from modak_deploy.model.job import JobResult, JobState
from modak_deploy.schedulers import registry
from modak_deploy.shell import join
from modak_deploy.transport.base import Completed, Transport
from modak_deploy.transport.local import LocalTransport

TOOLS = ("base64", "cat", "cksum", "date", "dd", "df", "find", "head", "id", "ls", "od", "printf", "sed", "sh", "stat",
         "tail", "tar", "wc", "sha256sum", "openssl", "shasum", "tr", "readlink")  # fmt: skip


class EndedJob:
    """A job that has ended: its folder, which a test fills, and the folder for its results."""

    def __init__(self, folder: Path, *, outputs: list[str] | None = None, metrics: str | None = None) -> None:
        self.directory = folder / "space" / "runs" / "probe-0"
        self.work = self.directory / "work"
        self.work.mkdir(parents=True)
        made = requested(["true"], folder / "space", outputs=outputs or [], **({"metrics": metrics} if metrics else {}))
        assert made.document is not None
        (self.directory / "plan.json").write_bytes(made.document.text)
        (self.directory / "output.log").write_text("log\n")
        self.job = Job("1", specification(made, str(self.directory)), made, registry.get("process"))
        self.root = folder / "results"
        self.results = self.root / "probe"

    def result(self, state: JobState = "completed") -> JobResult:
        return JobResult(id="1", scheduler="process", tag=self.job.spec.tag, state=state, directory=str(self.directory))

    def fetch(self, transport: Transport | None = None, state: JobState = "completed") -> FetchedResults:
        return fetch_results(transport or LocalTransport(), self.job, self.result(state), self.root)


class Tools(LocalTransport):
    """This machine with some programs only: those of ``folder``, by the names of links in it."""

    def __init__(self, folder: Path, programs: dict[str, str]) -> None:
        folder.mkdir()
        for name, program in programs.items():
            (folder / name).symlink_to(program)
        self._before = f"PATH={folder}; export PATH; exec {folder}/sh -c "

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        return super().run(self._before + join([command]), stdin=stdin, timeout=timeout)


def usual(*without: str, **instead: str) -> dict[str, str]:
    """Return this machine's tools without some, and others in place of some."""
    found = {name: shutil.which(name) for name in TOOLS if name not in without}
    return {name: os.path.realpath(path) for name, path in found.items() if path} | instead


def busybox() -> dict[str, str]:
    """Return busybox's tools alone."""
    program = shutil.which("busybox")
    return {} if program is None else {name: program for name in TOOLS if name not in ("shasum", "openssl")}


class Edited(LocalTransport):
    """Calls ``edit`` before each step whose text holds ``mark``, and lets it change the answer."""

    def __init__(
        self, mark: str, edit: Callable[[], None] = lambda: None, answer: Callable[[str], str] = lambda text: text
    ) -> None:
        self._mark = mark
        self._edit = edit
        self._answer = answer
        self.trips = 0

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        self.trips += 1
        if self._mark not in command:
            return super().run(command, stdin=stdin, timeout=timeout)
        self._edit()
        done = super().run(command, stdin=stdin, timeout=timeout)
        return Completed(done.returncode, self._answer(done.stdout), done.stderr)


def tree(folder: Path) -> dict[bytes, object]:
    """Return all that is below a folder: content of files, targets of links, None for folders; nothing is followed."""
    return dict(_entries(os.fsencode(folder), b""))


def _entries(folder: bytes, path: bytes) -> Iterator[tuple[bytes, object]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = path + entry.name
            if entry.is_symlink():
                yield name, ("link", os.readlink(entry.path))  # noqa: PTH115
            elif entry.is_dir(follow_symlinks=False):
                yield name, None
                yield from _entries(entry.path, name + b"/")
            elif entry.is_file(follow_symlinks=False):
                with open(entry.path, "rb") as file:  # noqa: PTH123 - names that are no text
                    yield name, file.read()
            else:
                yield name, "other"


def make_file(folder: Path, name: str, content: bytes = b"") -> None:
    """Write a file whose name may be no text."""
    path = os.path.join(os.fsencode(folder), name.encode("utf-8", "surrogateescape"))  # noqa: PTH118
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(content)
