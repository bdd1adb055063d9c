"""The jobs of the fake server: one JSON file each, all changes under one lock."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SERVER = "fake"
DEFAULTS: dict[str, Any] = {
    "history": True,
    "keep_completed": 300,
    "kill_delay": 1,
    "takes_kill_delay": True,
    "nodes": 2,
    "cores": 8,
    "ngpus": True,
    "max_walltime": 0,
    "queues": ["work", "closed"],
    "down": False,
    "qsub_fails_after": False,
}


@dataclass
class Job:
    """A job, an array (``tasks`` is not empty), or one task of an array (``task`` is its number)."""

    number: int
    name: str
    script: str
    queue: str
    options: dict[str, Any]
    variables: dict[str, str]
    task: int | None = None
    tasks: list[int] = field(default_factory=list)
    limit: int = 0
    state: str = "Q"
    hold: str = "n"
    comment: str = ""
    depend: list[list[str]] = field(default_factory=list)
    begin: float = 0.0
    walltime: int = 0
    exit_status: int | None = None
    submitted: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    deleted: float = 0.0
    pid: int = 0
    never: str = ""

    @property
    def id(self) -> str:
        part = "[]" if self.tasks else "" if self.task is None else f"[{self.task}]"
        return f"{self.number}{part}.{SERVER}"

    @property
    def over(self) -> bool:
        return self.state in ("C", "F", "X")


class Server:
    """All jobs of one dialect, ``torque`` or ``openpbs``."""

    def __init__(self, dialect: str) -> None:
        self.torque = dialect == "torque"
        self.dialect = dialect
        self.folder = Path(os.environ["FAKE_PBS"])
        (self.folder / "jobs").mkdir(parents=True, exist_ok=True)
        (self.folder / "spool").mkdir(exist_ok=True)
        file = self.folder / "settings.json"
        self.settings = DEFAULTS | (json.loads(file.read_text()) if file.exists() else {})
        self.jobs: dict[str, Job] = {}

    @contextmanager
    def locked(self) -> Iterator["Server"]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.jobs = {}
            for file in (self.folder / "jobs").glob("*.json"):
                job = Job(**json.loads(file.read_text()))
                self.jobs[job.id] = job
            self.advance()
            yield self
            self.advance()

    def save(self, job: Job) -> None:
        self.jobs[job.id] = job
        file = self.folder / "jobs" / f"{job.id}.json"
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(job)))
        part.replace(file)

    def next_number(self) -> int:
        file = self.folder / "number"
        number = int(file.read_text()) + 1 if file.exists() else 1
        file.write_text(str(number))
        return number

    def known(self, text: str) -> Job | None:
        """Return the job that an argument names, with or without the server's name."""
        return self.jobs.get(text if "." in text else f"{text}.{SERVER}")

    def end(self, job: Job, status: int | None, comment: str = "") -> None:
        job.state = "C" if self.torque else "F"
        job.exit_status, job.ended = status, time.time()
        job.comment = comment or job.comment
        self.save(job)

    def advance(self) -> None:
        """Do what a scheduler does: start what can start, delete what never can, forget what is old."""
        changed = True
        while changed:
            changed = False
            for job in sorted(self.jobs.values(), key=lambda job: (job.number, job.task or 0)):
                if not job.over and job.state != "R":
                    before = (job.state, job.hold, job.comment)
                    self._consider(job)
                    if (job.state, job.hold, job.comment) != before:
                        self.save(job)
                        changed = True
            for job in [job for job in self.jobs.values() if job.tasks and not job.over]:
                changed |= self._end_array(job)
        keep = self.settings["keep_completed"] if self.torque else 1e9 if self.settings["history"] else 0
        for job in [job for job in self.jobs.values() if job.over and job.ended + keep < time.time()]:
            # Torque forgets each task for itself, OpenPBS an array as a whole.
            if self.torque or all(other.over for other in self.jobs.values() if other.number == job.number):
                (self.folder / "jobs" / f"{job.id}.json").unlink(missing_ok=True)
                del self.jobs[job.id]

    def _consider(self, job: Job) -> None:
        if job.tasks:
            job.state = "B" if not self.torque else "R"
            return
        if "u" in job.hold:
            job.state = "H"
            return
        verdict = self._dependency(job)
        if verdict == "never":
            self._never(job)
        elif verdict == "wait":
            job.state, job.hold = "H", "s"
        elif job.begin > time.time():
            job.state = "W"
        elif job.never:
            job.state, job.comment = "Q", job.never
        else:
            job.state, job.hold = "Q", "n"
            running = [
                j for j in self.jobs.values() if j.number == job.number and j.task is not None and j.state == "R"
            ]
            if not (job.task is not None and job.limit and len(running) >= job.limit):
                self._start(job)

    def _dependency(self, job: Job) -> str:
        """Return ``go``, ``wait`` or ``never``."""
        for kind, *parents in job.depend:
            for parent in (self.known(name) for name in parents):
                if parent is None:
                    return "wait" if self.torque else "never"
                if not parent.over and not (kind == "after" and parent.started):
                    return "wait"
                well = parent.exit_status == 0
                if (kind == "afterok" and not well) or (kind == "afternotok" and well):
                    return "never"
        return "go"

    def _never(self, job: Job) -> None:
        parents = [self.known(name) for _, *names in job.depend for name in names]
        before = any(parent and parent.over and parent.ended < job.submitted for parent in parents)
        if self.torque and before:
            job.state, job.hold = "H", "s"  # and so it stays
        elif self.torque:
            job.hold = "s"
            self.end(job, 271, f"Job deleted as result of dependency on job {job.depend[0][1]}")
        else:
            job.hold = "s"
            self.end(job, None)

    def _end_array(self, array: Job) -> bool:
        tasks = [job for job in self.jobs.values() if job.number == array.number and job.task is not None]
        if not all(task.over for task in tasks):
            return False
        failed = any(task.exit_status != 0 for task in tasks)
        self.end(
            array, None if self.torque else int(failed), f"Job Array Began and {'failed' if failed else 'finished'}"
        )
        return True

    def _start(self, job: Job) -> None:
        job.state, job.started = "R", time.time()
        job.comment = "Job started on Fri Nov 20" if self.torque else "Job run at Fri Nov 20 on (fake:ncpus=1)"
        self.save(job)
        runner = Path(__file__).with_name("pbs_run.py")
        subprocess.Popen(
            [sys.executable, runner, self.dialect, job.id],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
