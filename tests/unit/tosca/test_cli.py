"""The commands of modak blueprint."""

import zipfile
from pathlib import Path

import pytest

from modak_deploy.cli import main


def run(*words: str) -> int:
    """Return the exit code of ``modak blueprint ...``."""
    with pytest.raises(SystemExit) as caught:
        main(["blueprint", *words])
    return int(caught.value.code or 0)


def test_validate_says_that_there_is_no_fault(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validate", str(base)) == 0
    assert capsys.readouterr().out == f"{base}: no problems found\n"


def test_validate_reports_what_other_tools_reject_on_request(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = base.read_text()
    for old, new in [
        ("        - host: cluster\n", ""),
        ("- dependency: checked", "- other_target: other\n        - host: cluster"),
        ("    checked:\n", "    other: {type: modak.nodes.target.Machine}\n\n    checked:\n"),
    ]:
        text = text.replace(old, new, 1)
    base.write_text(text)
    assert run("validate", str(base)) == 0
    assert capsys.readouterr() == (f"{base}: no problems found\n", "")
    assert run("validate", str(base), "--portability") == 0
    said = capsys.readouterr()
    words = ".host: Puccini does not find the host behind 'other_target'; put 'host' first"
    assert said.err.endswith(f"{words} [not portable: puccini]\n")
    assert said.out == f"{base}: no problems found\n"
    assert run("validate", str(base), "--for", "puccini") == 2
    assert capsys.readouterr().err.endswith(f"{words}\n")


def test_validate_tells_all_faults(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base.write_text(base.read_text().replace("port: 22", "port: ssh").replace("hour: 3", "hour: three"))
    assert run("validate", str(base)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2
    assert "node_templates.cluster.properties.port: must be a whole number, not 'ssh'" in err


def test_validate_takes_inputs(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (base.parent / "inputs.yaml").write_text("epochs: 0\n")
    assert run("validate", str(base), "--inputs", str(base.parent / "inputs.yaml")) == 2
    assert "inputs.epochs: must be above 0, not 0" in capsys.readouterr().err


def test_package_names_what_it_wrote(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(base.parent)
    assert run("package", "base.yaml") == 0
    files = len(zipfile.ZipFile("base.csar").namelist())
    assert capsys.readouterr().out == f"base.csar: {files} files\n"
    assert (base.parent / "base.csar").is_file()


@pytest.mark.parametrize(("words", "begin"), [([], "flowchart TD"), (["--svg"], "<svg ")])
def test_draw_prints_a_picture(base: Path, capsys: pytest.CaptureFixture[str], words: list[str], begin: str) -> None:
    assert run("draw", str(base), *words) == 0
    assert capsys.readouterr().out.startswith(begin)


def test_draw_writes_by_the_ending(base: Path) -> None:
    assert run("draw", str(base), "-o", str(base.parent / "picture.svg")) == 0
    assert (base.parent / "picture.svg").read_text().startswith("<svg ")


def test_draw_refuses_a_faulty_blueprint(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base.write_text(base.read_text().replace("metrics:", "metric:"))
    assert run("draw", str(base)) == 2
    assert "unknown property" in capsys.readouterr().err


def test_init_and_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    assert "digits-slurm" in capsys.readouterr().out
    assert run("init", str(tmp_path / "mine"), "--from", "digits-slurm") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mine' / 'digits-slurm.yaml'}\n"
    assert (tmp_path / "mine" / "digits" / "train.py").is_file()


def test_create_makes_a_blueprint_of_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deploy.yml").write_text("application: {name: demo, executable: /bin/true}\n")
    assert run("create", str(tmp_path / "deploy.yml"), str(tmp_path / "project")) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'project' / 'demo.yaml'}\n"
    assert run("validate", str(tmp_path / "project" / "demo.yaml")) == 0
