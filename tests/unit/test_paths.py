"""Paths that name the home folder of a user who is not there: a sentence, wherever a document may hold them."""

import pwd
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from modak_deploy import cli
from modak_deploy.errors import InputError
from modak_deploy.model.application import Application, Secret
from modak_deploy.model.target import Target
from modak_deploy.paths import expanded
from modak_deploy.secret_values import Reader
from modak_deploy.transport.connect import connect

NOBODYS = "~no.such-user/key"


def test_the_homes_of_users_who_are_there() -> None:
    root = pwd.getpwuid(0)
    assert expanded(f"~{root.pw_name}/key") == Path(root.pw_dir, "key")
    assert expanded("a/~b") == Path("a/~b")


def _secret() -> None:
    secrets = {"TOKEN": Secret(file=NOBODYS)}
    Reader().read(Application(name="probe", executable="true", secret_environment=secrets))


def _connection() -> None:
    with ExitStack() as stack:
        connect(Target(name="there", type="machine", host="127.0.0.1", private_key=NOBODYS), None, stack)


@pytest.mark.parametrize("use", [_secret, _connection])
def test_a_home_that_is_not_there_is_named(use: Callable[[], None]) -> None:
    with pytest.raises(InputError, match=r"~no\.such-user is no user's home folder on this machine"):
        use()


def test_a_document_with_such_a_home_ends_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text(
        "application: {name: probe, type: hpc, executable: 'true'}\n"
        f"target: {{name: there, type: machine, host: 127.0.0.1, private_key: {NOBODYS}}}\n"
    )
    with pytest.raises(SystemExit) as ended:
        cli.main(["deploy", str(document)])
    assert ended.value.code == InputError.exit_code
    assert "~no.such-user is no user's home folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["plan", "--search", "~no.such-user/x", "deploy.yml"], ["site", "list"]])
def test_folders_of_options_and_variables_in_such_a_home(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "site":
        monkeypatch.setenv("MODAK_SITES", "~no.such-user/sites.yml")
    Path("deploy.yml").write_text("application: {name: probe, type: hpc, executable: 'true'}\ntarget: {name: here}\n")
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == InputError.exit_code
    assert "~no.such-user is no user's home folder" in capsys.readouterr().err
