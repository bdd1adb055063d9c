"""Files that ``--output`` names: none that is read is overwritten, and nothing but a file is replaced."""

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from modak_deploy import outputs
from modak_deploy.cli import app
from modak_deploy.errors import InputError
from modak_deploy.evidence.report import write_report
from modak_deploy.evidence.view import Report
from modak_deploy.outputs import write_output
from modak_deploy.tosca.cli import app as blueprint
from modak_deploy.tosca.package import start_from
from modak_deploy.tosca.service import load
from modak_deploy.util.files import PRIVATE

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


PRINTS = """
import sys
from pathlib import Path
from modak_deploy.outputs import write_output
print("first")
write_output(Path(sys.argv[1]), "second\\n")
print("third")
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "link"])
def test_standard_output_that_a_shell_appends_to_a_file_stays_that_file(tmp_path: Path, name: str) -> None:
    """The file was replaced: what it held before was lost, and what came after went to one without a name."""
    (tmp_path / "file").write_text("before\n")
    (tmp_path / "link").symlink_to("/dev/stdout")
    with (tmp_path / "file").open("a") as file:
        subprocess.run([sys.executable, "-c", PRINTS, str(tmp_path / name)], stdout=file, check=True)
    assert (tmp_path / "file").read_text() == "before\nfirst\nsecond\nthird\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_page_for_a_pipe_has_no_table_beside_it(tmp_path: Path) -> None:
    """It ended in an error after the page: there is no /dev/stdout.csv."""
    os.mkfifo(tmp_path / "page")
    report = Report("title", "summary", [], [], ())
    with ThreadPoolExecutor(1) as pool:
        page = pool.submit((tmp_path / "page").read_text)
        assert write_report(report, tmp_path / "page") is None
        assert "summary" in page.result(timeout=20)
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="a: cannot be written: "):
        write_output(tmp_path / "a", "text")


@pytest.mark.parametrize(
    ("number", "mode", "text"),
    [
        (errno.EBUSY, 0o666, "new"),
        (errno.EACCES, 0o666, "new"),
        (errno.EBUSY, PRIVATE, "old"),
        (errno.ENOSPC, 0o666, "old"),
    ],
)
def test_a_file_whose_name_cannot_be_replaced_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, mode: int, text: str
) -> None:
    """As one that a container has mounted, or in a folder that is read only; others may read it, so nothing private."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(outputs, "write_atomically", refuse)
    (tmp_path / "file").write_text("old")
    with suppress(InputError):
        write_output(tmp_path / "file", "new", mode=mode)
    assert (tmp_path / "file").read_text() == text
    with pytest.raises(InputError, match=os.strerror(number)):
        write_output(tmp_path / "absent", "new", mode=mode)


def test_a_plan_does_not_replace_the_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "deploy.yml").write_text("application: {name: a, type: hpc, script: train.py}\n")
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "deploy.yml"), "--output", str(tmp_path / "train.py")])
    assert isinstance(done.exception, InputError) and "would be overwritten" in str(done.exception)
    assert (tmp_path / "train.py").read_text() == "print()\n"


def test_a_drawing_does_not_replace_what_its_blueprint_imports(tmp_path: Path) -> None:
    path = start_from("digits-machine", tmp_path)
    types = next(file for file in load(path).files if file.name != path.name)
    text = types.read_text()
    done = CliRunner().invoke(blueprint, ["draw", str(path), "--output", str(types)])
    assert isinstance(done.exception, InputError) and "would be overwritten" in str(done.exception)
    assert types.read_text() == text
