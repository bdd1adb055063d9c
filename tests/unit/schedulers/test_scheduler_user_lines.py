"""Whatever the user's lines do to the shell that runs them, the job's own shell goes on and says how it ended."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_parts import DATA, TAG, Part, shells
from scriptruns import record, run, text_of, use, wait_for

Maker = Callable[..., tuple[Path, Part]]
LINES: dict[str, dict[str, Any]] = yaml.safe_load((DATA / "jobs" / "user_lines.yaml").read_text())


@pytest.fixture(params=shells(), ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    return words


def on_scratch(job_folder: Maker, place: Path, program: str, scheduler: str = "process", **job: Any) -> Path:
    place.mkdir(exist_ok=True)
    options = {"scratch": str(place), **job}
    folder, _ = job_folder(scheduler, "/bin/sh", "-c", program, job=options, application={"outputs": ["out"]})
    return folder


@pytest.mark.parametrize("name", LINES)
def test_outputs_come_back_and_the_end_is_recorded(
    job_folder: Maker, shell: list[str], tmp_path: Path, name: str
) -> None:
    case = LINES[name]
    if case.get("only", shell[0]) != shell[0]:
        pytest.skip("another shell has no such thing")
    program = case.get("program", "echo made >out") + f"; exit {case.get('exit', 0)}"
    folder = on_scratch(job_folder, tmp_path / "node", program, pre_execution=case["lines"])
    code = case.get("code", case.get("exit", 0))
    assert run(folder, shell, {"FOLDER": str(tmp_path)}) == code
    end = record(folder)
    assert (end.state, end.code) == ("failed" if code else "completed", code)
    assert end.step == case.get("step")
    assert text_of(folder / "work" / "out") == case.get("out", "made\n")
    for path, text in case.get("files", {}).items():
        assert text_of(tmp_path / path) == text
    assert list((tmp_path / "node").iterdir()) == [], "nothing is left on the node"


def test_trap_of_the_user_runs_after_application_and_step_after(
    job_folder: Maker, shell: list[str], tmp_path: Path
) -> None:
    steps = {"pre_execution": "trap 'echo trap >>out' EXIT", "post_execution": "echo after >>out"}
    folder = on_scratch(job_folder, tmp_path / "node", "echo application >>out", **steps)
    assert run(folder, shell) == 0
    assert (folder / "work" / "out").read_text() == "application\nafter\ntrap\n"


@pytest.mark.parametrize(
    "lines", ["trap 'echo done >>out' EXIT", "trap '' TERM", "trap 'exit 9' TERM", "set -e; kill() { :; }"]
)
def test_signal_reaches_the_application_whatever_the_user_traps(
    job_folder: Maker, shell: list[str], tmp_path: Path, lines: str
) -> None:
    program = "trap 'echo last >>out; exit 5' TERM; echo first >out; echo ready; while :; do sleep 0.1; done"
    folder = on_scratch(job_folder, tmp_path / "node", program, "slurm", pre_execution=lines)
    use(folder, shell)
    process = subprocess.Popen([*shell, str(folder / "job.sh"), TAG], start_new_session=True)
    wait_for(lambda: "ready" in text_of(folder / "output.log"))
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert (folder / "work" / "out").read_text().startswith("first\nlast\n")
    assert (record(folder).state, record(folder).code) == ("terminated", 5)


def test_signal_while_the_users_lines_run(job_folder: Maker, shell: list[str], tmp_path: Path) -> None:
    folder = on_scratch(
        job_folder, tmp_path / "node", "echo never", "slurm",
        pre_execution="echo half >out; echo ready; sleep 60",
    )  # fmt: skip
    use(folder, shell)
    process = subprocess.Popen([*shell, str(folder / "job.sh"), TAG], start_new_session=True)
    wait_for(lambda: "ready" in text_of(folder / "output.log"))
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)
    assert record(folder).state == "terminated"
    assert record(folder).start is None
    assert (folder / "work" / "out").read_text() == "half\n"
    assert "never" not in (folder / "output.log").read_text()


def test_limits_and_umask_reach_the_application(job_folder: Maker, shell: list[str]) -> None:
    lines = "umask 027; ulimit -n 64; A='b c'; export A"
    folder, _ = job_folder("process", "sh", "-c", 'umask; ulimit -n; echo "$A"', job={"pre_execution": lines})
    assert run(folder, shell) == 0
    assert (folder / "output.log").read_text() == "0027\n64\nb c\n"


def test_functions_that_were_loaded_are_there_for_the_users_lines(job_folder: Maker, tmp_path: Path) -> None:
    (tmp_path / "modules" / "init").mkdir(parents=True)
    (tmp_path / "modules" / "init" / "sh").write_text('module() { export "LOADED=${LOADED-}$2,"; }\n')
    job = {"modules": ["first"], "pre_execution": "module load second"}
    folder, _ = job_folder("process", "sh", "-c", 'echo "$LOADED"', job=job)
    assert run(folder, ["/bin/sh"], {"MODULESHOME": str(tmp_path / "modules")}) == 0
    assert (folder / "output.log").read_text() == "first,second,\n"


@pytest.mark.parametrize(
    ("more", "step"),
    [
        ({"job": {"pre_execution": "exit 4"}}, "pre_execution"),
        ({"candidate": {"preload": ["libnosuch.so.1"]}}, "setup"),
        ({"job": {"scratch": "/no/such/folder"}}, "setup"),
        ({"job": {"pre_execution": "true", "post_execution": "true"}, "argv": "exit 4"}, None),
    ],
)
def test_step_that_failed_is_recorded(
    job_folder: Maker, shell: list[str], more: dict[str, Any], step: str | None
) -> None:
    more = dict(more)
    folder, _ = job_folder("process", "sh", "-c", more.pop("argv", "true"), **more)
    assert run(folder, shell) in (1, 4)
    assert (record(folder).state, record(folder).step) == ("failed", step)
