"""The commands on deployments, on this machine: real jobs of the scheduler process, without Ansible."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy import cli
from modak_deploy.jobs.control import Jobs

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a call of the command: exit code, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return what writes a document of a shell line as the job."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def document(line: str, **sections: Any) -> Path:
        application = {"name": "hello", "executable": "sh", "arguments": ["-c", line], "type": "hpc"}
        polling = {"first": 0.1, "maximum": 0.3}
        target = {"name": "here", "workspace": str(tmp_path / "target"), "polling": polling}
        data = {"application": application, "target": target, **sections}
        (tmp_path / "deploy.yml").write_text(yaml.safe_dump(data))
        return tmp_path / "deploy.yml"

    return document


def test_a_deployment_from_its_plan_to_its_end(write: Callable[..., Path], run: Run, tmp_path: Path) -> None:
    write(f"pwd >>{tmp_path}/runs.txt")
    code, out, _ = run("deploy", "deploy.yml")
    assert code == 0
    assert "Plan for hello on here (process)" in out
    assert "completed" in out.splitlines()[-1]
    assert sorted(path.name for path in (tmp_path / "results" / "hello").iterdir())[:2] == ["job.json", "output.log"]
    code, out, _ = run("deploy", "deploy.yml", "--json")
    again = json.loads(out)
    assert (code, again["changed"], again["submitted"], again["job"]["state"]) == (0, False, False, "completed")
    assert len((tmp_path / "runs.txt").read_text().splitlines()) == 1
    code, out, _ = run("status")
    assert out.splitlines()[1].split()[:4] == ["hello", "here", again["job"]["id"], "completed"]
    assert run("results", "hello", "--json")[0] == 0
    assert json.loads(run("undeploy", "hello", "--check", "--json")[1])["changed"] is True
    assert json.loads(run("undeploy", "deploy.yml", "--json")[1])["changed"] is True
    assert json.loads(run("undeploy", "deploy.yml", "--json")[1])["changed"] is False
    assert not list(tmp_path.glob("target/runs/*"))
    assert (tmp_path / "results" / "hello" / "plan.json").is_file()


def test_check_changes_nothing(write: Callable[..., Path], run: Run, tmp_path: Path) -> None:
    write("true")
    code, out, _ = run("deploy", "deploy.yml", "--check", "--diff")
    assert code == 0
    assert "modak_directory=" in out
    assert out.endswith("hello: the job would be submitted to here\n")
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("state", "data")] == ["deploy.yml"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_job_that_fails_sets_the_exit_code(write: Callable[..., Path], run: Run, as_json: bool) -> None:
    write("echo the cause >&2; exit 3")
    code, out, err = run("deploy", "deploy.yml", *(["--json"] if as_json else []))
    assert code == 5
    if as_json:
        value = json.loads(out)
        assert (value["job"]["state"], value["job"]["exit_code"]) == ("failed", 3)
        assert "the cause" in value["message"]
    else:
        assert "the cause" in err
        assert "Traceback" not in err
    assert run("results", "hello")[0] == 5


def test_a_job_that_nobody_waits_for(write: Callable[..., Path], run: Run) -> None:
    write("echo begun; sleep 60")
    code, out, _ = run("deploy", "deploy.yml", "--no-wait")
    assert code == 0
    assert "modak logs -f hello" in out
    code, _, err = run("deploy", "deploy.yml", "--timeout", "1")
    assert code == 5
    assert "goes on" in err
    code, _, err = run("results", "hello")
    assert code == 5
    assert "is running" in err
    assert run("logs", "hello")[1] == "begun\n"
    assert json.loads(run("cancel", "hello", "--check", "--json")[1])["changed"] is True
    assert json.loads(run("cancel", "hello", "--json")[1])["changed"] is True
    assert json.loads(run("cancel", "hello", "--json")[1])["changed"] is False
    assert json.loads(run("status", "--json")[1])[0]["state"] in ("cancelled", "failed")
    assert run("undeploy", "hello")[0] == 0


def test_logs_of_a_job_that_has_written_nothing_yet_are_empty(write: Callable[..., Path], run: Run) -> None:
    write("sleep 2; echo written")
    assert run("deploy", "deploy.yml", "--no-wait")[0] == 0
    assert run("logs", "hello")[:2] == (0, "")
    assert run("logs", "-f", "hello")[:2] == (0, "written\n")


def test_logs_follow_a_job_to_its_end(write: Callable[..., Path], run: Run) -> None:
    write("for i in 1 2 3 4; do echo line $i; sleep 0.5; done")
    assert run("deploy", "deploy.yml", "--no-wait")[0] == 0
    code, out, err = run("logs", "-f", "hello")
    assert (code, out) == (0, "line 1\nline 2\nline 3\nline 4\n")
    assert "completed" in err
    assert run("logs", "hello", "-n", "2")[1] == "line 3\nline 4\n"
    assert run("logs", "hello", "--task", "1")[0] == 2


def test_ctrl_c_leaves_the_job_running_and_says_how_to_go_on(
    write: Callable[..., Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sleep 30")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Jobs, "wait", interrupt)
        code, _, err = run("deploy", "deploy.yml")
    assert code == 130
    assert "goes on" in err
    assert "modak cancel hello" in err
    assert json.loads(run("status", "hello", "--json")[1])[0]["state"] == "running"
    assert run("undeploy", "hello")[0] == 0


def test_extra_values_are_never_templates(write: Callable[..., Path], run: Run) -> None:
    write("true")
    code, out, _ = run(
        "deploy", "deploy.yml", "--check", "--json", "-e", "job.name={{ 7*7 }}", "-e", "job.wall_time=90"
    )
    assert code == 2
    assert json.loads(out)[0]["source"] == "-e"
    _, out, _ = run(
        "deploy", "deploy.yml", "--check", "--json", "-e", 'application.arguments=["{{ 7*7 }}"]', "-e", "wait=no"
    )
    assert json.loads(out)["plan"]["application"]["arguments"] == ["{{ 7*7 }}"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("job", "'job' is not KEY=VALUE"),
        ("forse=true", "did you mean 'force'?"),
        ("job.wall_tmie=5", "wall_time"),
        ("wait=maybe", "wait"),
        ("application.name.first=a", "not a mapping"),
        (".=1", "KEY=VALUE"),
    ],
)
def test_an_extra_value_that_is_wrong(write: Callable[..., Path], run: Run, argument: str, message: str) -> None:
    write("true")
    code, out, err = run("deploy", "deploy.yml", "-e", argument)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert run("plan", "deploy.yml", "-e", argument) == (code, out, err)


def test_a_plan_is_made_with_the_values_of_its_deployment(write: Callable[..., Path], run: Run) -> None:
    write("true", job={"name": "usual"})
    values = ("-e", 'application.arguments=["{{ 7*7 }}"]', "-e", "job.name=other", "-e", "wait=no")
    code, out, err = run("plan", "deploy.yml", "--json", *values)
    assert (code, err) == (0, "")
    planned, deployed = json.loads(out), json.loads(run("deploy", "deploy.yml", "-C", "--json", *values)[1])["plan"]
    assert (planned["name"], planned["application"]["arguments"]) == ("other", ["{{ 7*7 }}"])
    assert {**planned, "created": None} == {**deployed, "created": None}


@pytest.mark.parametrize("command", ["plan", "deploy"])
def test_an_extra_value_that_the_target_does_not_support(command: str, write: Callable[..., Path], run: Run) -> None:
    write("true", job={"name": "usual"})
    code, _, err = run(command, "deploy.yml", "-e", "job.account=physics")
    assert code == 2
    assert err.startswith("-e: job.account: not supported by a plain machine")


def test_a_plan_of_somebody_else_is_not_followed_without_a_document(
    write: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    write("true")
    assert run("deploy", "deploy.yml")[0] == 0
    plan = tmp_path / "results" / "hello" / "plan.json"
    data = json.loads(plan.read_text())
    data["target"]["workspace"] = "/elsewhere"
    plan.write_text(json.dumps(data))
    for command in ("undeploy", "cancel", "logs", "results"):
        code, _, err = run(command, "hello")
        assert code == 2
        assert "was changed after modak wrote it" in err
    code, out, _ = run("status")
    assert code == 2
    assert "unknown" in out


def test_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("status")[1].startswith("no runs in ")
    assert run("status", "--json")[1] == "[]\n"
    code, _, err = run("logs", "nothing")
    assert code == 2
    assert "nothing" in err


def test_module_can_be_run(run: Run) -> None:
    import subprocess

    done = subprocess.run([sys.executable, "-m", "modak_deploy", "-h"], capture_output=True, text=True, check=True)
    assert "undeploy" in done.stdout
