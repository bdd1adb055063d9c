"""Processes that work on a model: what they write is read in bounds."""

from pathlib import Path

import pytest

from modak_deploy.onnx.processes import run_module

PROGRAM = """
import sys

def main(arguments):
    for _ in range(32):
        sys.stdout.write("x" * 1048576)
    print()
    print("modak: halfway")
    print("why")
    sys.stdout.write("modak: the end")
    sys.stdout.flush()
    sys.exit(3)
"""


def test_a_line_without_an_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endless.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "work"
    folder.mkdir()
    reported: list[str] = []
    said = run_module("endless", folder, python=None, timeout=60.0, report=reported.append)
    assert said == f"ended with exit status 3\n    {'x' * 500}\n    why"
    assert reported == ["halfway", "the end"]
    log = (folder / "log").read_text()
    assert len(log) < 100_000
    assert log.endswith("x\nwhy\n")
