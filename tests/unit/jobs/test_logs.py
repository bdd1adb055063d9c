"""What a message says of a job that ended badly: the cause, as far as its log tells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.jobs.control import Jobs
from modak_deploy.jobs.logs import explanation, last_lines
from modak_deploy.model.jobrequest import JobRequest

Shell = Callable[..., JobRequest]
LOGS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "data" / "jobs" / "logs.yaml").read_text()
)


@pytest.mark.parametrize("name", LOGS)
def test_last_lines(tmp_path: Path, name: str) -> None:
    case = LOGS[name]
    (tmp_path / "log").write_bytes(case["text"].encode("utf-8", "surrogateescape") * case.get("times", 1))
    lines = last_lines(tmp_path / "log")
    assert lines == case["lines"]
    assert all(line.isprintable() or "\t" in line for line in lines)


def test_log_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert last_lines(tmp_path / "folder") == last_lines(tmp_path / "nothing") == []
    (tmp_path / "large").write_bytes(b"x" * 50_000_000)
    (line,) = last_lines(tmp_path / "large")
    assert len(line) < 550


def explained(jobs: Jobs, plan: JobRequest, results: Path) -> str:
    present = jobs.present(plan)
    (result,) = jobs.wait([present])
    return explanation(plan, jobs.fetch_results(present.job, result, results).result)


@pytest.mark.parametrize(
    ("line", "job", "log"),
    [
        ("echo to the log; echo why >&2; exit 3", {}, "output.log:\n    | to the log\n    | why"),
        ("echo to the log; echo why >&2; exit 3", {"join_output": False}, "error.log:\n    | why"),
        ("echo to the log; exit 3", {"join_output": False}, "output.log:\n    | to the log"),
        ("echo why; exit 3", {"output": "own.txt"}, "own.txt:\n    | why"),
        ("echo why >&2; exit 3", {"error": "own.txt"}, "own.txt:\n    | why"),
    ],
)
def test_message_ends_with_the_log(
    jobs: Jobs, shell: Shell, tmp_path: Path, line: str, job: dict[str, Any], log: str
) -> None:
    text = explained(jobs, shell(line, job=job), tmp_path / "results")
    first, _, rest = text.partition("\n")
    assert "failed: the application ended with exit code 3; what it wrote is in" in first
    assert rest == f"The last lines of {log}"


def test_message_without_a_log(jobs: Jobs, shell: Shell, tmp_path: Path) -> None:
    assert "\n" not in explained(jobs, shell("exit 3"), tmp_path / "results")


@pytest.mark.parametrize(
    ("lines", "sentence", "log"),
    [
        ("echo before; nosuchcommand", "exit code 127", "nosuchcommand"),
        ("exit 7", "exit code 7", ""),
        ("exit 0", "exit code 1", "modak: pre_execution ended the job before the application"),
    ],
)
def test_lines_before_the_application_that_fail(
    jobs: Jobs, shell: Shell, tmp_path: Path, lines: str, sentence: str, log: str
) -> None:
    text = explained(jobs, shell("echo never", job={"pre_execution": lines}), tmp_path / "results")
    assert f"failed: pre_execution ended with {sentence}, and the application was not started" in text
    assert log in text


def test_what_cannot_be_set_up(jobs: Jobs, shell: Shell, tmp_path: Path) -> None:
    text = explained(jobs, shell("echo never", job={"scratch": "/no/such/folder"}), tmp_path / "results")
    assert "the job could not be set up on its node, and the application was not started" in text
    assert "\n    | modak: the scratch folder /no/such/folder is not there on" in text
