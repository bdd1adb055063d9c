"""The shell that starts a program again, as it runs on a target."""

import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobplans import plan
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs import supervising
from modak_deploy.jobs.files import paths_of


def started(folder: Path, *argv: str) -> subprocess.Popen[str]:
    request = replace(job_request(plan(["true"], folder)), supervised=True)
    for path, data in supervising.files(request).items():
        (folder / path).parent.mkdir()
        (folder / path).write_bytes(data)
    words = [*supervising.starter(request, str(folder)), *argv]
    # A shell cannot trap what is ignored when it starts, as SIGHUP is in all that nohup has started.
    return subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, preexec_fn=heeded)


def heeded() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def wait_for(file: Path, text: str) -> None:
    end = time.monotonic() + 20
    while not (file.is_file() and text in file.read_text()):
        assert time.monotonic() < end, file.read_text() if file.is_file() else file
        time.sleep(0.05)


def test_a_job_that_ends_has_none(tmp_path: Path) -> None:
    request = job_request(plan(["true"], tmp_path))
    assert supervising.files(request) == {} and supervising.starter(request, "/x") == []
    assert "supervise/supervise.sh" in paths_of(replace(request, supervised=True))


def test_a_program_is_started_again_and_its_ends_are_counted(tmp_path: Path) -> None:
    process = started(tmp_path, "sh", "-c", "echo x >>starts; exit 3")
    wait_for(tmp_path / "supervise/restarts", "2 3")
    process.terminate()
    _, said = process.communicate(timeout=10)
    assert process.returncode in (143, 3)
    assert "ended with exit code 3; it is started again in 1 s" in said and "again in 2 s" in said
    assert len((tmp_path / "starts").read_text().split()) == 2


def test_a_signal_reaches_the_program_which_ends_in_its_own_time(tmp_path: Path) -> None:
    process = started(
        tmp_path, "sh", "-c", "trap 'sleep 0.5; echo ended >ended; exit 9' TERM; : >ready; sleep 30 & wait"
    )
    wait_for(tmp_path / "ready", "")
    wait_for(tmp_path / "supervise/child", ".")  # written beside the program, which may be ready before
    child, start = (tmp_path / "supervise/child").read_text().split(".")
    assert Path(f"/proc/{child}").exists() and int(start) > 0
    process.terminate()
    process.wait(10)
    assert (tmp_path / "ended").read_text() == "ended\n" and process.returncode == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_during_the_pause_ends_it(tmp_path: Path, number: int) -> None:
    process = started(tmp_path, "false")
    wait_for(tmp_path / "supervise/restarts", "1 1")
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode in (143, 1)
