"""Jobs on a plain machine: real processes."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from modak_deploy.jobs.record import parse_exit
from modak_deploy.schedulers import process as module
from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport
from scheduler_parts import Part

Maker = Callable[..., tuple[Path, Part]]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the checks read /proc")


def run(command: str) -> Completed:
    return LocalTransport().run(command, timeout=60)


def wait_for(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen within 30 s"
        time.sleep(0.05)
    return value


class Running:
    """A job that was submitted."""

    def __init__(self, folder: Path, part: Part) -> None:
        self.folder, self.part, self.scheduler = folder, part, part.scheduler
        self.id = self.scheduler.parse_submit(run(self.scheduler.submit_command(part.spec)))

    def state(self) -> Any:
        return self.scheduler.parse_status(run(self.scheduler.status_command([self.id])), [self.id]).get(self.id)

    def cancel(self) -> None:
        assert run(self.scheduler.cancel_command([self.id])).returncode == 0

    def found(self) -> list[str]:
        tag = self.part.spec.tag
        return self.scheduler.parse_find(run(self.scheduler.find_command(tag, self.part.spec.name)), tag)

    def record(self) -> Any:
        file = self.folder / "state" / "exit"
        return parse_exit(file.read_text()) if file.exists() else None

    def text(self) -> str:
        file = self.folder / "output.log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def submit(job_folder: Maker) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def submitter(*argv: str, **more: Any) -> Running:
        # Processes are found by their tags, and other tests run beside this one.
        more.setdefault("tag", f"modak-{secrets.token_hex(8)}")
        started.append(Running(*job_folder("process", *argv, **more)))
        return started[-1]

    yield submitter
    for job in started:
        job.cancel()


def test_from_start_to_end(submit: Callable[..., Running]) -> None:
    job = submit("sh", "-c", "echo hello; while [ ! -e go ]; do sleep 0.05; done; exit 3")
    assert job.state().state == "running"
    assert job.found() == [job.id]
    assert (job.folder / "state" / "pid").read_text().strip() == job.id
    (job.folder / "work" / "go").touch()
    wait_for(lambda: job.state() is None)
    assert (job.record().state, job.record().code) == ("failed", 3)
    assert job.text() == "hello\n"
    assert job.found() == []


def test_it_outlives_the_connection_that_started_it(job_folder: Maker) -> None:
    folder, part = job_folder("process", "sh", "-c", "sleep 1; echo still here")
    shell = subprocess.Popen(
        ["/bin/sh", "-c", part.scheduler.submit_command(part.spec)], start_new_session=True, stdout=subprocess.PIPE
    )
    assert shell.communicate(timeout=10)[0].startswith(b"modak-process "), "it keeps the connection open"
    with suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGHUP)
    wait_for((folder / "state" / "exit").exists)
    assert (folder / "output.log").read_text() == "still here\n"


def test_its_environment_is_not_the_submitters(submit: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    job = submit("sh", "-c", 'echo "<$SECRET><$HOME>"')
    wait_for(job.record)
    assert job.text() == f"<><{os.environ['HOME']}>\n"


def test_its_environment_is_the_submitters_on_request(
    submit: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "two\nlines $(echo)")
    job = submit("sh", "-c", 'echo "<$SECRET>"', job={"export_environment": True})
    wait_for(job.record)
    assert job.text() == "<two\nlines $(echo)>\n"


def test_cancel_ends_all_processes_even_those_that_left(submit: Callable[..., Running]) -> None:
    program = "(setsid sleep 617 & echo $! >>pids); sleep 618 & echo $! >>pids; (sleep 619); echo never"
    job = submit("sh", "-c", program)
    pids = job.folder / "work" / "pids"
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    job.cancel()
    assert [pid for pid in pids.read_text().split() if runs(pid)] == []
    assert job.state() is None
    assert (job.record().state, job.record().signal) == ("terminated", 15)
    job.cancel()


def runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_cancel_insists_where_nobody_listens(submit: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 1)
    job = submit("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    wait_for(job.text)
    job.cancel()
    assert job.state() is None
    assert job.record().state == "terminated"


def test_another_process_with_its_number_is_left_alone(submit: Callable[..., Running]) -> None:
    job = submit("sleep", "60")
    wrong = f"{job.id.partition('-')[0]}-1"
    assert job.scheduler.parse_status(run(job.scheduler.status_command([wrong])), [wrong]) == {}
    assert run(job.scheduler.cancel_command([wrong])).returncode == 0
    assert job.state().state == "running"


def test_the_wall_time_ends_it(submit: Callable[..., Running]) -> None:
    job = submit("sleep", "60", job={"wall_time": 1})
    wait_for(lambda: job.state() is None)
    assert job.record().state == "timeout"


def test_only_the_jobs_own_script_is_found(submit: Callable[..., Running]) -> None:
    tag = f"modak-{secrets.token_hex(8)}"
    job = submit("sh", "-c", "sleep 60", "sh", tag, tag=tag)
    assert wait_for(job.found) == [job.id]  # on a busy machine its script may not have begun yet
    other = tag[:-1] + ("0" if tag[-1] != "0" else "1")
    assert job.scheduler.parse_find(run(job.scheduler.find_command(other, "digits")), other) == []


def test_without_setsid(submit: Callable[..., Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "sh env nohup cut grep mkdir date cat ln mv rm uname sleep ps tr"
    for name in names.split():
        found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True).stdout.strip()
        (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    job = submit("sh", "-c", "sleep 60")
    assert job.state().state == "running"
    monkeypatch.undo()
    job.cancel()
    assert job.record().state == "terminated"


def test_check_reads_the_script(job_folder: Maker) -> None:
    _, part = job_folder("process", "true")
    command = part.scheduler.check_command(part.spec)
    assert command is not None
    assert LocalTransport().run(command, stdin=part.script().encode()).returncode == 0
    assert LocalTransport().run(command, stdin=b"if").returncode != 0
