"""``make evidence``: parts go on where they were, a failed one does not stop the others, and all formats agree."""

import argparse
import runpy
import shlex
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "evidence_tables.py"


@pytest.fixture
def evidence():
    return runpy.run_path(str(SCRIPT))


def part(evidence, folder, name, code):
    return evidence["Part"](name, [sys.executable, "-c", code], folder / f"{name}.txt")


def test_what_a_part_prints_is_kept(evidence, tmp_path, capsys):
    scaling = part(evidence, tmp_path, "scaling", "print('| a | b |'); print('|---|---|'); print('| 1 | <2> |')")
    assert evidence["run"](scaling) == ""
    assert "scaling: | a | b |" in capsys.readouterr().out
    evidence["write"](tmp_path, [(scaling, "")])
    assert "| 1 | <2> |" in (tmp_path / "evidence.md").read_text()
    page = (tmp_path / "evidence.html").read_text()
    assert "<td>&lt;2&gt;</td>" in page
    assert "<th>a</th>" in page
    assert (tmp_path / "evidence.csv").read_text().splitlines() == ["scaling,a,b", "scaling,1,<2>"]


def test_a_failed_part_is_named(evidence, tmp_path):
    bad = part(evidence, tmp_path, "tuner", "import sys; print('half'); sys.exit(3)")
    problem = evidence["run"](bad)
    assert problem.startswith("failed with 3 after ")
    assert not bad.table.exists()
    evidence["write"](tmp_path, [(bad, problem)])
    assert "failed with 3" in (tmp_path / "evidence.md").read_text()


def test_columns_of_text_become_cells(evidence, tmp_path):
    model = part(evidence, tmp_path, "model", "")
    model.table.write_text("series   modak   Amdahl\nogun-p2   0.5%   0.6%\n")
    evidence["write"](tmp_path, [(model, "")])
    assert (tmp_path / "evidence.csv").read_text().splitlines()[-1] == "model,ogun-p2,0.5%,0.6%"


def test_a_finished_part_is_not_run_again(evidence, tmp_path, monkeypatch, capsys):
    (tmp_path / "scaling.txt").write_text("| kept |\n|---|\n| yes |\n")
    command = [sys.executable, str(SCRIPT.parent / "scaling_laws.py")]
    (tmp_path / "scaling.done").write_text(shlex.join(command))
    monkeypatch.setattr(sys, "argv", ["evidence_tables.py", "--out", str(tmp_path), "--only", "scaling"])
    assert evidence["main"]() == 0
    assert "scaling: as it was made before" in capsys.readouterr().out
    assert "| yes |" in (tmp_path / "evidence.md").read_text()


def test_a_part_whose_command_has_changed_is_run_again(evidence, tmp_path, capsys):
    options = argparse.Namespace(out=tmp_path, again=[], base=None)
    for number in (1, 1, 2):
        assert evidence["once"](part(evidence, tmp_path, "scaling", f"print('| {number} |')"), options) == ""
    assert capsys.readouterr().out.count("as it was made before") == 1
    assert (tmp_path / "scaling.txt").read_text() == "| 2 |\n"


@pytest.mark.parametrize(("budget", "left", "seconds"), [(None, 2000, 1760), (None, 0, 600), (77, 2000, 77)])
def test_programs_get_what_the_other_parts_left_of_the_hour(evidence, tmp_path, budget, left, seconds):
    options = argparse.Namespace(out=tmp_path, again=[], base=None, budget=budget)
    command = [sys.executable, "-c", "import sys; print(*sys.argv[1:])"]
    programs = evidence["Part"]("programs", command, tmp_path / "programs.txt", budgeted=True)
    assert evidence["once"](programs, options, time.monotonic() + left) == ""
    said = (tmp_path / "programs.txt").read_text().split()
    assert said[0] == "--budget"
    assert int(said[1]) == pytest.approx(seconds, abs=2)
    assert (tmp_path / "programs.done").read_text() == shlex.join(command)
