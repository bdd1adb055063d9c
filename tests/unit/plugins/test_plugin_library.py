"""The plugins name a foreign package modak, which another project on the index has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]


@pytest.mark.parametrize("shape", ["package", "module"])
def test_a_foreign_package_is_named(tmp_path: Path, environment: dict[str, str], shape: str) -> None:
    if shape == "package":
        (tmp_path / "modak").mkdir()
        (tmp_path / "modak" / "__init__.py").write_text("tasks = []\n")
        (tmp_path / "modak" / "cli.py").write_text("")
    else:
        (tmp_path / "modak.py").write_text("tasks = []\n")
    ansible = Path(sys.executable).parent / "ansible"
    done = subprocess.run(
        [ansible, "localhost", "-m", "modak.deploy.target_info"],
        env={**os.environ, **environment, "PYTHONPATH": str(tmp_path), "COLUMNS": "1000"},
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "belongs to another project" in text
    assert "pip install modak-deploy" in text
    assert "Traceback" not in text
