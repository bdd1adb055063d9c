"""Secret environment variables: in the job and nowhere else."""

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from endings import assert_unchanged, one_sentence
from rig import Rig
from sites import Site

VALUES = {"FROM_FILE": "file-4711 $(id) 'quoted'", "FROM_VAULT": "vault-4712\nline two", "FROM_COMMAND": "command-4713"}
MARKS = ("file-4711", "vault-4712", "command-4713")
LINE = 'printf "%s|" "$FROM_FILE" "$FROM_VAULT" "$FROM_COMMAND" | sha256sum >out; ls ../state >listing'


@pytest.fixture
def secrets(machine_site: Site) -> list[str]:
    """Write a file, a vault and a command's source of secrets; return the arguments that give them to a playbook."""
    folder = machine_site.folder
    for name, text in (("token", VALUES["FROM_FILE"] + "\n"), ("printed", VALUES["FROM_COMMAND"] + "\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    (folder / "password").write_text("of the vault")
    (folder / "vault.yml").write_text("token_in_vault: " + json.dumps(VALUES["FROM_VAULT"]) + "\n")
    command = ["ansible-vault", "encrypt", "--vault-password-file", "password", "vault.yml"]
    subprocess.run(command, cwd=folder, env=machine_site.environment, check=True, capture_output=True, timeout=60)
    return ["-e", "@vault.yml", "--vault-password-file", "password", "-e", "secret_commands=true"]


def document(folder: Path, line: str = LINE, **target: Any) -> dict[str, Any]:
    return {
        "application": {
            "name": "secretive",
            "type": "hpc",
            "executable": "sh",
            "arguments": ["-c", line],
            "outputs": ["out", "listing"],
            "secret_environment": {
                "FROM_FILE": {"file": "token"},
                "FROM_VAULT": {"variable": "token_in_vault"},
                "FROM_COMMAND": {"command": ["cat", str(folder / "printed")]},
            },
        },
        "target": {"name": "here", "workspace": str(folder / "space"), **target},
    }


def expected() -> str:
    text = "".join(f"{VALUES[name]}|" for name in ("FROM_FILE", "FROM_VAULT", "FROM_COMMAND"))
    return subprocess.run(["sha256sum"], input=text, capture_output=True, text=True, check=True).stdout


def holders(*folders: Path) -> list[str]:
    """Return the files below the folders that hold a secret's value."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [str(file) for file in files if any(mark.encode() in file.read_bytes() for mark in MARKS)]


def modes(folder: Path) -> set[str]:
    return {f"{stat.S_IMODE((folder / name).stat().st_mode):o}" for name in ("plan.json", "job.json")}


def test_values_reach_the_job_and_nothing_else(machine_site: Site, secrets: list[str]) -> None:
    folder = machine_site.folder
    machine_site.write(document(folder))
    shown = [machine_site.play("deploy", *secrets, "--check", "--diff", "-vvv")]
    shown += [machine_site.play("deploy", *secrets, "--diff", "-vvv")]
    assert [ended.code for ended in shown] == [0, 0], shown[-1].text
    results = machine_site.results / "secretive"
    assert (results / "out").read_text() == expected()
    assert "secret_environment" not in (results / "listing").read_text().split()
    assert modes(results) == {"600"}
    again = machine_site.play("deploy", *secrets, "-vvv")
    assert_unchanged(again)
    assert not [mark for mark in MARKS for ended in [*shown, again] if mark in ended.text]
    state = Path(machine_site.environment["XDG_STATE_HOME"])
    assert holders(folder / "space", machine_site.results, state) == []


def test_another_value_is_another_job(machine_site: Site, secrets: list[str]) -> None:
    folder = machine_site.folder
    machine_site.write(document(folder, LINE + f"; echo run >>{folder}/trace"))
    assert machine_site.play("deploy", *secrets).code == 0
    (folder / "token").write_text("file-4711 changed\n")
    changed = machine_site.play("deploy", *secrets)
    assert changed.code == 0, changed.text
    assert (folder / "trace").read_text() == "run\nrun\n"
    assert len(list((folder / "space" / "runs").iterdir())) == 2


def test_undeploy_removes_the_file_of_a_job_that_never_began(machine_site: Site, secrets: list[str]) -> None:
    """The job waits in its pre_execution's place before the file is read: it is killed there."""
    folder = machine_site.folder
    machine_site.write(document(folder, "sleep 600"))
    started = machine_site.play("deploy", *secrets, "-e", "wait=false")
    assert started.code == 0, started.text
    undeployed = machine_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert holders(folder / "space") == []
    assert not list((folder / "space").glob("runs/*"))


@pytest.mark.parametrize(
    ("prepare", "arguments", "sentence"),
    [
        (lambda f: None, 4, "FROM_COMMAND: a command on the controller is run only where its user permits it"),
        (lambda f: (f / "token").chmod(0o644), 6, "token is open to other users; run: chmod 600"),
        (lambda f: (f / "token").unlink(), 6, "FROM_FILE: 'token' not found; searched in"),
        (lambda f: (f / "token").write_text("\n"), 6, "FROM_FILE: the value is empty"),
        (lambda f: (f / "printed").unlink(), 6, "FROM_COMMAND: the command 'cat' ended with exit code 1"),
        (lambda f: None, 0, "FROM_VAULT: the variable 'token_in_vault' is not set"),
    ],
    ids=["not-permitted", "open", "absent", "empty", "failing", "no-variable"],
)
def test_a_value_that_cannot_be_read(
    machine_site: Site, secrets: list[str], prepare: Any, arguments: int, sentence: str
) -> None:
    machine_site.write(document(machine_site.folder))
    prepare(machine_site.folder)
    given = secrets[:arguments] or ["-e", "secret_commands=true"]
    ended = machine_site.play("deploy", *given, "-vvv")
    one_sentence(ended, sentence)
    assert not [mark for mark in MARKS if mark in ended.text]
    assert not (machine_site.folder / "space").exists()


def test_ordinary_values_stay_hidden_under_no_log(machine_site: Site) -> None:
    """A vault's value in the ordinary environment is in the Plan; with no_log nothing of it is printed."""
    folder = machine_site.folder
    application = {"name": "hidden", "type": "hpc", "executable": "true", "environment": {"TOKEN": "vault-4712"}}
    target = {"name": "here", "workspace": str(folder / "space")}
    asked = {"application": application, "target": target, "results": "results"}
    tasks = [
        {"name": "Decide", "modak.deploy.optimise": asked, "register": "decided", "no_log": True},
        {"name": "Run", "modak.deploy.batch_job": {"plan": "{{ decided.plan }}"}, "no_log": True},
    ]  # fmt: skip
    play = [{"name": "Deploy", "hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(json.dumps(play))
    for arguments in (["--check", "--diff", "-vvv"], ["--diff", "-vvvv"], ["--diff", "-vvv"]):
        with machine_site.started(["ansible-playbook", "play.yml", *arguments]) as running:
            ended = running.end(120)
        assert ended.code == 0, ended.text
        assert "vault-4712" not in ended.text
    assert modes(machine_site.results / "hidden") == {"600"}


def test_values_reach_a_job_on_slurm(slurm_site: Site, real_slurm: Rig) -> None:
    folder = slurm_site.folder
    (folder / "token").write_text("file-4711")
    (folder / "token").chmod(0o600)
    data = document(folder, 'printf %s "$FROM_FILE" | sha256sum >out; ls ../state >listing; sleep 2')
    data["application"]["secret_environment"] = {"FROM_FILE": {"file": "token"}}
    data["application"]["name"] = f"secret-{folder.name.replace('_', '-')}"[:50]
    data["target"] = {"name": "rig", "type": "slurm", "host": "slurm-login", "polling": {"first": 0.5, "maximum": 2.0}}
    data["job"] = {"wall_time": "5m", "ranks": 1}
    slurm_site.write(data)
    ended = slurm_site.play("deploy", "-vvv", "--diff")
    assert ended.code == 0, ended.text
    results = slurm_site.results / data["application"]["name"]
    digest = subprocess.run(["sha256sum"], input="file-4711", capture_output=True, text=True, check=True).stdout
    assert (results / "out").read_text() == digest
    assert "file-4711" not in ended.text
    assert holders(real_slurm.home / ".modak" / "runs", slurm_site.results) == []
    assert slurm_site.play("undeploy").code == 0
