"""The plugins need the library modak_deploy; a package modak, which another project on the index has, is no matter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]


def asked(folder: Path, environment: dict[str, str], path: str) -> subprocess.CompletedProcess[str]:
    ansible = Path(sys.executable).parent / "ansible"
    return subprocess.run(
        [ansible, "localhost", "-m", "modak.deploy.target_info"],
        env={**os.environ, **environment, "PYTHONPATH": path, "COLUMNS": "1000"},
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("shape", ["package", "module"])
def test_a_foreign_package_modak_changes_nothing(tmp_path: Path, environment: dict[str, str], shape: str) -> None:
    if shape == "package":
        (tmp_path / "modak").mkdir()
        (tmp_path / "modak" / "__init__.py").write_text("tasks = []\n")
        (tmp_path / "modak" / "cli.py").write_text("")
    else:
        (tmp_path / "modak.py").write_text("tasks = []\n")
    done = asked(tmp_path, environment, os.pathsep.join([str(tmp_path), str(TOP)]))
    text = done.stdout + done.stderr
    assert "not installed" not in text
    assert "target" in text
    assert "Traceback" not in text


def test_a_missing_library_is_named_with_what_installs_it(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "modak_deploy.py").write_text("raise ImportError('No module named modak_deploy')\n")
    done = asked(tmp_path, environment, str(tmp_path))
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "The Python package modak-deploy is not installed for the Python that runs Ansible" in text
    assert "-m pip install modak-deploy" in text
    assert "Traceback" not in text
