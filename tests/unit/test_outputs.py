"""Files that ``--output`` names: none that is read is overwritten, and nothing but a file is replaced."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from modak_deploy.cli import app
from modak_deploy.errors import InputError
from modak_deploy.outputs import write_output
from modak_deploy.tosca.cli import app as blueprint
from modak_deploy.tosca.package import start_from

DOCUMENT = "application: {name: a, executable: /bin/true}\n"


@pytest.mark.parametrize("name", ["deploy.yml", "link.yml"])
def test_a_plan_does_not_replace_its_document(tmp_path: Path, name: str) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text(DOCUMENT)
    (tmp_path / "link.yml").symlink_to(document)
    done = CliRunner().invoke(app, ["plan", str(document), "--output", str(tmp_path / name)])
    assert isinstance(done.exception, InputError)
    assert str(done.exception) == f"{tmp_path / name}: this file is read, and would be overwritten; name another output"
    assert document.read_text() == DOCUMENT


@pytest.mark.parametrize("command", ["draw", "package"])
def test_a_blueprint_is_not_replaced(tmp_path: Path, command: str) -> None:
    path = start_from("digits-machine", tmp_path)
    text = path.read_text()
    done = CliRunner().invoke(blueprint, [command, str(path), "--output", str(path)])
    assert isinstance(done.exception, InputError) and "would be overwritten" in str(done.exception)
    assert path.read_text() == text


def test_a_link_is_followed_and_a_pipe_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_output(tmp_path / "link", "text")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "file").read_text()) == (True, "text")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_output(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_what_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_output(tmp_path / "none" / "file", "text")
    assert caught.value.diagnostics[0].source == str(tmp_path / "none" / "file")
    assert str(caught.value) == f"{tmp_path}/none/file: cannot be written: No such file or directory"
